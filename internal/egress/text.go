package egress

import (
	"strings"
	"unicode"
)

// maxLine bounds the text of one line, in bytes.
const maxLine = 300

// Line makes text from elsewhere, such as an error that quotes a peer, fit for a
// row and a line of a log: short, and without what does not print.
func Line(text string) string {
	text = strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return ' '
		}
		return c
	}, text)
	if len(text) > maxLine {
		text = strings.ToValidUTF8(text[:maxLine], "") + "…"
	}
	return text
}
