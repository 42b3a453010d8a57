package browser

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// kit is the part of this package that runs inside of a page.
//
//go:embed kit.js
var kit string

// eval runs an expression in the page, past its CSP and also where scripts are
// off, and waits for a promise it may give.
func eval[T any](ctx context.Context, expression string) (T, error) {
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// ask calls a function of the kit in the page.
func ask[T any](ctx context.Context, function string, args ...any) (T, error) {
	list, err := json.Marshal(append([]any{}, args...))
	if err != nil {
		var none T
		return none, err
	}
	return eval[T](ctx, fmt.Sprintf("(() => { %s\nreturn kit.%s(...%s) })()", kit, function, list))
}

// read asks the page until it answers: an error says what is missing as yet.
func read[T any](p *Page, function string, args ...any) T {
	p.t.Helper()
	var value T
	p.until(fmt.Sprintf("%s%q", function, args), func(ctx context.Context) (bool, error) {
		var err error
		value, err = ask[T](ctx, function, args...)
		return err == nil, err
	})
	return value
}

// Eval runs a JavaScript expression in the page and returns its value; it
// waits for a promise, but where scripts are off none is ever kept.
func Eval[T any](p *Page, expression string) T {
	p.t.Helper()
	var value T
	p.must("evaluate "+expression, func(ctx context.Context) (err error) {
		value, err = eval[T](ctx, expression)
		return err
	})
	return value
}

// Texts are the texts of all matches there are, maybe none.
func (p *Page) Texts(selector string) []string {
	p.t.Helper()
	return read[[]string](p, "texts", selector)
}

// Count is how many elements match.
func (p *Page) Count(selector string) int { p.t.Helper(); return len(p.Texts(selector)) }

// Value is what stands in a field. It waits for the field.
func (p *Page) Value(selector string) string { p.t.Helper(); return read[string](p, "value", selector) }

// URL is that of the document.
func (p *Page) URL() string { p.t.Helper(); return read[string](p, "url") }

// Title is that of the document.
func (p *Page) Title() string { p.t.Helper(); return read[string](p, "title") }

// Focused describes the element that has the focus, such as "a#more" or
// "input[name=reason]", and "body" where none has.
func (p *Page) Focused() string { p.t.Helper(); return read[string](p, "focused") }

// tallest bounds the pictures of full pages, in CSS pixels.
const tallest = 3000

// capture takes a PNG of the page down to a height; 0 takes the viewport.
func capture(ctx context.Context, height float64) ([]byte, error) {
	params := page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatPng}
	if height > 0 {
		size, err := ask[[2]float64](ctx, "size")
		if err != nil {
			return nil, err
		}
		beyond := true
		params.CaptureBeyondViewport = &beyond
		params.Clip = &page.Viewport{Width: size[0], Height: min(size[1], height), Scale: 1}
	}
	result, err := chromedp.Call(ctx, page.CaptureScreenshot, params)
	return result.Data, err
}

// fail ends the test with what a person would see: the URL, the text, a
// picture.
func (p *Page) fail(format string, args ...any) {
	p.t.Helper()
	p.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), p.sight())
}

// sight describes the page for a failure, as far as it can be had.
func (p *Page) sight() string {
	ctx, cancel := context.WithTimeout(p.ctx, Patience)
	defer cancel()
	url, err := ask[string](ctx, "url")
	if err != nil {
		return "the page does not answer: " + err.Error()
	}
	text, _ := ask[string](ctx, "text", "body")
	lines := strings.Join(strings.Fields(text), " ")
	if runes := []rune(lines); len(runes) > 1500 {
		lines = string(runes[:1500]) + "…"
	}
	return fmt.Sprintf("url: %s (%d)\ntext: %s\npicture: %s", url, p.Status(), lines, keepPicture(ctx))
}

// keepPicture leaves a picture of the page for a person and returns its path.
func keepPicture(ctx context.Context) string {
	picture, err := capture(ctx, tallest)
	if err != nil {
		return err.Error()
	}
	file, err := os.CreateTemp("", "executor-failed-page-*.png")
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	if _, err := file.Write(picture); err != nil {
		return err.Error()
	}
	return file.Name()
}
