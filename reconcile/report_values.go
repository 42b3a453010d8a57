package reconcile

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// commandField is a field of a command that a column is compared with.
type commandField struct {
	metadata string   // the name of one, or
	body     []string // the way to a member of the body
}

// parseField reads metadata.NAME, or a JSON pointer such as /body/amount.
func parseField(s string) (commandField, error) {
	if name, ok := strings.CutPrefix(s, "metadata."); ok && name != "" {
		return commandField{metadata: name}, nil
	}
	if path := pointerPath(s); len(path) > 1 && path[0] == "body" {
		return commandField{body: path[1:]}, nil
	}
	return commandField{}, fmt.Errorf("%q is no field of a command: write /body/NAME or metadata.NAME", clip(s))
}

// pointerPath splits a JSON pointer (RFC 6901); nil if it is none.
func pointerPath(pointer string) []string {
	if !strings.HasPrefix(pointer, "/") {
		return nil
	}
	path := strings.Split(pointer[1:], "/")
	for i, step := range path {
		path[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
	}
	return path
}

// fieldText is a value as it is compared.
type fieldText struct {
	text     string
	number   bool // a JSON number
	composed bool // a JSON object or list
}

func (v *fieldText) pointer() *string {
	if v == nil {
		return nil
	}
	return &v.text
}

// textAt reads the value at a path as text; nil where there is none, or null.
func textAt(document any, path []string) (*fieldText, error) {
	value := document
	for _, step := range path {
		switch v := value.(type) {
		case map[string]any:
			value = v[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(v) || strconv.Itoa(i) != step {
				return nil, nil
			}
			value = v[i]
		default:
			return nil, nil
		}
	}
	return textOf(value)
}

func textOf(value any) (*fieldText, error) {
	switch v := value.(type) {
	case nil:
		return nil, nil
	case string:
		return &fieldText{text: v}, checkText(v)
	case json.Number:
		return &fieldText{text: v.String(), number: true}, nil
	case bool:
		return &fieldText{text: strconv.FormatBool(v)}, nil
	default:
		data, err := json.Marshal(v)
		return &fieldText{text: string(data), composed: true}, err
	}
}

// bodyAt reads a member of a request body: JSON, or a form's field that is there
// once.
func bodyAt(body []byte, contentType string, paths [][]string) ([]*fieldText, error) {
	values := make([]*fieldText, len(paths))
	if strings.HasPrefix(contentType, "application/x-www-form-urlencoded") {
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return values, err
		}
		for i, path := range paths {
			if len(path) == 1 && len(form[path[0]]) == 1 {
				values[i] = &fieldText{text: form[path[0]][0]}
			}
		}
		return values, nil
	}
	document, err := strictJSON(body)
	if err != nil {
		return values, err
	}
	for i, path := range paths {
		value, bad := textAt(document, path)
		if bad != nil {
			err = errors.Join(err, bad)
			continue
		}
		values[i] = value
	}
	return values, err
}

// equalValues compares what we have with what the report has: as exact decimal
// numbers if both are ones, else byte by byte. Nothing equals an empty cell.
func equalValues(ours *fieldText, theirs *string) bool {
	if ours == nil || theirs == nil {
		return ours == nil && (theirs == nil || *theirs == "")
	}
	if ours.text == *theirs {
		return true
	}
	a, ok := parseDecimal(ours.text, ours.number)
	if !ok {
		return false
	}
	b, ok := parseDecimal(strings.TrimPrefix(strings.TrimSpace(*theirs), "+"), ours.number)
	return ok && a.equal(b)
}

// decimal is the number ±0.DIGITS × 10^exponent: never a float, so that no two
// different amounts are one.
type decimal struct {
	negative bool
	digits   string // neither begins nor ends in 0; "" is zero
	exponent int
}

func (d decimal) equal(e decimal) bool { return d == e }

const maxExponent = 1_000_000

// parseDecimal reads a number as JSON writes it, so that 0012 is none: it is more
// likely a name. Exponents count only where a JSON number is compared.
func parseDecimal(s string, exponents bool) (decimal, bool) {
	var d decimal
	mantissa, exponent := s, 0
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		n, err := strconv.Atoi(s[i+1:])
		if err != nil || !exponents || n > maxExponent || n < -maxExponent {
			return d, false
		}
		mantissa, exponent = s[:i], n
	}
	mantissa, d.negative = strings.CutPrefix(mantissa, "-")
	whole, fraction, point := strings.Cut(mantissa, ".")
	if !allDigits(whole) || point && !allDigits(fraction) || len(whole) > 1 && whole[0] == '0' {
		return decimal{}, false
	}
	digits := strings.TrimLeft(whole+fraction, "0")
	d.exponent = exponent + len(whole) - (len(whole+fraction) - len(digits))
	d.digits = strings.TrimRight(digits, "0")
	if d.digits == "" {
		return decimal{}, true // there is one zero
	}
	return d, true
}

func allDigits(s string) bool {
	return s != "" && !slices.ContainsFunc([]byte(s), func(c byte) bool { return c < '0' || c > '9' })
}
