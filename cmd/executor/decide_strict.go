package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// parseStrict decodes one JSON object into v. Besides malformed input it
// refuses unknown members, members given twice and names in another case.
func parseStrict(line []byte, v any) error {
	if !utf8.Valid(line) {
		return errors.New("not valid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return errors.New(jsonComplaint(err))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON value in the line")
	}
	return checkMembers(json.NewDecoder(bytes.NewReader(line)))
}

// jsonComplaint is an error of encoding/json in the words of this command.
func jsonComplaint(err error) string {
	var kind *json.UnmarshalTypeError
	switch text := strings.TrimPrefix(err.Error(), "json: "); {
	case errors.As(err, &kind) && kind.Field == "":
		return "not a JSON object"
	case errors.As(err, &kind):
		return fmt.Sprintf("%s: a JSON %s does not fit", kind.Field, kind.Value)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return "the JSON object does not end"
	default:
		return strings.Replace(text, "unknown field", "unknown member", 1)
	}
}

// checkMembers walks one valid JSON value and refuses what encoding/json lets
// pass: a member given twice, and a name that differs from ours in case only.
func checkMembers(dec *json.Decoder) error {
	token, err := dec.Token()
	if err != nil {
		return err
	}
	switch token {
	case json.Delim('{'):
		return checkObject(dec)
	case json.Delim('['):
		for dec.More() {
			if err := checkMembers(dec); err != nil {
				return err
			}
		}
		_, err = dec.Token()
		return err
	default:
		return nil
	}
}

func checkObject(dec *json.Decoder) error {
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		name := fmt.Sprint(token)
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") != "" {
			return fmt.Errorf("unknown member %q", name)
		}
		if seen[name] {
			return fmt.Errorf("member %q is given twice", name)
		}
		seen[name] = true
		if err := checkMembers(dec); err != nil {
			return err
		}
	}
	_, err := dec.Token()
	return err
}
