package web

import (
	"slices"
	"strings"
)

// diffLine is a line of a comparison of two texts.
type diffLine struct {
	Sign    string // "+", "-", " ", or "…" for lines that are left out
	Was     int    // its number in the old text; 0 for none
	Is      int    // and in the new one
	Text    string
	LeftOut int // how many lines "…" stands for
}

// Word says the sign.
func (l diffLine) Word() string {
	return map[string]string{"+": "added", "-": "removed", " ": "the same", "…": "left out"}[l.Sign]
}

// diff is a comparison of two texts.
type diff struct {
	Lines          []diffLine
	Added, Removed int
}

// Same reports whether no line differs.
func (d diff) Same() bool { return d.Added+d.Removed == 0 }

const (
	// diffContext is how many equal lines are shown around what differs.
	diffContext = 3
	// diffWork bounds the table of the comparison, in cells. Larger texts are
	// shown as removed and added as a whole, between what they begin and end with.
	diffWork = 4 << 20
)

// compareLines compares two texts line by line by their longest common subsequence.
func compareLines(was, is string) diff {
	a, b := linesOf(was), linesOf(is)
	var all []diffLine
	head := 0
	for ; head < min(len(a), len(b)) && a[head] == b[head]; head++ {
		all = append(all, diffLine{" ", head + 1, head + 1, a[head], 0})
	}
	tail := 0
	for tail < min(len(a), len(b))-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	all = append(all, compareMiddle(a[head:len(a)-tail], b[head:len(b)-tail], head)...)
	for i := tail; i > 0; i-- {
		all = append(all, diffLine{" ", len(a) - i + 1, len(b) - i + 1, a[len(a)-i], 0})
	}
	return newDiff(all)
}

func linesOf(text string) []string {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// compareMiddle compares what two texts do not have in common at both ends; before
// is how many lines stand before it.
func compareMiddle(a, b []string, before int) (list []diffLine) {
	common := lengths(a, b)
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && common != nil && a[i] == b[j]:
			list = append(list, diffLine{" ", before + i + 1, before + j + 1, a[i], 0})
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && (common == nil || common[i+1][j] >= common[i][j+1]):
			list = append(list, diffLine{"-", before + i + 1, 0, a[i], 0})
			i++
		default:
			list = append(list, diffLine{"+", 0, before + j + 1, b[j], 0})
			j++
		}
	}
	return list
}

// lengths are those of the longest common subsequences of what follows each pair
// of lines; nil where that is too much work.
func lengths(a, b []string) [][]int32 {
	if len(a) == 0 || len(b) == 0 || len(a) > diffWork/len(b) {
		return nil
	}
	table := make([][]int32, len(a)+1)
	for i := range table {
		table[i] = make([]int32, len(b)+1)
	}
	for i, line := range slices.Backward(a) {
		for j, other := range slices.Backward(b) {
			if line == other {
				table[i][j] = table[i+1][j+1] + 1
			} else {
				table[i][j] = max(table[i+1][j], table[i][j+1])
			}
		}
	}
	return table
}

// newDiff leaves out the equal lines that are far from any difference.
func newDiff(all []diffLine) (d diff) {
	near := make([]bool, len(all))
	for i, line := range all {
		switch line.Sign {
		case "+":
			d.Added++
		case "-":
			d.Removed++
		default:
			continue
		}
		for k := max(0, i-diffContext); k <= min(len(all)-1, i+diffContext); k++ {
			near[k] = true
		}
	}
	for i := 0; i < len(all); i++ {
		if near[i] {
			d.Lines = append(d.Lines, all[i])
			continue
		}
		from := i
		for i+1 < len(all) && !near[i+1] {
			i++
		}
		d.Lines = append(d.Lines, diffLine{Sign: "…", LeftOut: i - from + 1})
	}
	return d
}
