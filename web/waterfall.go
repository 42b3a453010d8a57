package web

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"executor/outcome"
	"executor/reconcile"
)

// waterfall is the drawing of a command's attempts over time: a row each on one
// axis, with the lookups and notices below. All numbers are ready to stand in SVG.
type waterfall struct {
	Width, Height, Bottom string
	Words                 string // where those of the rows begin
	Rows                  []waterfallRow
	Ticks                 []waterfallTick
	Marks                 []waterfallMark
	MarkRows              []waterfallLabel
	Legend                []waterfallKind
	MarkLegend            []waterfallKind
	Compressed            bool
	Label                 string // the drawing in words
}

type waterfallRow struct {
	Number int
	TextY  string
	Bars   []waterfallBar
	Text   string
	Line   string // below it
}

// waterfallBar is one stage of an attempt.
type waterfallBar struct{ Kind, X, Y, Width, Height string }

// waterfallTick is a moment on the axis; a break says that the wait before it is
// drawn shorter than it was.
type waterfallTick struct {
	X, Text, Anchor string
	Break           bool
	BreakX          string
}

// waterfallMark is a moment at which something was learnt.
type waterfallMark struct {
	Path string
	Text string
	X, Y string
	Kind string
}

type waterfallLabel struct{ Text, Y string }

// waterfallKind is an entry of the legend.
type waterfallKind struct{ Kind, Words string }

// stages of an attempt that are drawn, in their order. What of an attempt no stage
// accounts for, such as the commit before the first byte, is "rest".
var waterfallKinds = []waterfallKind{
	{"permit", "waiting for a place"}, {"dns", "DNS"}, {"connect", "connect"}, {"tls", "TLS"}, {"write", "handing over the request"},
	{"headers", "waiting for response headers"}, {"body", "reading the body"}, {"rest", "not timed, or under way"},
}

// markKinds are what else is drawn.
var markKinds = []waterfallKind{{"lookup", "the upstream was asked"}, {"notice", "the upstream said something by itself"}}

// Measures of the drawing, in its own units.
const (
	waterfallWidth = 1120.0
	waterfallLeft  = 92.0  // where the axis begins: before it stand the names of the rows
	waterfallEnd   = 850.0 // where it ends: behind it stands what came of them
	waterfallTop   = 26.0
	narrowestBar   = 2.0
	charWidth      = 6.3 // of a letter at most, nearly
	fewBreaks      = 6   // that are drawn through all rows
)

// drawing is a waterfall while it is made.
type drawing struct {
	w     *waterfall
	scale timescale
	row   float64 // height of a row
	now   time.Time
	first time.Time
	used  map[string]bool // kinds that occur
}

// newWaterfall draws a command; nil without attempts.
func newWaterfall(sights []sight, lookups []reconcile.Excerpt, notices []reconcile.Notice, now time.Time) *waterfall {
	if len(sights) == 0 {
		return nil
	}
	var spans []span
	for _, s := range sights {
		spans = append(spans, attemptSpan(s, now))
	}
	for _, l := range lookups {
		spans = append(spans, span{l.StartedAt, later(l.EndedAt, l.StartedAt)})
	}
	for _, n := range notices {
		spans = append(spans, span{n.ReceivedAt, n.ReceivedAt})
	}
	d := &drawing{w: &waterfall{}, row: 24, now: now, used: map[string]bool{}}
	if len(sights) > 12 {
		d.row = 18
	}
	d.scale = newTimescale(spans, waterfallEnd-waterfallLeft)
	d.first = d.scale.parts[0].from
	for i, s := range sights {
		d.attempt(waterfallTop+float64(i)*d.row, s)
	}
	bottom := d.marks(waterfallTop+float64(len(sights))*d.row, lookups, notices)
	d.axis()
	d.finish(sights, bottom)
	return d.w
}

// attemptSpan is the time of an attempt with its dial, which comes before its start
// on record where it was begun.
func attemptSpan(s sight, now time.Time) span {
	end := now
	if s.EndedAt != nil {
		end = *s.EndedAt
	}
	start := s.StartedAt
	if s.Evidence != outcome.EvidenceNotSent {
		start = start.Add(-milliseconds(s.Timings["permit"] + s.Timings["dns"] + s.Timings["connect"] + s.Timings["tls"]))
	}
	return span{start, later(end, start)}
}

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (d *drawing) x(t time.Time) float64 { return waterfallLeft + d.scale.at(t) }

// attempt draws one row: the whole of it, and over that the stages that were timed.
func (d *drawing) attempt(y float64, s sight) {
	whole := attemptSpan(s, d.now)
	row := waterfallRow{Number: s.Number, TextY: unit(y + d.row/2 + 4), Line: unit(y + d.row), Text: briefly(s)}
	bar := func(kind string, from, to time.Time) {
		x := d.x(from)
		row.Bars = append(row.Bars, waterfallBar{Kind: kind, X: unit(x), Y: unit(y + 3), Width: unit(max(d.x(to)-x, narrowestBar)), Height: unit(d.row - 6)})
		d.used[kind] = true
	}
	bar("rest", whole.from, whole.to)
	at := whole.from
	for _, kind := range waterfallKinds {
		ms := s.Timings[kind.Kind]
		if kind.Kind == "write" && s.Evidence != outcome.EvidenceNotSent {
			at = later(at, s.StartedAt)
		}
		if ms <= 0 {
			continue
		}
		end := at.Add(milliseconds(ms))
		if end.After(whole.to) {
			end = whole.to
		}
		bar(kind.Kind, at, end)
		at = end
	}
	if s.EndedAt != nil {
		row.Text = duration(whole.to.Sub(whole.from)) + " · " + row.Text
	}
	d.w.Rows = append(d.w.Rows, row)
}

// marks draws what was learnt, below the attempts, and returns where it ends.
func (d *drawing) marks(y float64, lookups []reconcile.Excerpt, notices []reconcile.Notice) float64 {
	const height = 26
	row := func(label string) {
		d.w.MarkRows = append(d.w.MarkRows, waterfallLabel{label, unit(y + height/2 + 4)})
	}
	if len(lookups) > 0 {
		row("Lookups")
		free := 0.0
		for _, l := range lookups {
			free = d.mark("lookup", y+height/2, l.StartedAt, string(l.Finding), free)
		}
		y += height
	}
	if len(notices) > 0 {
		row("Notices")
		free := 0.0
		for _, n := range notices {
			free = d.mark("notice", y+height/2, n.ReceivedAt, string(n.Finding), free)
		}
		y += height
	}
	return y
}

// mark draws one and returns from where there is room for the next one's word.
func (d *drawing) mark(kind string, y float64, at time.Time, word string, free float64) float64 {
	x := d.x(at)
	d.used[kind] = true
	m := waterfallMark{Kind: kind, X: unit(x + 9), Y: unit(y + 4)}
	if kind == "lookup" {
		m.Path = fmt.Sprintf("M%s %sl6 6l-6 6l-6 -6z", unit(x), unit(y-6))
	} else {
		m.Path = fmt.Sprintf("M%s %sl6 11h-12z", unit(x), unit(y-6))
	}
	if x > free {
		m.Text = word
		free = x + 18 + float64(len(word))*charWidth
	}
	d.w.Marks = append(d.w.Marks, m)
	return free
}

// axis writes the time since the first start at each beginning of something, as far
// as there is room, and marks the waits that are drawn short.
func (d *drawing) axis() {
	free := 0.0
	for i, p := range d.scale.parts {
		if p.compressed {
			d.w.Compressed = true
			d.w.Ticks = append(d.w.Ticks, waterfallTick{Break: true, BreakX: unit(waterfallLeft + p.x + p.width/2)})
			continue
		}
		if i > 0 && !d.scale.parts[i-1].compressed {
			continue
		}
		x := waterfallLeft + p.x
		text := "+" + duration(p.from.Sub(d.first).Truncate(time.Millisecond))
		if i == 0 {
			text = "0"
		}
		if width := float64(len(text)) * charWidth; x >= free && x+width < waterfallEnd-70 {
			d.w.Ticks = append(d.w.Ticks, waterfallTick{X: unit(x), Text: text, Anchor: "start"})
			free = x + width + 14
		}
	}
	last := d.scale.parts[len(d.scale.parts)-1].to
	d.w.Ticks = append(d.w.Ticks, waterfallTick{X: unit(waterfallEnd), Text: "+" + duration(last.Sub(d.first)), Anchor: "end"})
}

// finish adds what is said about the drawing.
func (d *drawing) finish(sights []sight, bottom float64) {
	d.w.Width, d.w.Height, d.w.Bottom, d.w.Words = unit(waterfallWidth), unit(bottom+4), unit(bottom), unit(waterfallEnd+14)
	if breaks := slices.DeleteFunc(slices.Clone(d.w.Ticks), func(t waterfallTick) bool { return !t.Break }); len(breaks) > fewBreaks {
		d.w.Bottom = unit(waterfallTop)
	}
	for _, kind := range markKinds {
		if d.used[kind.Kind] {
			d.w.MarkLegend = append(d.w.MarkLegend, kind)
		}
	}
	for _, kind := range waterfallKinds {
		if d.used[kind.Kind] {
			d.w.Legend = append(d.w.Legend, kind)
		}
	}
	last := sights[len(sights)-1]
	d.w.Label = fmt.Sprintf("Timeline of %s, the last one %s. The same stands in the table below.", plural(len(sights), "attempt", "attempts"), briefly(last))
}

// unit is a number of the drawing.
func unit(f float64) string { return strconv.FormatFloat(f, 'f', 1, 64) }
