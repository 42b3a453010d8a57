package egress

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// deepest is how many times over a text may have been written down.
	deepest = 4
	// longestRun bounds a run of backslashes, or of blanks within base64: what does
	// not end is no spelling, and is not to be read anew from each of its places.
	longestRun = 64
)

// reading compares a text with a trace, of which every sign may be spelled in one
// of several ways.
type reading struct {
	text  []byte
	trace trace
	cut   bool // the text may have been cut off
	left  *int // how many bytes may still be compared
}

// match is where in the text the trace ends that begins at a place, of which done
// bytes are read already; 0 if it does not.
func (r *reading) match(at, done int) int {
	for done < len(r.trace.text) && at < len(r.text) && r.plain(at, done) {
		at, done, *r.left = at+1, done+1, *r.left-1
	}
	if *r.left--; *r.left < 0 {
		return 0
	}
	if done == len(r.trace.text) {
		return at
	}
	if r.trace.wrapped && done > 0 {
		at = skipBreak(r.text, at)
	}
	if r.cut && done >= begun && unfinished(r.text[at:]) {
		return len(r.text)
	}
	if at >= len(r.text) || !introduces(r.text[at]) && !r.trace.wrapped {
		return 0
	}
	var found [8]spelled
	for _, s := range spellingsAt(r.text, at, found[:0]) {
		if r.fits(s, done) {
			if end := r.match(at+s.width, done+s.size); end > 0 {
				return end
			}
		}
		if done > 0 && r.trace.text[done-1] == '\\' && s.size == 1 && s.means[0] == '\\' { // one more of a run
			if end := r.match(at+s.width, done); end > 0 {
				return end
			}
		}
	}
	return 0
}

// plain says that the next byte stands for itself and is the one that is wanted.
func (r *reading) plain(at, done int) bool {
	c, want := r.text[at], r.trace.text[done]
	return !introduces(c) && (c == want || r.trace.anyCase && c|0x20 == want)
}

// introduces tells the bytes that may begin the spelling of another.
func introduces(c byte) bool { return c == '\\' || c == '%' || c == '&' || c == '+' }

func (r *reading) fits(s spelled, done int) bool {
	rest := r.trace.text[done:]
	if r.trace.anyCase {
		return s.size == 1 && s.means[0]|0x20 == rest[0]|0x20
	}
	return len(rest) >= s.size && rest[:s.size] == string(s.means[:s.size])
}

// spelled is a character as it is written somewhere.
type spelled struct {
	means [utf8.UTFMax]byte
	size  int
	width int // bytes that it takes there
}

func spells(r rune, width int) spelled {
	s := spelled{width: width}
	s.size = utf8.EncodeRune(s.means[:], r)
	return s
}

func spellsByte(c byte, width int) spelled {
	return spelled{means: [utf8.UTFMax]byte{c}, size: 1, width: width}
}

// spellingsAt adds what can be read at a place: what stands there, and what it
// stands for in JSON and source code, in URLs and in HTML, if written once or
// several times over.
func spellingsAt(text []byte, at int, found []spelled) []spelled {
	if at >= len(text) {
		return found
	}
	rest := text[at:]
	switch rest[0] {
	case '\\':
		return backslashed(rest, found)
	case '%':
		found = percented(rest, found)
	case '&':
		found = entity(rest, 1, found)
	case '+':
		found = append(found, spellsByte(' ', 1))
	}
	return append(found, spellsByte(rest[0], 1))
}

// backslashed reads a run of backslashes and what follows: \u0041, \x41, \" and the
// like, or the backslash itself.
func backslashed(rest []byte, found []spelled) []spelled {
	run := 1
	for run < min(len(rest), longestRun) && rest[run] == '\\' {
		run++
	}
	after := rest[run:]
	if len(after) == 0 {
		return append(found, spellsByte('\\', run))
	}
	if code, ok := hexAt(after, "u", 4); ok {
		found = append(found, spells(rune(code), run+5))
		if code == '&' {
			found = entity(rest, run+5, found)
		}
	}
	if code, ok := hexAt(after, "x", 2); ok {
		found = append(found, spellsByte(byte(code), run+3))
	}
	return append(found, spellsByte(after[0], run+1), spellsByte('\\', run))
}

// percented reads %41, and %2541 for the same written twice.
func percented(rest []byte, found []spelled) []spelled {
	from := 1
	for range deepest {
		if !bytes.HasPrefix(rest[from:], []byte("25")) {
			break
		}
		from += 2
		found = append(found, spellsByte('%', from))
	}
	if code, ok := hexAt(rest[from:], "", 2); ok {
		found = append(found, spellsByte(byte(code), from+2))
		if code == '+' {
			found = append(found, spellsByte(' ', from+2))
		}
	}
	return found
}

var entities = []struct {
	name string
	char byte
}{{"lt;", '<'}, {"gt;", '>'}, {"quot;", '"'}, {"apos;", '\''}, {"nbsp;", ' '}}

// entity reads what follows the & of HTML: &lt; &#60; &#x3c; and &amp;lt; for the
// same written twice.
func entity(rest []byte, from int, found []spelled) []spelled {
	for range deepest {
		if !bytes.HasPrefix(rest[from:], []byte("amp;")) {
			break
		}
		from += 4
		found = append(found, spellsByte('&', from))
	}
	for _, e := range entities {
		if bytes.HasPrefix(rest[from:], []byte(e.name)) {
			return append(found, spellsByte(e.char, from+len(e.name)))
		}
	}
	number, _, ended := bytes.Cut(rest[from:min(len(rest), from+10)], []byte(";"))
	digits, numbered := strings.CutPrefix(strings.ToLower(string(number)), "#")
	if !ended || !numbered {
		return found
	}
	base := 10
	if hexadecimal, is := strings.CutPrefix(digits, "x"); is {
		digits, base = hexadecimal, 16
	}
	if code, err := strconv.ParseUint(digits, base, 21); err == nil {
		found = append(found, spells(rune(code), from+len(number)+1))
	}
	return found
}

// hexAt reads so many hexadecimal digits behind a letter.
func hexAt(rest []byte, letter string, digits int) (code uint64, ok bool) {
	if len(rest) < len(letter)+digits || string(rest[:len(letter)]) != letter {
		return 0, false
	}
	code, err := strconv.ParseUint(string(rest[len(letter):len(letter)+digits]), 16, 32)
	return code, err == nil
}

// skipBreak skips the line breaks and blanks that long base64 is broken up with.
func skipBreak(text []byte, at int) int {
	for from := at; at < min(len(text), from+longestRun); {
		switch {
		case text[at] == '\n', text[at] == '\r', text[at] == ' ', text[at] == '\t':
			at++
		case text[at] == '\\' && at+1 < len(text) && (text[at+1] == 'n' || text[at+1] == 'r'):
			at += 2
		default:
			return at
		}
	}
	return at
}

// unfinished says that a text is over, or within the spelling of one character.
func unfinished(rest []byte) bool {
	return len(rest) == 0 || string(rest) == "…" || len(rest) < 12 && strings.IndexByte(`\%&`, rest[0]) >= 0
}
