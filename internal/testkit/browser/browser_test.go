package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// strict is a CSP as the dashboard's.
const strict = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// site serves small pages: path to body. "/site.css" and "/site.js" are its
// style and script, POST to /act answers 303 to /done.
func site(t *testing.T, bodies map[string]string) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		body, ok := bodies[r.URL.Path]
		switch {
		case strings.HasSuffix(r.URL.Path, ".css"):
			w.Header().Set("Content-Type", "text/css")
			fmt.Fprint(w, body)
			return
		case strings.HasSuffix(r.URL.Path, ".js"):
			w.Header().Set("Content-Type", "text/javascript")
			fmt.Fprint(w, body)
			return
		case r.URL.Path == "/favicon.ico":
			w.WriteHeader(http.StatusNoContent)
			return
		case !ok:
			w.WriteHeader(http.StatusNotFound)
			body = "<h1>Not found</h1>"
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", strict)
		fmt.Fprintf(w, `<!doctype html><html lang="en"><head><title>Page %s</title>`+
			`<meta name="viewport" content="width=device-width, initial-scale=1">`+
			`<link rel="stylesheet" href="/site.css"></head><body><main>%s</main></body></html>`, r.URL.Path, body)
	})
	mux.HandleFunc("POST /act", func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "said", Value: r.FormValue("kind") + r.FormValue("sure"), Path: "/"})
		http.Redirect(w, r, "/done?reason="+r.FormValue("reason"), http.StatusSeeOther)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// verdict stands for a test whose failures are wanted.
type verdict struct {
	testing.TB
	mu   sync.Mutex
	said []string
}

func (v *verdict) Helper() {}

func (v *verdict) Errorf(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.said = append(v.said, fmt.Sprintf(format, args...))
}

func (v *verdict) Fatalf(format string, args ...any) {
	v.Errorf(format, args...)
	runtime.Goexit()
}

func (v *verdict) Fatal(args ...any) { v.Fatalf("%s", fmt.Sprint(args...)) }

// failures runs a piece of a test and returns what it complains of.
func failures(t *testing.T, piece func(testing.TB)) string {
	t.Helper()
	v := &verdict{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		piece(v)
	}()
	<-done
	return strings.Join(v.said, "\n")
}

const good = `<h1>Reviews</h1><p>Two of them, see <a href="/other">another page</a> first.</p>
<p lang="ar" dir="rtl">مرحبا</p>
<form method="post" action="/act" id="act">
<p><label for="reason">Reason</label> <input id="reason" name="reason"></p>
<p><label for="kind">Kind</label> <select id="kind" name="kind"><option value="a">First</option><option value="b">Second</option></select></p>
<p><label><input type="checkbox" name="sure" value="yes"> Sure</label></p>
<p><button>Send</button></p></form>`

const goodCSS = `body { margin: 1rem; color: #111; background: #fff } button, input, select { font: inherit; min-height: 32px }
a:focus-visible, button:focus-visible, input:focus-visible, select:focus-visible { outline: 3px solid #05c }
@media (prefers-color-scheme: dark) { body { color: #eee; background: #111 } a { color: #9cf } }`

func TestAGoodPagePasses(t *testing.T) {
	url := site(t, map[string]string{"/": good, "/site.css": goodCSS})
	for name, options := range map[string][]Option{
		"script":    {Size(390, 844)},
		"no script": {NoScript(), Dark()},
	} {
		t.Run(name, func(t *testing.T) {
			p := Start(t).Open(t, options...)
			p.Goto(url + "/")
			p.Quiet(t)
			p.Axe(t)
			new(Colours).Judge(t, p)
			p.NothingCut(t)
		})
	}
}

func TestFormsWorkWithAndWithoutScript(t *testing.T) {
	url := site(t, map[string]string{"/": good, "/done": "<h1>Done</h1>"})
	for name, options := range map[string][]Option{"script": nil, "no script": {NoScript()}} {
		t.Run(name, func(t *testing.T) {
			p := Start(t).Open(t, options...)
			p.Goto(url + "/")
			p.Fill("#reason", "first")
			p.Fill("#reason", "seen")
			p.Select("#kind", "Second")
			p.Check("[name=sure]", true)
			p.Submit("#act")
			p.WaitURL("/done?reason=seen")
			p.WaitText("h1", "Done")
			if p.Status() != http.StatusOK || p.Title() != "Page /done" {
				t.Errorf("got %d %q", p.Status(), p.Title())
			}
			if cookie := Eval[string](p, "document.cookie"); cookie != "said=byes" {
				t.Errorf("the server was sent %q", cookie)
			}
			p.Back()
			p.Follow("a")
			if p.Status() != http.StatusNotFound {
				t.Errorf("a missing page answers %d", p.Status())
			}
			p.Quiet(t)
		})
	}
}

func TestPagesShareNoCookies(t *testing.T) {
	url := site(t, map[string]string{"/": good})
	a, b := Start(t).Open(t), Start(t).Open(t)
	a.Goto(url + "/")
	a.Submit("#act")
	b.Goto(url + "/")
	if cookies := Eval[string](b, "document.cookie"); cookies != "" {
		t.Errorf("another page's cookies: %s", cookies)
	}
}

func TestKeysMoveTheFocus(t *testing.T) {
	url := site(t, map[string]string{"/": good})
	p := Start(t).Open(t)
	p.Goto(url + "/")
	p.Press(kb.Tab, kb.Tab)
	if p.Focused() != "input#reason" {
		t.Errorf("focus is at %s", p.Focused())
	}
	p.Press("Shift+" + kb.Tab)
	if p.Focused() != `a "another page"` {
		t.Errorf("focus is at %s", p.Focused())
	}
}
