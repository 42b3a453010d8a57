package browser

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
)

// coloursScript tells looks apart, from within a page.
//
//go:embed colours.js
var coloursScript string

// Colours remembers the looks whose contrast was judged: the colours of a text,
// its size and weight, and what is behind it. Pages of one site share most of
// them, so each is judged once. The zero value has seen nothing.
type Colours struct {
	mu    sync.Mutex
	tries map[string]int // by look
}

// enough is how often a look is tried that axe-core cannot judge where it
// stands, such as on a disabled button, which may look as it likes.
const enough = 3

// Judge fails the test for what axe-core finds wrong with the colours of looks
// that no page had before.
func (c *Colours) Judge(t testing.TB, p *Page) {
	t.Helper()
	var shown map[string]string // a selector by look
	p.must("tell looks apart", func(ctx context.Context) (err error) {
		shown, err = eval[map[string]string](ctx, fmt.Sprintf("(() => { %s\n%s\nreturn colours() })()", kit, coloursScript))
		return err
	})
	looks := c.fresh(shown)
	if len(looks) == 0 {
		return
	}
	var selectors []string
	for _, look := range looks {
		selectors = append(selectors, shown[look])
	}
	c.settle(looks, p.judge(t, colourRules, selectors...))
}

// fresh picks the looks that are still to be judged, in a fixed order, and
// counts a try of each.
func (c *Colours) fresh(shown map[string]string) (looks []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tries == nil {
		c.tries = map[string]int{}
	}
	for _, look := range slices.Sorted(maps.Keys(shown)) {
		if c.tries[look] < enough {
			c.tries[look]++
			looks = append(looks, look)
		}
	}
	return looks
}

// settle notes which looks were judged, by their place in the list.
func (c *Colours) settle(looks []string, judged []int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range judged {
		c.tries[looks[i]] = enough
	}
}

// within is the context of axe-core: the elements that the selectors find, or
// the document.
func within(selectors []string) string {
	if len(selectors) == 0 {
		return "document"
	}
	var quoted []string
	for _, selector := range selectors {
		text, _ := json.Marshal(selector)
		quoted = append(quoted, "document.querySelector("+string(text)+")")
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
