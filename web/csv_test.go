package web_test

import (
	"bytes"
	"encoding/csv"
	"testing"

	"executor/web"
)

// TestNoCellIsAFormula: whatever a spreadsheet could run stands behind an
// apostrophe, and what is harmless stays as it is.
func TestNoCellIsAFormula(t *testing.T) {
	for in, want := range map[string]string{
		"order 42":            "order 42",
		"a-b@c.example":       "a-b@c.example",
		"":                    "",
		"=1+1":                "'=1+1",
		"+1":                  "'+1",
		"-1":                  "'-1",
		"@SUM(A1)":            "'@SUM(A1)",
		"\t=1":                "'\t'=1",
		"  =1":                "  '=1",
		"\"=1":                "\"'=1",
		"x;=cmd|' /C calc'!A": "x;'=cmd|' /C calc'!A",
		"x\n=1":               "x\n'=1",
		"x,=1":                "x,'=1",
		"＝1":                  "'＝1",
		"\r=1":                `\u000D=1`,
		"a\x00b\u202ec\xff":   `a\u0000b\u202Ec\xFF`,
		"שלום, \"x\"":         "שלום, \"x\"",
	} {
		var b bytes.Buffer
		if err := web.CSVRow(&b, "first", in); err != nil {
			t.Fatal(err)
		}
		if !bytes.HasSuffix(b.Bytes(), []byte("\r\n")) {
			t.Errorf("%q ends its line with %q", in, b.String())
		}
		rows, err := csv.NewReader(&b).ReadAll()
		if err != nil || len(rows) != 1 || rows[0][1] != want {
			t.Errorf("%q becomes %q, %v; want %q", in, rows, err, want)
		}
	}
}
