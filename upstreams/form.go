package upstreams

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"
)

const formType = "application/x-www-form-urlencoded"

// form encodes a JSON object of texts, numbers, booleans and lists of them, in
// its order. A body that is form-encoded already goes as it is.
func (r *rendering) form(key, media string) ([]byte, string) {
	if media == formType {
		return r.encodedForm(key), r.input.ContentType
	}
	if media != "" && !isJSONType(media) {
		r.fail("/content_type", "invalid", "This operation sends a form: give a JSON object, or "+formType+".")
		return nil, ""
	}
	if _, err := decodeJSON(r.input.Body, len(r.input.Body)); err != nil {
		r.fail("/body", "invalid", "The body "+err.Error()+".")
		return nil, ""
	}
	dec := json.NewDecoder(bytes.NewReader(r.input.Body))
	dec.UseNumber()
	if start, _ := dec.Token(); start != json.Delim('{') {
		r.fail("/body", "invalid", "A form is made of a JSON object.")
		return nil, ""
	}
	name, hasKey := r.keyField(key), false
	var fields []string
	for dec.More() {
		token, _ := dec.Token()
		member, _ := token.(string)
		var value any
		if err := dec.Decode(&value); err != nil {
			r.fail("/body", "invalid", "The body cannot be read.")
			return nil, ""
		}
		if key != "" && member == name {
			hasKey = true
			r.sameKey(value, key)
		}
		fields = append(fields, r.formFields(member, value)...)
	}
	if key != "" && !hasKey {
		fields = append(fields, url.QueryEscape(name)+"="+url.QueryEscape(key))
	}
	return []byte(strings.Join(fields, "&")), formType
}

// formFields writes one member; a list is written as the name repeated.
func (r *rendering) formFields(name string, value any) []string {
	list, isList := value.([]any)
	if !isList {
		list = []any{value}
	}
	var out []string
	for _, v := range list {
		text, ok := formText(v)
		if !ok {
			r.fail("/body"+pointer(name), "invalid", "A form holds texts, numbers, booleans and lists of them. Write the vendor's spelling of deeper values as the name, such as metadata[order].")
			return nil
		}
		out = append(out, url.QueryEscape(name)+"="+url.QueryEscape(text))
	}
	return out
}

func formText(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		if v {
			return "true", true
		}
		return "false", true
	default:
		return "", false
	}
}

// encodedForm sends the bytes as they came, and the key behind them.
func (r *rendering) encodedForm(key string) []byte {
	body := r.input.Body
	values, err := url.ParseQuery(string(body))
	if err != nil {
		r.fail("/body", "invalid", "The body is not form-encoded.")
		return nil
	}
	if key == "" {
		return body
	}
	name := r.keyField(key)
	if there, ok := values[name]; ok {
		r.sameKey(strings.Join(there, "\x00"), key)
		return body
	}
	field := url.QueryEscape(name) + "=" + url.QueryEscape(key)
	if len(body) > 0 {
		field = "&" + field
	}
	return append(bytes.Clone(body), field...)
}

// keyField is the form field that holds the key.
func (r *rendering) keyField(key string) string {
	if key == "" {
		return ""
	}
	tokens, _ := parsePointer(r.operation.Idempotency.Key.Name)
	return tokens[0]
}

func (r *rendering) sameKey(there any, key string) {
	if there != key {
		r.fail("/body"+r.operation.Idempotency.Key.Name, "conflict", "The idempotency key goes here, and another value stands there.")
	}
}
