package api

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// text reads a string that becomes text of ours. What text columns cannot hold
// is named by bad.
func (r *jsonReader) text() (s, bad string, err error) {
	raw, escaped, err := r.string()
	if err != nil || !escaped {
		return string(raw), "", err
	}
	decoded := unescape(raw)
	return string(decoded), badText(decoded), nil
}

// badText names what text columns cannot hold: nul_character or lone_surrogate;
// "" if there is nothing of it.
func badText(decoded []byte) string {
	switch {
	case bytes.IndexByte(decoded, 0) >= 0:
		return "nul_character"
	case !utf8.Valid(decoded): // the source was valid: only a lone surrogate can do this
		return "lone_surrogate"
	}
	return ""
}

// unescape decodes a string that was read before. A lone surrogate becomes the
// three bytes that UTF-8 would give it: invalid, but different for each.
func unescape(raw []byte) []byte {
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			out = append(out, raw[i])
			i++
			continue
		}
		if raw[i+1] != 'u' {
			out = append(out, simpleEscape(raw[i+1]))
			i += 2
			continue
		}
		c := hex4(raw[i+2 : i+6])
		i += 6
		if utf16.IsSurrogate(c) && len(raw) >= i+6 && raw[i] == '\\' && raw[i+1] == 'u' {
			if pair := utf16.DecodeRune(c, hex4(raw[i+2:i+6])); pair != utf8.RuneError {
				c = pair
				i += 6
			}
		}
		if utf16.IsSurrogate(c) {
			out = append(out, 0xED, 0x80|byte(c>>6)&0x3F, 0x80|byte(c)&0x3F)
			continue
		}
		out = utf8.AppendRune(out, c)
	}
	return out
}

func simpleEscape(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c // ", \ and /
}

// hex4 is the value of four hexadecimal digits, or -1.
func hex4(b []byte) rune {
	var v rune
	for _, c := range b {
		switch {
		case '0' <= c && c <= '9':
			v = v<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			v = v<<4 | rune(c|0x20-'a'+10)
		default:
			return -1
		}
	}
	return v
}

// quote shows a name in an error, cut to a length people can read.
func quote(name []byte) string {
	s := strings.ToValidUTF8(string(name), "\uFFFD")
	if len(s) > 64 {
		s = strings.ToValidUTF8(s[:64], "") + "…"
	}
	b, _ := json.Marshal(s) // a valid string always encodes
	return string(b)
}
