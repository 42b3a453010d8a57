package web

import (
	"bytes"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// inert makes finished HTML harmless to the eye as well: control characters,
// escape sequences of terminals, marks that reverse the direction of text, and
// bytes that are no UTF-8 are replaced by their names. Pages of ours contain none
// of them, so that what is found came from somebody else. Joiners stay: scripts
// and emoji need them.
func inert(page []byte) []byte {
	if !bytes.ContainsFunc(page, disguises) {
		return page
	}
	out := make([]byte, 0, len(page)+64)
	for len(page) > 0 {
		r, size := utf8.DecodeRune(page)
		switch {
		case r == utf8.RuneError && size == 1:
			out = fmt.Appendf(out, `\x%02X`, page[0])
		case disguises(r):
			out = fmt.Appendf(out, `\u%04X`, r)
		default:
			out = append(out, page[:size]...)
		}
		page = page[size:]
	}
	return out
}

// disguises tells the characters that can make text look like another. U+FFFD is
// looked at closer: it also stands for a byte that is no UTF-8.
func disguises(r rune) bool {
	switch {
	case r == '\n', r == '\t':
		return false
	case r == utf8.RuneError:
		return true
	case unicode.IsControl(r):
		return true
	case r >= 0x202A && r <= 0x202E, r >= 0x2066 && r <= 0x2069, r == 0x200E, r == 0x200F, r == 0x061C: // direction
		return true
	case r == 0x2028, r == 0x2029, r == 0xFEFF, r == 0x200B, r == 0x2060, r == 0x00AD: // line ends and what cannot be seen
		return true
	case r >= 0xE0000 && r <= 0xE007F, r >= 0xFFF9 && r <= 0xFFFB: // tags, annotations
		return true
	default:
		return false
	}
}
