// Package seal keeps secrets unreadable in the database: AES-256-GCM under a key
// of the deployment, bound to the place where the secret is kept.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
)

var (
	// ErrUnknownKey: it was sealed under a key that this process does not have.
	ErrUnknownKey = errors.New("sealed under a key that is not configured: list it among the older keys")
	// ErrAltered: it is not what was sealed for this place.
	ErrAltered = errors.New("not what was sealed for this place: it was altered, or moved from another row")
)

// What is sealed begins with a version and the id of its key.
const (
	version    = 1
	keyIDBytes = 4
	prefix     = 1 + keyIDBytes

	// MarkBytes is the length of what Mark returns.
	MarkBytes = prefix
)

type keyID [keyIDBytes]byte

// Box seals under its current key and opens what is sealed under any of its keys.
type Box struct {
	current keyID
	keys    map[keyID]cipher.AEAD
	tags    [][]byte // keys of Tag, the current one first
}

// New makes a Box of keys as ParseKey returns them. Older ones only open: to
// change the key, make it the current one and keep the one before until nothing
// is sealed under it any more.
func New(current []byte, older ...[]byte) (*Box, error) {
	b := &Box{keys: make(map[keyID]cipher.AEAD, 1+len(older))}
	for i, key := range append([][]byte{current}, older...) {
		id, aead, err := derive(key)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			b.current = id
		}
		b.keys[id] = aead
		tag, err := hkdf.Key(sha256.New, key, nil, "executor seal 1: hmac-sha256", KeyBytes)
		if err != nil {
			return nil, fmt.Errorf("derive the key of tags: %w", err)
		}
		b.tags = append(b.tags, tag)
	}
	return b, nil
}

// derive takes a subkey and a name for it out of a key, so that the key itself
// is used for nothing and the name tells nothing (RFC 5869).
func derive(key []byte) (id keyID, aead cipher.AEAD, err error) {
	if len(key) != KeyBytes {
		return id, nil, fmt.Errorf("a key has %d bytes, not %d", KeyBytes, len(key))
	}
	subkey, err := hkdf.Key(sha256.New, key, nil, "executor seal 1: aes-256-gcm", KeyBytes)
	if err != nil {
		return id, nil, fmt.Errorf("derive the sealing key: %w", err)
	}
	name, err := hkdf.Key(sha256.New, key, nil, "executor seal 1: key id", keyIDBytes)
	if err != nil {
		return id, nil, fmt.Errorf("derive the name of the sealing key: %w", err)
	}
	block, err := aes.NewCipher(subkey)
	if err != nil {
		return id, nil, err
	}
	aead, err = cipher.NewGCMWithRandomNonce(block)
	return keyID(name), aead, err
}

// Seal encrypts. The context names the place where the result is kept, such as
// "table/row/column": it opens nowhere else.
func (b *Box) Seal(plain []byte, context string) []byte {
	head := b.Mark()
	bound := additional(head, context)
	return b.keys[b.current].Seal(head, nil, plain, bound)
}

// Open decrypts what Seal made for the same context. Its errors are
// ErrUnknownKey and ErrAltered.
func (b *Box) Open(sealed []byte, context string) ([]byte, error) {
	if len(sealed) < prefix || sealed[0] != version {
		return nil, ErrAltered
	}
	head := sealed[:prefix]
	aead, ok := b.keys[keyID(head[1:])]
	if !ok {
		return nil, ErrUnknownKey
	}
	plain, err := aead.Open(nil, nil, sealed[prefix:], additional(head, context))
	if err != nil {
		return nil, ErrAltered
	}
	return plain, nil
}

// Mark is what everything begins with that is sealed under the current key; what
// begins otherwise is to be sealed anew before an older key can go.
func (b *Box) Mark() []byte { return append([]byte{version}, b.current[:]...) }

// Knows says whether what begins like this can be opened here, if it is whole.
func (b *Box) Knows(sealed []byte) bool {
	if len(sealed) < prefix || sealed[0] != version {
		return false
	}
	_, ok := b.keys[keyID(sealed[1:prefix])]
	return ok
}

// KeyName names the key of what begins like this. It tells nothing about the key.
func KeyName(sealed []byte) string {
	if len(sealed) < prefix || sealed[0] != version {
		return "unknown"
	}
	return hex.EncodeToString(sealed[1:prefix])
}

// additional is what the seal covers besides the secret.
func additional(head []byte, context string) []byte {
	return append(append([]byte{}, head...), context...)
}
