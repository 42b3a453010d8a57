package egress

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strings"
	"testing"
)

// hushed holds what every spelling spells differently.
const hushed = `Kq7/+=<&"> '\%~;:Px9Vu`

func escaped(text, format string) string {
	var b strings.Builder
	for i := range len(text) {
		fmt.Fprintf(&b, format, text[i])
	}
	return b.String()
}

func asJSONText(text string) string {
	b, _ := json.Marshal(text)
	return string(b[1 : len(b)-1])
}

// spelledOut is a secret as others write it down.
func spelledOut(value string) map[string]string {
	wrapped := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("before", 10) + value))
	return map[string]string{
		"raw": value, "query": url.QueryEscape(value), "path": url.PathEscape(value), "lower query": "Kq7%2f%2b%3d" + value[6:],
		"all escaped": escaped(value, "%%%02x"), "twice escaped": url.QueryEscape(url.QueryEscape(value)),
		"json": asJSONText(value), "json twice": asJSONText(asJSONText(value)), "json thrice": asJSONText(asJSONText(asJSONText(value))),
		"unicode": escaped(value, `\u%04x`), "upper unicode": escaped(value, `\u%04X`), "source": escaped(value, `\x%02x`), "go": strings.Trim(fmt.Sprintf("%q", value), `"`),
		"html": html.EscapeString(value), "html twice": html.EscapeString(html.EscapeString(value)), "html in json": asJSONText(html.EscapeString(value)),
		"decimal": escaped(value, "&#%d;"), "hexadecimal": escaped(value, "&#x%X;"), "slashes": strings.ReplaceAll(asJSONText(value), "/", `\/`),
		"hex": hex.EncodeToString([]byte(value)), "upper hex": strings.ToUpper(hex.EncodeToString([]byte(value))),
		"base64 raw": base64.RawStdEncoding.EncodeToString([]byte(value)), "base64 of more": base64.StdEncoding.EncodeToString([]byte("u:" + value + "!")),
		"base64 at 1": base64.URLEncoding.EncodeToString([]byte("u" + value)), "base64 in lines": wrapped[:76] + "\r\n" + wrapped[76:],
		"base64 in a JSON text": asJSONText(wrapped[:76] + "\n" + wrapped[76:]),
	}
}

// telling are pieces of a secret that would tell it, in whatever spelling.
func telling(text string) bool {
	for _, form := range []string{"Px9Vu", escaped("Px9Vu", "%%%02x"), hex.EncodeToString([]byte("Px9Vu")), escaped("Px9Vu", "&#%d;"), escaped("Px9Vu", `\u%04x`)} {
		if strings.Contains(strings.ToLower(text), strings.ToLower(form)) {
			return true
		}
	}
	for offset := range 3 {
		encoded := base64.StdEncoding.EncodeToString(append(make([]byte, offset), "Px9Vu"...))
		if strings.Contains(text, encoded[(offset*8+5)/6:(offset+5)*8/6]) {
			return true
		}
	}
	return false
}

func TestMaskTakesEverySpellingOut(t *testing.T) {
	s := NewSecret(hushed)
	for name, form := range spelledOut(hushed) {
		got := string(Mask([]byte(`{"echo":"`+form+`","n":1}`), s, Secret{}))
		if telling(got) || !strings.HasPrefix(got, `{"echo":"`) || !strings.HasSuffix(got, `","n":1}`) {
			t.Errorf("%s: %q became %q", name, form, got)
		}
		if twice := string(Mask([]byte(form+" "+form), s)); telling(twice) {
			t.Errorf("%s, twice: %q", name, twice)
		}
	}
	for _, form := range []string{url.QueryEscape(asJSONText(hushed)), escaped(asJSONText(hushed), "%%%02x"), escaped(asJSONText(hushed), "&#%d;")} {
		if got := string(Mask([]byte(form), NewSecret(asJSONText(hushed)))); got != redacted {
			t.Errorf("backslashes in a row, %q: %q", form, got)
		}
	}
	if got := string(Mask([]byte("ab\xffmüßiges Geheimnis\xff"), NewSecret("müßiges Geheimnis"))); got != "ab\xff[redacted]\xff" {
		t.Errorf("beyond ASCII: %q", got)
	}
	if got := string(Mask([]byte(`m\u00fc\u00dfiges+Geheimnis`), NewSecret("müßiges Geheimnis"))); got != "[redacted]" {
		t.Errorf("beyond ASCII, escaped: %q", got)
	}
}

func TestMaskLeavesTheRestAlone(t *testing.T) {
	for _, text := range []string{"short words stay", `{"a":"\\\"%25&amp;+","b":"Kq7/+=<&x"}`, strings.Repeat(`\`, 300), "", "Kq7/+=<&\"> '\\%~;:Px9V"} {
		body := []byte(text)
		if got := Mask(body, NewSecret("short"), NewSecret(""), NewSecret(hushed)); string(got) != text || len(body) > 0 && &got[0] != &body[0] {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// A text that was cut off ends within a secret, and within each of its spellings.
func TestMaskSeesASecretThatWasCutOff(t *testing.T) {
	s := NewSecret(hushed)
	for name, form := range spelledOut(hushed) {
		if strings.HasPrefix(name, "base64") { // begins with something else
			continue
		}
		for n := len(form) / 2; n < len(form); n++ {
			if got := string(MaskCut([]byte("x "+form[:n]), s)); !strings.HasPrefix(got, "x [redacted]") || len(got) > len("x [redacted]") {
				t.Errorf("%s, cut at %d: %q", name, n, got)
			}
		}
	}
	if got := string(MaskCut([]byte("said "+hushed[:9]+"…"), s)); got != "said [redacted]" {
		t.Errorf("shortened: %q", got)
	}
	if got := string(MaskCut([]byte("it ends with Kq"), s)); got != "it ends with Kq" {
		t.Errorf("two letters became %q", got)
	}
}

func TestKeepMasksAcrossItsLimit(t *testing.T) {
	s := NewSecret(hushed)
	for most := int64(1); most < 60; most++ {
		body := strings.Repeat("a", 20) + asJSONText(hushed) + strings.Repeat("b", 40)
		kept, truncated := NewMasker(s).Keep([]byte(body), most, false)
		if strings.Contains(string(kept), "Kq7") || int64(len(kept)) > most || !truncated {
			t.Errorf("limit %d keeps %q, truncated %t", most, kept, truncated)
		}
	}
	if kept, truncated := NewMasker(s).Keep([]byte("whole"), 5, false); string(kept) != "whole" || truncated {
		t.Errorf("%q, %t", kept, truncated)
	}
	if kept, truncated := NewMasker(s).Keep([]byte("ends "+hushed[:6]), 0, true); string(kept) != "ends [redacted]" || truncated {
		t.Errorf("%q, %t", kept, truncated)
	}
}

// TestMaskGivesUp: what an upstream has chosen so that comparing never ends is taken
// out whole, and so is what comes after it.
func TestMaskGivesUp(t *testing.T) {
	long := strings.Repeat("a", 400<<10)
	many := []Secret{NewSecret(hushed)}
	for i := range 20_000 {
		many = append(many, NewSecret(fmt.Sprintf("aaaaaaaa%07d", i)))
	}
	for name, m := range map[string]*Masker{"long": NewMasker(NewSecret(long + "!")), "many": NewMasker(many...)} {
		if got, _ := m.Keep([]byte(long), 1<<20, false); string(got) != redacted {
			t.Errorf("%s: it kept %d bytes", name, len(got))
		}
		if got := m.Mask([]byte("said " + hushed)); string(got) != redacted {
			t.Errorf("%s: then %q", name, got)
		}
	}
	// A document of ordinary size, of which much is redacted, is not that.
	many = nil
	for i := range 1000 {
		many = append(many, NewSecret(fmt.Sprintf("%d, Rue %d", i*7919%1000, i)))
	}
	body := []byte(strings.Repeat(`{"id":"pay_123","amount":100,"text":"said 77"},`, (64<<10)/47))
	if got, _ := NewMasker(many...).Keep(body, 64<<10, false); string(got) != string(body) {
		t.Errorf("%d bytes became %d", len(body), len(got))
	}
}

// What is made to be slow to read is not.
func BenchmarkMask(b *testing.B) {
	s := []Secret{NewSecret(hushed), NewSecret(strings.Repeat("0123456789abcdef", 4)), NewSecret(base64.StdEncoding.EncodeToString([]byte("user:" + hushed)))}
	for name, unit := range map[string]string{
		"json": `{"id":"pay_123","amount":100,"text":"said \"no\""},`, "backslashes": `\`, "percents": "%25", "ampersands": "&amp;", "beginnings": hushed[:len(hushed)-1], "blanks": "S \n ",
	} {
		body := []byte(strings.Repeat(unit, (64<<10)/len(unit)))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				Mask(body, s...)
			}
		})
	}
}

// FuzzMask: a secret in any spelling and surroundings is found, and nothing breaks.
func FuzzMask(f *testing.F) {
	for _, form := range spelledOut(hushed) {
		f.Add(form, "before ", ` after\`)
	}
	f.Add(`\u00`, "%2", "&#x")
	f.Fuzz(func(t *testing.T, form, before, after string) {
		s := NewSecret(hushed)
		got := string(MaskCut([]byte(before+form+after), s))
		if strings.Contains(got, hushed) {
			t.Errorf("%q is still there", got)
		}
		if masked := string(Mask([]byte(before+hushed+after), s)); strings.Contains(masked, hushed) {
			t.Errorf("%q is still there", masked)
		}
	})
}
