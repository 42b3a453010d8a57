package web_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/google/uuid"

	"executor/commands"
	"executor/internal/testkit/browser"
	"executor/outcome"
	"executor/reconcile"
)

func TestMain(m *testing.M) { os.Exit(browser.Main(m)) }

// enter signs somebody in, in a browser.
func (s *site) enter(t testing.TB, name string, options ...browser.Option) *browser.Page {
	t.Helper()
	p := browser.Start(t).Open(t, options...)
	p.Goto(s.http.URL + "/sign-in")
	p.Fill("#name", name)
	p.Fill("#password", password)
	p.Submit("main form")
	return p
}

// TestStories are what operators do, in a browser, on one site.
func TestStories(t *testing.T) {
	s := newSite(t)
	for name, story := range map[string]func(*testing.T, *site){
		"with a mouse": func(t *testing.T, s *site) { findAndResolve(t, s, "mouse") },
		"no script":    func(t *testing.T, s *site) { findAndResolve(t, s, "bare", browser.NoScript()) },
		"from a mail":  fromAnotherSite,
		"keyboard":     keyboardOnly, "stale": staleForm, "watched": watchedPage, "asked": askedFor,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story(t, s)
		})
	}
}

// findAndResolve goes from the sign-in to the audit entry of a resolved command, and
// signs out.
func findAndResolve(t *testing.T, s *site, key string, options ...browser.Option) {
	c := s.doubtful(t, key)
	p := s.enter(t, "otto", options...)
	p.Follow(`.nav a[href="/reviews"]`)
	p.Follow(`[id="row-` + c.ID.String() + `"] a[data-open]`)
	p.WaitText("h1", "unresolved")
	p.WaitText("main", "the upstream may or may not have done it")
	p.Follow(`a[href$="/resolve"]`)
	p.Check("#state-success", true)
	p.Fill("#reference", "pay_9")
	p.Fill("#reason", "the statement of "+key+" has it")
	p.Submit("main form")
	p.WaitText(".sentence", "You are about to declare")
	p.Submit("main form")
	p.WaitText("h1", "success")
	s.await(t, c.ID, outcome.StateSuccess)
	p.Goto(s.http.URL + "/audit?command=" + c.ID.String())
	p.WaitText("tbody", "the statement of "+key+" has it")
	p.WaitText("tbody", "command.resolve")
	p.Quiet(t)
	p.Submit(`form[action="/sign-out"]`)
	p.Goto(s.http.URL + "/reviews")
	p.WaitURL("/sign-in")
}

// fromAnotherSite follows a link on a page of another site, whose requests carry no
// cookie, and is signed in all the same.
func fromAnotherSite(t *testing.T, s *site) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `<!doctype html><title>x</title><a href="%s/reviews?kind=conflict">a mail</a>`, s.http.URL)
	}))
	t.Cleanup(elsewhere.Close)
	p := s.enter(t, "vera")
	p.Goto(strings.Replace(elsewhere.URL, "127.0.0.1", "localhost", 1))
	p.Follow("a")
	p.WaitURL("/reviews?kind=conflict")
	p.WaitText("h1", "Review queue")
}

// keyboardOnly does the same without a mouse.
func keyboardOnly(t *testing.T, s *site) {
	c := s.doubtful(t, "keyboard")
	p := browser.Start(t).Open(t)
	p.Goto(s.http.URL + "/sign-in")
	tabTo(t, p, "input#name")
	p.Press("o", "t", "t", "o", kb.Tab)
	for _, letter := range password {
		p.Press(string(letter))
	}
	p.Press(kb.Enter)
	p.WaitFor("html.js .nav") // the keys are heard once the script has run
	p.Press("/", kb.Escape)
	p.Press("r")
	p.WaitURL("/reviews")
	p.WaitFor("html.js tbody")
	p.Press("j", "k", "a")
	p.Press("/", kb.Backspace) // the key that moves the focus is typed as well by this keyboard
	for _, letter := range c.Key {
		p.Press(string(letter))
	}
	p.Press(kb.Enter)
	p.WaitURL("/search?q=keyboard")
	p.WaitFor("html.js tbody")
	p.Press("j", kb.Enter)
	p.WaitURL(pageOf(c.ID))
	p.WaitText("h1", "unresolved")
	tabTo(t, p, `a.btn "Resolve"`)
	p.Press(kb.Enter)
	p.WaitURL(pageOf(c.ID) + "/resolve")
	tabTo(t, p, "input#state-success")
	p.Press(" ")
	tabTo(t, p, "input#reference")
	p.Press("p", "1")
	tabTo(t, p, "textarea#reason")
	p.Press("o", "k")
	tabTo(t, p, `button.primary "Look at it once more"`)
	p.Press(kb.Enter)
	p.WaitFor(".sentence")
	tabTo(t, p, `button.primary "Yes: Resolve"`)
	p.Press(kb.Enter)
	p.WaitText("h1", "success")
	s.await(t, c.ID, outcome.StateSuccess)
	p.Quiet(t)
}

// tabTo presses Tab until an element has the focus.
func tabTo(t *testing.T, p *browser.Page, element string) {
	t.Helper()
	var seen []string
	for range 80 {
		if p.Focused() == element {
			return
		}
		p.Press(kb.Tab)
		seen = append(seen, p.Focused())
	}
	t.Fatalf("Tab never reaches %s: %q", element, seen)
}

// staleForm: what somebody else does in between is shown, and nothing typed is lost.
func staleForm(t *testing.T, s *site) {
	c := s.doubtful(t, "stale")
	p := s.enter(t, "otto")
	p.Goto(s.http.URL + pageOf(c.ID) + "/resolve")
	p.Check("#state-success", true)
	p.Fill("#reference", "pay_7")
	p.Fill("#reason", "my finding")
	if err := s.doubts.Note(t.Context(), deed(c, "on the phone with them")); err != nil {
		t.Fatal(err)
	}
	p.Submit("main form")
	p.WaitText("[role=alert]", "on the phone with them")
	if p.Status() != 409 || p.Value("#reference") != "pay_7" || p.Value("#reason") != "my finding" {
		t.Errorf("%d keeps %q and %q", p.Status(), p.Value("#reference"), p.Value("#reason"))
	}
	s.await(t, c.ID, outcome.StateUnresolved)
	p.Submit("main .form")
	p.Submit("main form")
	s.await(t, c.ID, outcome.StateSuccess)
}

// deed is something that ada does.
func deed(c commands.Command, reason string) reconcile.Action {
	return reconcile.Action{Tenant: tenant, Command: c.ID, Version: c.Version, Actor: "ada", Reason: reason, EvidenceReference: "T-1"}
}

// watchedPage: a page follows its command by itself and keeps what its reader has
// unfolded; one that is paused stays as it is until its reader goes on.
func watchedPage(t *testing.T, s *site) {
	c := s.doubtful(t, "watched")
	p := s.enter(t, "vera")
	p.Goto(s.http.URL + pageOf(c.ID))
	p.Click("#request > summary")
	p.Click("#attempt-1 > summary")
	p.WaitFor("#request[open]")
	p.WaitFor(`[data-live="on"]`)
	if err := s.doubts.Note(t.Context(), deed(c, "on the phone with them")); err != nil {
		t.Fatal(err)
	}
	p.WaitText("main", "on the phone with them")
	p.Click("[data-live-toggle]")
	p.WaitText("[data-live-text]", "Paused")
	c = s.await(t, c.ID, outcome.StateUnresolved)
	if err := s.doubts.Resolve(t.Context(), deed(c, "asked them"), reconcile.Resolution{State: outcome.StateSuccess, Reference: "p"}); err != nil {
		t.Fatal(err)
	}
	p.WaitText("h1", "unresolved")
	p.Click("[data-live-toggle]")
	p.WaitText("h1", "success")
	p.WaitText("section.plain", "A person found that the upstream did it.")
	p.WaitFor("#request[open]")
	p.WaitFor("#attempt-1:not([open])")
	p.Quiet(t)
}

// askedFor: what the upstream can be asked about is asked now, and the page shows by
// itself what it said.
func askedFor(t *testing.T, s *site) {
	c := s.ended(t, "transfer-1", "send_transfer", "commit,drop", outcome.StateUnresolved)
	p := s.enter(t, "otto")
	p.Goto(s.http.URL + pageOf(c.ID))
	p.Follow(`a[href="` + pageOf(c.ID) + `/lookup"]`)
	p.Fill("#reason", "the shop asks")
	p.Submit("main form")
	if p.Count("input[name=confirmed]") > 0 {
		p.Submit("main form")
	}
	p.WaitText("h1", "success")
	p.WaitText("main", "The upstream was asked, and showed that it was done.")
	p.Quiet(t)
}

// TestManyInABrowser: selected by one tick, previewed, confirmed, and followed to
// the end.
func TestManyInABrowser(t *testing.T) {
	s := newSite(t)
	s.manyDoubts(t, 12)
	p := s.enter(t, "otto")
	p.Goto(s.http.URL + "/reviews")
	p.Check("input[data-all]", true)
	p.WaitText("[data-chosen]", "12")
	p.Select("#do", "resolve_rejected")
	p.Submit("button[value=chosen]")
	p.WaitText(".sentence", "resolve 12 commands as rejected")
	p.Fill("#reason", "the bank refused them all")
	p.Submit("main .form")
	p.WaitURL("/bulk/")
	s.bulkEnded(t, uuid.MustParse(strings.TrimPrefix(p.URL(), s.http.URL+"/bulk/")))
	p.WaitText("main", "12 done")
	p.Quiet(t)
}
