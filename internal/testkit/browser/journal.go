package browser

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/inspector"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Request is one request that a page sent, redirects each by itself.
type Request struct {
	Method string
	URL    string
	Type   string // Document, Script, Stylesheet, Fetch, EventSource …
}

// journal is what happened on a page, kept in the order of the browser.
type journal struct {
	mu       sync.Mutex
	noise    []string
	requests []Request
	hosts    map[string]bool // that the test visited
	urls     map[network.RequestID]string
	document cdp.LoaderID // of the main frame
	loaded   cdp.LoaderID // the last document that has loaded
	statuses map[cdp.LoaderID]int
	dialogs  chan page.DialogType
}

func newJournal() *journal {
	return &journal{
		hosts:    map[string]bool{},
		urls:     map[network.RequestID]string{},
		statuses: map[cdp.LoaderID]int{},
		dialogs:  make(chan page.DialogType, 64),
	}
}

// visits makes the host of a URL one that the page may talk to.
func (j *journal) visits(raw string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if u, err := url.Parse(raw); err == nil {
		j.hosts[u.Host] = true
	}
}

// hear is called with every event of the tab, in order.
func (j *journal) hear(event any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch e := event.(type) {
	case *page.EventFrameNavigated:
		if e.Frame.ParentID == "" {
			j.document = e.Frame.LoaderID
		}
	case *page.EventLifecycleEvent:
		if e.Name == "load" && e.LoaderID == j.document {
			j.loaded = e.LoaderID
		}
	case *network.EventRequestWillBeSent:
		j.request(e)
	case *network.EventResponseReceived:
		j.response(e)
	case *network.EventLoadingFailed:
		j.failure(e)
	default:
		j.hearNoise(event)
	}
}

// hearNoise notes what a page should not do.
func (j *journal) hearNoise(event any) {
	switch e := event.(type) {
	case *audits.EventIssueAdded:
		if d := e.Issue.Details.ContentSecurityPolicyIssueDetails; d != nil {
			j.note("CSP violation: %s blocked by %s %s", orInline(d.BlockedURL), d.ViolatedDirective, place(d.SourceCodeLocation))
		}
	case *log.EventEntryAdded:
		// Network entries repeat what the events of the network tell, and
		// call an error what is only a status.
		if e.Entry.Level == log.EntryLevelError && e.Entry.Source != log.EntrySourceNetwork {
			j.note("log: %s (%s)", e.Entry.Text, e.Entry.URL)
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeAssert {
			j.note("console error: %s", consoleText(e.Args))
		}
	case *runtime.EventExceptionThrown:
		j.note("exception: %s", exceptionText(e.ExceptionDetails))
	case *page.EventJavascriptDialogOpening:
		j.note("dialog: %s %q", e.Type, e.Message)
		select {
		case j.dialogs <- e.Type:
		default: // so many that the page is hostile for sure
		}
	case *page.EventWindowOpen:
		j.note("opened a window: %s", e.URL)
	case *inspector.EventTargetCrashed:
		j.note("the tab crashed")
	}
}

func (j *journal) request(e *network.EventRequestWillBeSent) {
	j.urls[e.RequestID] = e.Request.URL
	j.requests = append(j.requests, Request{Method: e.Request.Method, URL: e.Request.URL, Type: string(e.Type)})
	u, err := url.Parse(e.Request.URL)
	if err != nil || (u.Scheme != "data" && u.Scheme != "blob" && !j.hosts[u.Host]) {
		j.note("request to another host: %s", e.Request.URL)
	}
}

// response notes answers that tell of something missing or broken. The status
// of a document below 500 is the test's own matter.
func (j *journal) response(e *network.EventResponseReceived) {
	status := int(e.Response.Status)
	isDocument := e.Type == network.ResourceTypeDocument
	if isDocument {
		j.statuses[e.LoaderID] = status
	}
	if status >= 500 || status >= 400 && !isDocument {
		j.note("failed request: %d from %s", status, e.Response.URL)
	}
}

// failure notes requests that got no answer, but for those that a page gave
// up itself and those that the test blocks.
func (j *journal) failure(e *network.EventLoadingFailed) {
	if e.Canceled || e.ErrorText == "net::ERR_ABORTED" || e.BlockedReason == network.BlockedReasonInspector || e.BlockedReason == network.BlockedReasonCsp {
		return
	}
	j.note("failed request: %s: %s", j.urls[e.RequestID], e.ErrorText)
}

func (j *journal) note(format string, args ...any) {
	text := strings.TrimSpace(fmt.Sprintf(format, args...))
	if !slices.Contains(j.noise, text) {
		j.noise = append(j.noise, text)
	}
}

// answerDialogs closes dialogs, which stop a page, for as long as it lives.
func (j *journal) answerDialogs(ctx context.Context) {
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case kind := <-j.dialogs:
				_, _ = chromedp.Call(ctx, page.HandleJavaScriptDialog,
					page.HandleJavaScriptDialogParams{Accept: kind == page.DialogTypeBeforeunload})
			}
		}
	}()
}

// status is that of the shown document, 0 before there is one.
func (j *journal) status() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.statuses[j.document]
}

// current returns the shown document, and whether it has loaded.
func (j *journal) current() (document cdp.LoaderID, loaded bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.document, j.loaded == j.document
}

// Requests are all that the page sent since it was opened.
func (p *Page) Requests() []Request {
	p.log.mu.Lock()
	defer p.log.mu.Unlock()
	return slices.Clone(p.log.requests)
}

// Noise is what happened that should not on a page of ours, each once:
// violations of its CSP, errors in the console, exceptions, requests that
// failed or went to another host, dialogs, windows it opened. Subresources
// fail from status 400 on, documents from 500 on.
func (p *Page) Noise() []string {
	p.settle()
	p.log.mu.Lock()
	defer p.log.mu.Unlock()
	return slices.Clone(p.log.noise)
}

// Quiet fails the test for any noise but that which contains one of the given
// texts.
func (p *Page) Quiet(t testing.TB, expected ...string) {
	t.Helper()
	var unexpected []string
	for _, noise := range p.Noise() {
		if !slices.ContainsFunc(expected, func(text string) bool { return strings.Contains(noise, text) }) {
			unexpected = append(unexpected, noise)
		}
	}
	if len(unexpected) > 0 {
		t.Errorf("%s is not quiet:\n  %s", p.URL(), strings.Join(unexpected, "\n  "))
	}
}

// settle lets the page finish what is under way: two frames drawn, and with
// that everything told which happened before.
func (p *Page) settle() {
	p.t.Helper()
	if p.script {
		p.must("draw the page", func(ctx context.Context) error {
			_, err := eval[bool](ctx, `new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
			if transient(err) {
				return nil
			}
			return err
		})
	}
}

func orInline(blocked string) string {
	if blocked == "" {
		return "inline code"
	}
	return blocked
}

func place(at *audits.SourceCodeLocation) string {
	if at == nil {
		return ""
	}
	return fmt.Sprintf("at %s:%d", at.URL, at.LineNumber+1)
}

func consoleText(args []*runtime.RemoteObject) string {
	var texts []string
	for _, arg := range args {
		if arg.Description != "" {
			texts = append(texts, arg.Description)
		} else {
			texts = append(texts, string(arg.Value))
		}
	}
	return strings.Join(texts, " ")
}

func exceptionText(d *runtime.ExceptionDetails) string {
	if d.Exception != nil && d.Exception.Description != "" {
		return d.Exception.Description
	}
	return d.Text
}
