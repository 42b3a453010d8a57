package browser

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// keyboardScript is what looks at the focus from within a page.
//
//go:embed keyboard.js
var keyboardScript string

// Stop is an element that Tab gives the focus to.
type Stop struct {
	Element string // as Page.Focused names it
	Visible bool   // one can see that it has the focus: an outline or a shadow that it has only then, and not covered
}

// focus is where the focus is, or could be.
type focus struct {
	Path    string // unique on the page
	Element string
	Marks   string // outline and shadow
	InSight bool
	Nowhere bool // no element has it
}

// KeyboardTour tabs through the page from its start until the focus has left
// it, and returns the stops in order. It fails the test where the focus cannot
// be seen, where it cannot get away, and for what Tab never reaches.
func KeyboardTour(t testing.TB, p *Page) []Stop {
	t.Helper()
	expected := look[[]focus](p, "start")
	tour := p.tab(2*len(expected) + 30)
	stops, complaints := judge(expected, tour)
	if len(complaints) > 0 {
		t.Errorf("%s cannot be used with a keyboard:\n  %s", p.URL(), strings.Join(firstFew(complaints), "\n  "))
	}
	return stops
}

// judge compares a tour with what Tab has to reach, as that looks without the
// focus.
func judge(expected, tour []focus) (stops []Stop, complaints []string) {
	unfocused, reached := map[string]string{}, map[string]bool{}
	for _, element := range expected {
		unfocused[element.Path] = element.Marks
	}
	for _, at := range tour {
		reached[at.Path] = true
		visible := at.InSight && at.Marks != unfocused[at.Path] && at.Marks != `[false,"none"]`
		stops = append(stops, Stop{Element: at.Element, Visible: visible})
		if !visible {
			complaints = append(complaints, "the focus cannot be seen at "+at.Element)
		}
	}
	for _, element := range expected {
		if !reached[element.Path] {
			complaints = append(complaints, "Tab never reaches "+element.Element)
		}
	}
	return stops, complaints
}

// tab presses Tab until the focus has left the page or come round, or has
// stayed at an element for more presses than any field has parts.
func (p *Page) tab(most int) []focus {
	p.t.Helper()
	const parts = 8 // a date with time has seven
	var tour []focus
	stayed := 0
	for range most {
		p.Press(kb.Tab)
		now := look[focus](p, "now")
		switch {
		case now.Nowhere:
			return tour
		case len(tour) > 0 && now.Path == tour[len(tour)-1].Path:
			if stayed++; stayed > parts {
				return tour
			}
		case len(tour) > 0 && now.Path == tour[0].Path:
			return tour
		default:
			tour, stayed = append(tour, now), 0
		}
	}
	return tour
}

// look asks for the focus.
func look[T any](p *Page, function string) T {
	p.t.Helper()
	var value T
	p.must("look at the focus", func(ctx context.Context) (err error) {
		value, err = eval[T](ctx, fmt.Sprintf("(() => { %s\n%s\nreturn keyboard.%s() })()", kit, keyboardScript, function))
		return err
	})
	return value
}
