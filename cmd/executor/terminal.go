package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// plainLines is plain for text that has lines of its own.
func plainLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = plain(lines[i])
	}
	return strings.Join(lines, "\n")
}

// jsonWriter passes JSON on, a document or a line with each Write, and escapes what
// a terminal or a reader could be deceived by: JSON itself lets through everything
// above the space, such as the control characters from U+0080 and those that turn
// text around. The meaning stays.
type jsonWriter struct{ w io.Writer }

func (j jsonWriter) Write(p []byte) (int, error) {
	if bytes.IndexFunc(p, deceives) < 0 {
		return j.w.Write(p)
	}
	var b bytes.Buffer
	for rest := p; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		rest = rest[size:]
		switch {
		case !deceives(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	if _, err := j.w.Write(b.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// deceives reports what does not print; the line ends between JSON's members do no
// harm, and in its texts they are escaped already.
func deceives(r rune) bool {
	return r == utf8.RuneError || r != '\n' && !unicode.IsPrint(r)
}
