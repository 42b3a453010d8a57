package web

import (
	"encoding/csv"
	"io"
	"strings"
	"unicode"
)

// csvWriter writes a table for spreadsheets (RFC 4180, UTF-8) whose cells cannot act
// as formulas.
type csvWriter struct{ w *csv.Writer }

func newCSV(w io.Writer) *csvWriter {
	c := csv.NewWriter(w)
	c.UseCRLF = true
	return &csvWriter{c}
}

// row writes one line.
func (c *csvWriter) row(cells ...string) error {
	line := make([]string, len(cells))
	for i, cell := range cells {
		line[i] = inertCell(cell)
	}
	return c.w.Write(line)
}

func (c *csvWriter) flush() error {
	c.w.Flush()
	return c.w.Error()
}

// inertCell puts an apostrophe before whatever a spreadsheet could take for the
// beginning of a formula: at the beginning of the cell, and after anything that a
// spreadsheet with other separators could take for the beginning of one.
func inertCell(text string) string {
	text = string(inert([]byte(text)))
	var b strings.Builder
	begins := true
	for _, r := range text {
		if begins && strings.ContainsRune("=+-@\t\r＝＋－＠", r) {
			b.WriteByte('\'')
			begins = false
		}
		switch {
		case strings.ContainsRune(",;|\t\r\n", r):
			begins = true
		case r != '"' && r != '\'' && !unicode.IsSpace(r):
			begins = false
		}
		b.WriteRune(r)
	}
	return b.String()
}
