package web_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"executor/internal/audit"
	"executor/internal/operators"
	"executor/internal/testkit/browser"
	"executor/web"
)

// shown is a page as it is looked at.
type shown struct {
	name    string // of its pictures
	pattern string
	path    string
	as      string // "" = nobody
}

// files are what is no page: downloads, exports and the live stream.
var files = []string{"/audit.csv", "/commands/{id}/attempts/{n}/body", "/commands/{id}/json", "/live", "/reports/{id}/items.csv", "/reviews.csv", "/search.csv"}

// pages are all there are, and some of them more than once.
func (w *world) pages() []shown {
	page := func(name, pattern, path string) shown { return shown{name, pattern, path, "ada"} }
	nobodys := func(name, path string) shown { return shown{"empty-" + name, path, path, "olga"} }
	list := []shown{
		{"sign-in", "/sign-in", "/sign-in", ""}, {"sign-in-link", "/sign-in/link", "/sign-in/link?token=ABC", ""},
		page("home", "/", "/"), page("account", "/account", "/account"), page("reviews", "/reviews", "/reviews"),
		page("reviews-filtered", "/reviews", "/reviews?operation=nothing&older_than=long"),
		page("bulk-list", "/bulk", "/bulk"), page("bulk", "/bulk/{id}", "/bulk/"+w.bulk.String()),
		page("search", "/search", "/search?q=charge"), page("search-recent", "/search", "/search"),
		page("audit", "/audit", "/audit"), page("keys", "/keys", "/keys"), page("key-revoke", "/keys/{id}/revoke", "/keys/"+w.key.String()+"/revoke"),
		page("operators", "/operators", "/operators"), page("deployment", "/deployment", "/deployment"),
		page("deployment-freeze", "/deployment/freeze", "/deployment/freeze"), page("missing", "", "/nowhere"),
		nobodys("home", "/"), nobodys("reviews", "/reviews"), nobodys("bulk-list", "/bulk"), nobodys("search", "/search"), nobodys("upstreams", "/upstreams"),
		nobodys("webhooks", "/webhooks"), nobodys("deliveries", "/deliveries"), nobodys("reports", "/reports"), nobodys("keys", "/keys"),
	}
	for _, deed := range []string{"role?role=operator", "link"} {
		list = append(list, page("operator-"+deed[:4], "/operators/{id}/{deed:role|remove|disable|enable|link|end-sessions}", "/operators/"+w.operator.String()+"/"+deed))
	}
	return append(append(append(list, w.commandPages()...), w.upstreamPages()...), w.otherPages()...)
}

func (w *world) commandPages() (list []shown) {
	for name, c := range map[string]string{"unresolved": pageOf(w.doubt.ID), "asked": pageOf(w.asked.ID), "30-attempts": pageOf(w.many.ID),
		"hostile": pageOf(w.evil.ID), "1mb": pageOf(w.big.ID), "waiting": pageOf(w.waiting.ID), "lookups": pageOf(w.answered.ID)} {
		list = append(list, shown{"command-" + name, "/commands/{id}", c, "ada"})
	}
	for _, deed := range []string{"resolve", "lookup", "resend", "correct", "assign", "note", "cancel"} {
		list = append(list, shown{"command-" + deed, "/commands/{id}/" + deed, pageOf(w.doubt.ID) + "/" + deed, "ada"})
	}
	return list
}

func (w *world) upstreamPages() (list []shown) {
	for _, at := range [][2]string{{"upstreams", "/upstreams"}, {"upstream-new", "/upstreams/-/new"}, {"upstream", "/upstreams/ledger"}, {"upstream-hostile", "/upstreams/evil"},
		{"upstream-explain", "/upstreams/ledger/explain"}, {"upstream-diff", "/upstreams/ledger/diff?from=1&to=2"}, {"upstream-edit", "/upstreams/evil/edit"},
		{"upstream-pause", "/upstreams/ledger/pause"}, {"upstream-resume", "/upstreams/evil/resume"}} {
		pattern, _, _ := strings.Cut(at[1], "?")
		pattern = strings.NewReplacer("/ledger", "/{name}", "/evil", "/{name}").Replace(pattern)
		list = append(list, shown{at[0], pattern, at[1], "ada"})
	}
	return list
}

func (w *world) otherPages() (list []shown) {
	hook := "/webhooks/" + w.hook.ID.String()
	for _, at := range [][3]string{{"webhooks", "/webhooks", "/webhooks"}, {"webhook-new", "/webhooks/new", "/webhooks/new"}, {"webhook", "/webhooks/{id}", hook},
		{"webhook-edit", "/webhooks/{id}/edit", hook + "/edit"}, {"webhook-redeliver", "/webhooks/{id}/redeliver", hook + "/redeliver?since=2020-01-01T00:00&state=pending"},
		{"deliveries", "/deliveries", "/deliveries"}, {"delivery", "/deliveries/{id}", "/deliveries/" + w.delivery.ID.String()}, {"reports", "/reports", "/reports"},
		{"report-new", "/reports/new", "/reports/new"}, {"report", "/reports/{id}", w.report}, {"report-applied", "/reports/{id}", w.fresh},
		{"report-apply", "/reports/{id}/apply", w.report + "/apply"}} {
		list = append(list, shown{at[0], at[1], at[2], "ada"})
	}
	return list
}

// frozen are the pages of a deployment that sends nothing, to be seen after all others.
var frozen = []shown{{"frozen-resume", "/deployment/resume", "/deployment/resume", "ada"}, {"frozen-home", "/", "/", "ada"}}

func (w *world) freeze(t testing.TB) {
	t.Helper()
	if _, err := w.deployment.Freeze(t.Context(), audit.By{Actor: "ada", Reason: short}); err != nil {
		t.Fatal(err)
	}
}

// TestEveryPageIsAccessible looks at every page with all kinds of texts in it: in
// light and dark, wide and narrow, with what an upstream may send to do harm.
func TestEveryPageIsAccessible(t *testing.T) {
	w := newWorld(t)
	list := w.pages()
	complete(t, append(list, frozen...))
	t.Run("sending", func(t *testing.T) {
		for half := range 2 {
			t.Run(fmt.Sprint(half), func(t *testing.T) {
				t.Parallel()
				p := map[string]*browser.Page{"": browser.Start(t).Open(t), "ada": w.enter(t, "ada"), "olga": w.enter(t, "olga")}
				for i, at := range list {
					if i%2 == half {
						w.inspect(t, p[at.as], at)
					}
				}
			})
		}
	})
	w.freeze(t)
	p := w.enter(t, "ada")
	for _, at := range frozen {
		w.inspect(t, p, at)
	}
}

// inspect looks at one page. What is hidden in folds is unfolded.
func (w *world) inspect(t *testing.T, p *browser.Page, at shown) {
	p.Resize(1440, 900)
	p.Goto(w.http.URL + at.path)
	if want := map[bool]int{true: http.StatusOK, false: http.StatusNotFound}[at.pattern != ""]; p.Status() != want && at.name != "reviews-filtered" {
		t.Errorf("%s answers %d", at.path, p.Status())
	}
	p.Axe(t)
	browser.Eval[bool](p, `document.querySelectorAll("details").forEach(d => d.open = true) || true`)
	w.colours.Judge(t, p)
	if at.as != "olga" { // the empty ones have the colours of the others
		p.Scheme("dark")
		w.colours.Judge(t, p)
		p.Scheme("light")
	}
	for _, size := range [][2]int{{1440, 900}, {768, 1024}, {320, 640}} { // 320: WCAG 2.2, 1.4.10
		p.Resize(size[0], size[1])
		p.NothingCut(t)
	}
	inert(t, p)
	if !slices.Contains(alike, at.name) {
		w.shoot(t, p, at)
	}
	if at.pattern == "" || at.name == "reviews-filtered" {
		p.Quiet(t, "failed request", "log:")
	} else {
		p.Quiet(t)
	}
}

// alike are pages of which there are pictures enough.
var alike = []string{"command-asked", "command-1mb", "command-lookups"}

// shoot takes the pictures of a page, where they are wanted.
func (w *world) shoot(t *testing.T, p *browser.Page, at shown) {
	t.Helper()
	dark := at.name == "home" || at.name == "command-unresolved"
	browser.Shots(t, p, browser.ShotsDir(), w.http.URL, []browser.Shot{{Name: at.name, Path: at.path, Dark: dark}})
}

// inert fails the test for elements that only hostile text could have made.
func inert(t *testing.T, p *browser.Page) {
	t.Helper()
	found := browser.Eval[[]string](p, `[...document.querySelectorAll("script:not([src^='/static/']), img, iframe, object, embed, base, [style], a[href^='javascript' i], a[href*='evil.example']")]
		.concat([...document.querySelectorAll("*")].filter(e => [...e.attributes].some(a => a.name.startsWith("on")))).map(e => e.outerHTML.slice(0, 200))`)
	if len(found) > 0 {
		t.Errorf("%s has active elements: %q", p.URL(), found)
	}
	if text := browser.Eval[string](p, `document.documentElement.outerHTML`); strings.ContainsAny(text, "\x00\x1b\u202e\u2066") {
		t.Errorf("%s has characters that disguise others", p.URL())
	}
}

// complete fails the test for pages that are not in the list.
func complete(t *testing.T, list []shown) {
	t.Helper()
	known := map[string]bool{}
	for _, at := range list {
		known[at.pattern] = true
	}
	for _, file := range files {
		known[file] = true
	}
	for _, route := range web.AllRoutes() {
		if route.Method == http.MethodGet && !known[route.Pattern] {
			t.Errorf("nobody looks at %s, which takes the role %q", route.Pattern, operators.Role(route.Role))
		}
	}
}
