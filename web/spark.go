package web

import (
	"fmt"
	"slices"
	"strings"
)

// spark is a small line of values over time, drawn by the part "spark".
type spark struct {
	Width, Height int
	Line, Area    string // paths of the SVG
	Label         string // the same in words
}

// newSpark draws the values from left to right. The label says what they are; their
// largest and last are added.
func newSpark(values []int64, label string) spark {
	s := spark{Width: 120, Height: 30, Label: label + ": nothing"}
	if len(values) < 2 {
		return s
	}
	most := max(slices.Max(values), 1)
	var line strings.Builder
	for i, v := range values {
		x := float64(i) * float64(s.Width) / float64(len(values)-1)
		y := float64(s.Height-1) - float64(v)*float64(s.Height-3)/float64(most)
		fmt.Fprintf(&line, "%s%.1f %.1f", map[bool]string{true: "M", false: "L"}[i == 0], x, y)
	}
	s.Line = line.String()
	s.Area = fmt.Sprintf("%sL%d %dL0 %dZ", s.Line, s.Width, s.Height, s.Height)
	s.Label = fmt.Sprintf("%s: at most %s a minute, %s in the last one", label, number(slices.Max(values)), number(values[len(values)-1]))
	return s
}
