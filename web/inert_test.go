package web_test

import (
	"testing"
	"unicode/utf8"

	"executor/web"
)

func TestInert(t *testing.T) {
	for in, want := range map[string]string{
		"plain <b>\n\ttext</b> žluťoučký 支払い 👩‍💻": "plain <b>\n\ttext</b> žluťoučký 支払い 👩‍💻",
		"a\x1b[31mred":       `a\u001B[31mred`,
		"a\u202Egpj.exe":     `a\u202Egpj.exe`,
		"nul\x00here":        `nul\u0000here`,
		"bad\xff\xfeutf":     `bad\xFF\xFEutf`,
		"a\u2066b\u2069":     `a\u2066b\u2069`,
		"zero\u200Bwidth":    `zero\u200Bwidth`,
		"\uFEFFmark":         `\uFEFFmark`,
		"line\u2028end\r\n":  "line\\u2028end\\u000D\n",
		"c1\u0085\u009b31m":  `c1\u0085\u009B31m`,
		"replaced\uFFFDhere": `replaced\uFFFDhere`,
		"tag\U000E0041":      `tag\uE0041`,
	} {
		if got := string(web.Inert([]byte(in))); got != want {
			t.Errorf("Inert(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzInert(f *testing.F) {
	f.Add([]byte("a\x1b[31m\u202E\xff"))
	f.Fuzz(func(t *testing.T, page []byte) {
		got := web.Inert(page)
		if !utf8.Valid(got) {
			t.Errorf("Inert(%q) is not UTF-8: %q", page, got)
		}
		if again := web.Inert(got); string(again) != string(got) {
			t.Errorf("Inert(%q) changes twice: %q, %q", page, got, again)
		}
	})
}
