package browser

import (
	"context"
	"fmt"
	"strings"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// point is where to click, in CSS pixels of the viewport.
type point struct{ X, Y float64 }

// Click clicks the first match with the mouse. It waits for a match that can
// be seen, is not disabled and not covered. What the click brings about has to
// be waited for, but see Follow.
func (p *Page) Click(selector string) {
	p.t.Helper()
	at := read[point](p, "clickable", selector)
	p.must("click "+selector, func(ctx context.Context) error {
		return chromedp.Do(ctx,
			chromedp.MouseEvent(chromedp.MouseMoved, at.X, at.Y),
			chromedp.MouseClickXY(at.X, at.Y))
	})
}

// Follow clicks a link or button and waits until the document it leads to has
// loaded.
func (p *Page) Follow(selector string) {
	p.t.Helper()
	p.newDocument("the document behind "+selector, func() { p.t.Helper(); p.Click(selector) })
}

// Submit sends a form with its first button that does, and waits until the
// document that answers has loaded. The selector may name the form, or the
// button.
func (p *Page) Submit(selector string) {
	p.t.Helper()
	button := read[string](p, "submitter", selector)
	p.newDocument("the answer to "+selector, func() { p.t.Helper(); p.Click(button) })
}

// newDocument takes a step and waits for the document that comes of it.
func (p *Page) newDocument(what string, step func()) {
	p.t.Helper()
	before, _ := p.log.current()
	step()
	p.until(what, func(context.Context) (bool, error) {
		now, loaded := p.log.current()
		return now != before && loaded, nil
	})
}

// Fill puts a text into a field in place of what stands there, as pasting it
// would; into a date or a time as the HTML standard writes its value.
func (p *Page) Fill(selector, text string) {
	p.t.Helper()
	typed := read[bool](p, "take", selector, text)
	p.must("fill "+selector, func(ctx context.Context) error {
		switch {
		case !typed:
			return nil
		case text == "":
			return chromedp.Do(ctx, chromedp.KeyEvent(kb.Delete))
		default:
			return call(ctx, input.InsertText, input.InsertTextParams{Text: text})
		}
	})
	p.until(selector+" holds the text", func(ctx context.Context) (bool, error) {
		got, err := ask[string](ctx, "value", selector)
		return got == strings.ReplaceAll(text, "\r\n", "\n"), errOr(err, "it holds %q", got)
	})
}

// Check clicks a checkbox or radio button unless it is as wanted.
func (p *Page) Check(selector string, on bool) {
	p.t.Helper()
	if read[bool](p, "checked", selector) != on {
		p.Click(selector)
	}
}

// Select chooses the option of a list that has the value, or else the text.
func (p *Page) Select(selector, option string) {
	p.t.Helper()
	read[bool](p, "choose", selector, option)
}

// Press presses keys where the focus is, one after the other: kb.Tab,
// kb.Enter, "a". Shift+Tab is "Shift+" + kb.Tab.
func (p *Page) Press(keys ...string) {
	p.t.Helper()
	for _, key := range keys {
		var options []chromedp.KeyOption
		if rest, shifted := strings.CutPrefix(key, "Shift+"); shifted {
			key, options = rest, append(options, chromedp.KeyModifiers(chromedp.ModifierShift))
		}
		p.must(fmt.Sprintf("press %q", key), func(ctx context.Context) error {
			return chromedp.Do(ctx, chromedp.KeyEvent(key, options...))
		})
	}
}

// WaitFor waits until an element that can be seen matches.
func (p *Page) WaitFor(selector string) { p.t.Helper(); read[bool](p, "visible", selector) }

// WaitText waits until the text of the first match contains a text.
func (p *Page) WaitText(selector, contains string) {
	p.t.Helper()
	p.until(fmt.Sprintf("%s contains %q", selector, contains), func(ctx context.Context) (bool, error) {
		text, err := ask[string](ctx, "text", selector)
		return err == nil && strings.Contains(text, contains), errOr(err, "it reads %q", text)
	})
}

// WaitURL waits for a loaded document whose URL, or whose path, begins with a
// prefix.
func (p *Page) WaitURL(prefix string) {
	p.t.Helper()
	p.until("a URL that begins with "+prefix, func(ctx context.Context) (bool, error) {
		_, loaded := p.log.current()
		url, err := ask[string](ctx, "url")
		path := url
		if _, rest, absolute := strings.Cut(url, "://"); absolute {
			_, path, _ = strings.Cut(rest, "/")
		}
		fits := strings.HasPrefix(url, prefix) || strings.HasPrefix("/"+path, prefix)
		return err == nil && loaded && fits, errOr(err, "it is %s", url)
	})
}

// errOr is err, or what was seen instead.
func errOr(err error, format string, args ...any) error {
	if err != nil {
		return err
	}
	return fmt.Errorf(format, args...)
}
