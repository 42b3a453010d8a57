package web

import (
	"slices"
	"strings"
	"testing"
)

func TestCompareLines(t *testing.T) {
	many := strings.Repeat("a\n", 3000)
	tests := []struct {
		was, is        string
		added, removed int
	}{
		{"", "", 0, 0},
		{"a\nb\n", "a\r\nb", 0, 0},
		{"", "a\nb\n", 2, 0},
		{"a\nb\n", "", 0, 2},
		{"a\nb\nc\n", "a\nc\n", 0, 1},
		{"a\nb\nc\nd\n", "a\nx\nc\ny\nd\n", 2, 1},
		{"a\na\nb\n", "a\nb\nb\n", 1, 1},
		{"x\n" + many + "x\n", "y\n" + strings.Repeat("b\n", 3000) + "y\n", 3002, 3002}, // more than is compared line by line
	}
	for _, tt := range tests {
		d := compareLines(tt.was, tt.is)
		if d.Added != tt.added || d.Removed != tt.removed || d.Same() != (tt.added+tt.removed == 0) {
			t.Errorf("%.20q to %.20q: %d added, %d removed; want %d, %d", tt.was, tt.is, d.Added, d.Removed, tt.added, tt.removed)
		}
		for _, l := range d.Lines {
			was, is := linesOf(tt.was), linesOf(tt.is)
			if l.Was > 0 && was[l.Was-1] != l.Text || l.Is > 0 && is[l.Is-1] != l.Text || l.Word() == "" {
				t.Errorf("%.20q to %.20q: line %+v", tt.was, tt.is, l)
			}
		}
	}
	d := compareLines(many, many+"b\n")
	if i := slices.IndexFunc(d.Lines, func(l diffLine) bool { return l.Sign == "…" }); i != 0 || d.Lines[0].LeftOut != 3000-diffContext {
		t.Errorf("the lines far from the difference are not left out: %+v", d.Lines[:min(3, len(d.Lines))])
	}
}
