package browser

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"testing"
)

// layoutScript is what measures a page from within.
//
//go:embed layout.js
var layoutScript string

// Misfits is what does not fit on the page at its size, in plain words:
//
//   - the page scrolls sideways;
//   - an element hides a part of its text, unless it has the class "clip", or
//     shows an ellipsis and has the text in its title;
//   - two links, buttons or fields overlap, but for those on layers of their
//     own (dialogs, popovers, fixed and sticky parts);
//   - a target is smaller than 24 × 24 px and too close to another (WCAG 2.2,
//     2.5.8; links in a sentence are exempt).
func (p *Page) Misfits() []string {
	p.t.Helper()
	var found []string
	p.must("measure the page", func(ctx context.Context) (err error) {
		found, err = eval[[]string](ctx, fmt.Sprintf("(() => { %s\n%s\nreturn layout() })()", kit, layoutScript))
		return err
	})
	return found
}

// NothingCut fails the test for whatever does not fit; see Misfits.
func (p *Page) NothingCut(t testing.TB) {
	t.Helper()
	if found := p.Misfits(); len(found) > 0 {
		t.Errorf("%s does not fit:\n  %s", p.URL(), strings.Join(firstFew(found), "\n  "))
	}
}

// firstFew bounds a list for people.
func firstFew(list []string) []string {
	if len(list) <= 10 {
		return list
	}
	return append(list[:10:10], fmt.Sprintf("… and %d more", len(list)-10))
}
