package browser

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// Page is a tab with cookies of its own. Its methods fail the test that opened
// it; they are for one goroutine.
type Page struct {
	t      testing.TB
	ctx    context.Context // of chromedp; ends with the test
	log    *journal
	script bool
	media  map[string]string // what the user prefers, by media feature

	patience time.Duration // for one step
}

// Option sets up a page before anything is loaded.
type Option func(*settings)

type settings struct {
	noScript      bool
	width, height int
	media         map[string]string
}

// NoScript turns the scripts of pages off, as some users do.
func NoScript() Option { return func(s *settings) { s.noScript = true } }

// Size sets the viewport in CSS pixels; 1280 × 900 is usual.
func Size(width, height int) Option {
	return func(s *settings) { s.width, s.height = width, height }
}

// Dark asks for the dark colours; light ones are usual.
func Dark() Option { return func(s *settings) { s.media["prefers-color-scheme"] = "dark" } }

// Open opens an empty page with cookies of its own, closed when the test ends.
func (b *Browser) Open(t testing.TB, options ...Option) *Page {
	t.Helper()
	s := settings{width: 1280, height: 900, media: map[string]string{"prefers-color-scheme": "light"}}
	for _, option := range options {
		option(&s)
	}
	p := &Page{t: t, log: newJournal(), script: !s.noScript, media: s.media, patience: Patience}
	ctx, done := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext(), chromedp.WithListener(p.log.hear))
	t.Cleanup(done)
	p.ctx = ctx
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("open a page: %v", err)
	}
	p.log.answerDialogs(ctx)
	p.must("set the page up", func(ctx context.Context) error { return s.apply(ctx) })
	return p
}

// apply tells Chromium the settings.
func (s settings) apply(ctx context.Context) error {
	return errors.Join(
		call(ctx, audits.Enable, cdp.Empty{}),
		call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: s.noScript}),
		emulate(ctx, s.media),
		call(ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}),
		resize(ctx, s.width, s.height),
	)
}

// emulate sets what the user prefers, in place of all that was set before.
func emulate(ctx context.Context, media map[string]string) error {
	var features []*emulation.MediaFeature
	for name, value := range media {
		features = append(features, &emulation.MediaFeature{Name: name, Value: value})
	}
	return call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features})
}

// Scheme asks for "light" or "dark" colours.
func (p *Page) Scheme(scheme string) {
	p.t.Helper()
	p.media["prefers-color-scheme"] = scheme
	p.must("show it "+scheme, func(ctx context.Context) error { return emulate(ctx, p.media) })
}

// resize sets the viewport, one picture dot per CSS pixel.
func resize(ctx context.Context, width, height int) error {
	return call(ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: int64(width), Height: int64(height), DeviceScaleFactor: 1})
}

// Resize sets the viewport in CSS pixels.
func (p *Page) Resize(width, height int) {
	p.t.Helper()
	p.must("resize the page", func(ctx context.Context) error { return resize(ctx, width, height) })
}

// call runs a command of the DevTools protocol for its effect.
func call[P, R any](ctx context.Context, command cdp.Command[P, R], params P) error {
	_, err := chromedp.Call(ctx, command, params)
	return err
}

// Goto loads a URL and waits until the page has loaded, whatever its status.
func (p *Page) Goto(url string) {
	p.t.Helper()
	p.log.visits(url)
	p.must("go to "+url, func(ctx context.Context) error { return chromedp.Do(ctx, chromedp.Navigate(url)) })
}

// Back goes back by one page.
func (p *Page) Back() {
	p.t.Helper()
	p.must("go back", func(ctx context.Context) error { return chromedp.Do(ctx, chromedp.NavigateBack()) })
}

// Status is the HTTP status of the document that is shown.
func (p *Page) Status() int { return p.log.status() }

// must takes one step and fails the test when it does not come about in time.
func (p *Page) must(what string, step func(context.Context) error) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, p.patience)
	defer cancel()
	if err := step(ctx); err != nil {
		p.fail("%s: %v", what, err)
	}
}

// until asks again and again whether something has come true, and fails the
// test with the last reason when it has not in time. A page that is just being
// replaced gives no answer; that is no reason to stop.
func (p *Page) until(what string, ask func(context.Context) (done bool, err error)) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, p.patience)
	defer cancel()
	var reason error
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) { // the longer, the less it keeps a busy machine from it
		done, err := ask(ctx)
		if done {
			return
		}
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			reason = err
		}
		select {
		case <-ctx.Done():
			p.fail("waited %s: %s: %v", p.patience, what, orNever(reason))
			return
		case <-time.After(pause):
		}
	}
}

func orNever(reason error) error {
	if reason == nil {
		return errors.New("did not come true")
	}
	return reason
}

// transient tells of errors that only say that the page is being replaced.
func transient(err error) bool {
	if err == nil {
		return false
	}
	for _, text := range []string{"Cannot find context", "Execution context was destroyed", "context with specified id",
		"Inspected target navigated", "Cannot find default execution context"} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}
