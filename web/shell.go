package web

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// shellQuote makes one argument of a POSIX shell (XCU 2.2) of a text, and nothing
// but that text. Characters that a page shows by name, because they could disguise
// what stands there, are written as numbers, so that what is copied is what is meant.
// NUL cannot be part of an argument and is left out.
func shellQuote(text string) string {
	if text != "" && strings.Trim(text, plainArgument) == "" {
		return text
	}
	var b strings.Builder
	open := false
	turn := func(quoted bool) {
		if open != quoted {
			b.WriteByte('\'')
			open = quoted
		}
	}
	eachVisible(text, func(piece string, visible bool) {
		switch {
		case piece == "\x00":
		case visible:
			turn(true)
			b.WriteString(strings.ReplaceAll(piece, `'`, `'\''`))
		default:
			turn(false)
			b.WriteString(`"$(printf '` + octal(piece) + `')"`)
		}
	})
	turn(false)
	if b.Len() == 0 {
		return "''"
	}
	return b.String()
}

// plainArgument needs no quotes in any shell.
const plainArgument = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@%+,-"

// shellPrint is a command that prints exactly these bytes, whatever they are.
func shellPrint(data []byte) string {
	var b strings.Builder
	eachVisible(string(data), func(piece string, visible bool) {
		switch {
		case !visible:
			b.WriteString(octal(piece))
		case piece == "-" && b.Len() == 0: // it would begin an option
			b.WriteString(octal(piece))
		default:
			b.WriteString(printfLiteral.Replace(piece))
		}
	})
	return `printf '` + b.String() + `'`
}

var printfLiteral = strings.NewReplacer(`\`, `\\`, `%`, `%%`, `'`, `'\''`)

// inArgument reports whether the text can stand in quotes as it is seen.
func inArgument(text string) bool {
	plain := true
	eachVisible(text, func(_ string, visible bool) { plain = plain && visible })
	return plain
}

// eachVisible goes through a text by characters and by bytes that are none.
func eachVisible(text string, each func(piece string, visible bool)) {
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		invalid := r == utf8.RuneError && size == 1
		each(text[:size], !invalid && (r == utf8.RuneError || !disguises(r)))
		text = text[size:]
	}
}

// octal writes bytes as printf reads them.
func octal(piece string) string {
	var b strings.Builder
	for i := range len(piece) {
		fmt.Fprintf(&b, `\%03o`, piece[i])
	}
	return b.String()
}
