package upstreams

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// Bounds of a JSON document that is handed to expressions.
const (
	maxJSONBytes = 1 << 20
	maxJSONDepth = 100
)

// number is a JSON number with a fraction or an exponent: expressions compare it
// as a double, a reference keeps its digits.
type number string

// adapter hands JSON documents to CEL.
type adapter struct{ types.Adapter }

// NativeToValue implements types.Adapter.
func (a adapter) NativeToValue(value any) ref.Val {
	switch v := value.(type) {
	case number:
		f, _ := strconv.ParseFloat(string(v), 64) // out of range gives an infinity, greater than every number
		return types.Double(f)
	case map[string]any:
		return types.NewStringInterfaceMap(a, v)
	case []any:
		return types.NewDynamicList(a, v)
	default:
		return a.Adapter.NativeToValue(value)
	}
}

// decodeJSON reads a document for expressions: objects as map[string]any, lists
// as []any, numbers as exactNumber says. A member given twice makes the document
// unreadable, since parsers disagree about which one counts.
func decodeJSON(body []byte, limit int) (any, error) {
	if len(body) > limit {
		return nil, fmt.Errorf("is larger than %d bytes", limit)
	}
	if !utf8.Valid(body) {
		return nil, errors.New("is not valid UTF-8")
	}
	if err := checkDepth(body); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	value, err := decodeValue(dec)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("holds more than one value")
	}
	return value, nil
}

// withoutBOM is a document without the byte order mark that some servers and editors
// put before it, and that may be ignored (RFC 8259, 8.1; YAML 1.2, 5.2).
func withoutBOM(body []byte) []byte { return bytes.TrimPrefix(body, []byte("\uFEFF")) }

// checkDepth refuses deep nesting before anything recurses into it.
func checkDepth(body []byte) error {
	depth, quoted := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > maxJSONDepth {
				return fmt.Errorf("is nested deeper than %d levels", maxJSONDepth)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

func decodeValue(dec *json.Decoder) (any, error) {
	token, err := dec.Token()
	if err != nil {
		return nil, jsonError(err)
	}
	switch t := token.(type) {
	case json.Delim:
		if t == '{' {
			return decodeObject(dec)
		}
		return decodeList(dec)
	case json.Number:
		return exactNumber(string(t)), nil
	default:
		return t, nil
	}
}

func decodeObject(dec *json.Decoder) (any, error) {
	object := map[string]any{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, jsonError(err)
		}
		key, _ := name.(string)
		if _, twice := object[key]; twice {
			return nil, fmt.Errorf("holds the member %q twice", clip(key, 60))
		}
		if object[key], err = decodeValue(dec); err != nil {
			return nil, err
		}
	}
	_, err := dec.Token()
	return object, jsonError(err)
}

func decodeList(dec *json.Decoder) (any, error) {
	list := []any{}
	for dec.More() {
		value, err := decodeValue(dec)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	_, err := dec.Token()
	return list, jsonError(err)
}

func jsonError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("is cut off")
	}
	if err != nil {
		return errors.New("is not JSON")
	}
	return nil
}

// exactNumber keeps every digit: whole numbers of up to 64 bits are int64 or
// uint64, longer ones become their text, so that two that differ never compare
// equal. Only fractions and exponents are compared as doubles.
func exactNumber(digits string) any {
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil && digits != "-0" {
		return n
	}
	if n, err := strconv.ParseUint(digits, 10, 64); err == nil {
		return n
	}
	if strings.ContainsAny(digits, ".eE") || digits == "-0" {
		return number(digits)
	}
	return digits
}

// formatFloat writes a computed number the way a person would.
func formatFloat(f float64) string {
	if f > -1e21 && f < 1e21 {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// clip shortens text for a message.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit] + "…"
}
