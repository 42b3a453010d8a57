package web

import (
	"fmt"
	"time"
)

// inputMoment is how <input type="datetime-local"> writes a moment (WHATWG HTML,
// 2.3.5.5). Ours are UTC, and labelled so.
const inputMoment = "2006-01-02T15:04:05"

// typedMoment reads a moment from a form or an address: as the browser's field
// writes it, which is taken as UTC, as a day, or in RFC 3339. Zero for none.
func typedMoment(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04", inputMoment, "2006-01-02 15:04", "2006-01-02 15:04:05", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time such as 2026-12-01T09:30 (UTC)", text)
}

// fieldMoment is what a field for a moment shows of what was typed, or stood in the
// address.
func fieldMoment(text string) string {
	t, err := typedMoment(text)
	if err != nil || t.IsZero() {
		return text
	}
	return t.UTC().Format(inputMoment)
}
