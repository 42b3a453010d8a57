package operators

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// FuzzCodec: what is read of a session's row is written in the same bytes from then
// on, and what it says of its owner fits the columns.
func FuzzCodec(f *testing.F) {
	good, err := Codec{}.Encode(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), map[string]any{
		KeyOperator: "0193c0de-0000-7000-8000-00000000000e", KeyEpoch: "3", KeyAddress: "192.0.2.1", KeyUserAgent: "a\x00b\xff " + strings.Repeat("é", 200),
	})
	if err != nil {
		f.Fatal(err)
	}
	for _, data := range []string{string(good), "", "{}", "null", `{"values":{"operator_id":"x"}}`, `{"values":null,"deadline":"9999-12-31T23:59:59Z"}`, `{"deadline":"0000-01-01T00:00:00Z","values":{"":"\ud800"}}`} {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		deadline, values, err := Codec{}.Decode(data)
		if err != nil {
			return
		}
		once, err := Codec{}.Encode(deadline, values)
		if err != nil {
			return // such as a deadline that JSON cannot write
		}
		again, same, err := Codec{}.Decode(once)
		if err != nil || !again.Equal(deadline) || len(same) != len(values) {
			t.Fatalf("%s is read as %v %v, %v", once, again, same, err)
		}
		if twice, err := (Codec{}).Encode(again, same); err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%s is written as %s, %v", once, twice, err)
		}
		o, err := ownerOf(data)
		if err != nil {
			return
		}
		for text, most := range map[string]int{o.address: maxAddress, o.userAgent: maxUserAgent} {
			if len(text) > 3*most || !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
				t.Fatalf("no column holds %q", text)
			}
		}
	})
}
