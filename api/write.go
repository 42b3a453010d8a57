package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// writeJSON encodes v and writes it. HTML characters stay as they are: nothing
// here is markup.
func writeJSON(w http.ResponseWriter, status int, contentType string, v any) error {
	body, err := encodeJSON(v)
	if err != nil {
		return err
	}
	return write(w, status, contentType, body)
}

func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	return b.Bytes(), nil
}

// write writes a whole answer. Whether it arrived only the caller can tell.
func write(w http.ResponseWriter, status int, contentType string, body []byte) error {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
	return nil
}

// accepts reports whether the request asks for the media type by name; */* asks
// for the default.
func accepts(r *http.Request, mediaType string) bool {
	return slices.ContainsFunc(r.Header.Values("Accept"), func(v string) bool {
		return slices.ContainsFunc(strings.Split(v, ","), func(item string) bool {
			name, _, _ := strings.Cut(item, ";")
			return strings.EqualFold(strings.TrimSpace(name), mediaType)
		})
	})
}
