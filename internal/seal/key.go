package seal

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// KeyBytes is the length of a key.
const KeyBytes = 32

const makeOne = "make one with: openssl rand -base64 32"

// ParseKey reads a key from base64, in either alphabet, padded or not. Its errors
// never contain the text.
func ParseKey(text string) ([]byte, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, errors.New("the key is empty; " + makeOne)
	}
	plain := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(text, "="))
	key, err := base64.RawStdEncoding.DecodeString(plain)
	switch {
	case err != nil:
		return nil, errors.New("the key is not base64; " + makeOne)
	case len(key) != KeyBytes:
		return nil, fmt.Errorf("the key has %d bytes instead of %d; %s", len(key), KeyBytes, makeOne)
	case bytes.Count(key, key[:1]) == KeyBytes:
		return nil, errors.New("the key is one byte again and again; " + makeOne)
	default:
		return key, nil
	}
}
