package web_test

import (
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"executor/commands"
	"executor/internal/audit"
	"executor/outcome"
)

var hiddenFields = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)">`)

// hidden are the hidden fields of a page's forms, to be sent with what is typed. A
// field that stands on the page twice counts once.
func (p page) hidden(typed ...string) []string {
	given := map[string]bool{}
	for i := 0; i < len(typed); i += 2 {
		given[typed[i]] = true
	}
	for _, found := range hiddenFields.FindAllStringSubmatch(p.body, -1) {
		if !given[found[1]] {
			given[found[1]] = true
			typed = append(typed, found[1], html.UnescapeString(found[2]))
		}
	}
	return typed
}

// act opens the form of an action, sends it, and confirms what is to be confirmed.
func (b *browse) act(c commands.Command, action string, typed ...string) page {
	b.t.Helper()
	path := pageOf(c.ID) + "/" + action
	p := b.post(path, b.get(path).hidden(typed...)...)
	if strings.Contains(p.body, `name="confirmed"`) {
		p = b.post(path, p.hidden()...)
	}
	return p
}

// deeds are the actions on a command in the audit, newest first.
func (s *site) deeds(t testing.TB, id uuid.UUID) string {
	t.Helper()
	list, _, err := audit.List(t.Context(), s.pool, audit.Filter{Tenant: tenant, Command: &id})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Actor+" "+e.Action)
	}
	return strings.Join(names, ", ")
}

// TestResolvingInTwoSteps: the form says what follows, the confirmation what exactly
// is about to be declared, and only the second form does it, once.
func TestResolvingInTwoSteps(t *testing.T) {
	s := newSite(t)
	c := s.doubtful(t, "pay-1")
	otto := s.as(t, "otto")
	otto.get(pageOf(c.ID)).has(t, "/resolve", "/assign", "Resend", "Not offered now", "no lookup")
	path := pageOf(c.ID) + "/resolve"
	form := otto.get(path)
	form.has(t, "The caller, who was told unresolved", "Nothing is sent to the upstream", "only corrected", "recorded under your name")

	empty := otto.post(path, form.hidden("reference", "pay_9")...)
	if empty.status != http.StatusUnprocessableEntity {
		t.Errorf("an empty form: %d", empty.status)
	}
	empty.has(t, `value="pay_9"`, `id="wrong-reason"`, `id="wrong-state"`, `aria-describedby="wrong-reason"`)

	confirm := otto.post(path, form.hidden("state", "success", "reference", "pay_9", "reason", "the statement has it")...)
	confirm.has(t, "You are about to declare that ledger charge_card with the key pay-1 was done, reference pay_9. The caller is told success. This is recorded under your name.", "No webhook takes command.success")
	if got := s.await(t, c.ID, outcome.StateUnresolved); got.Version != c.Version {
		t.Error("a preview changed the command")
	}
	fields := confirm.hidden()
	done := otto.post(path, fields...)
	if done.path != pageOf(c.ID) {
		t.Errorf("leads to %s", done.path)
	}
	done.has(t, "Resolved as success")
	again := otto.post(path, fields...)
	again.has(t, "done already")
	if got := s.await(t, c.ID, outcome.StateSuccess); got.Outcome.Result.Reference != "pay_9" {
		t.Errorf("outcome %+v", got.Outcome)
	}
	if got := s.deeds(t, c.ID); got != "otto command.resolve" {
		t.Errorf("deeds: %s", got)
	}
}

// TestEachActionByForms: every action there is, from its form to its effect.
func TestEachActionByForms(t *testing.T) {
	s := newSite(t)
	otto := s.as(t, "otto")
	get := func(c commands.Command) commands.Command {
		c, err := s.commands.Get(t.Context(), tenant, c.ID)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := s.doubtful(t, "all")
	otto.act(c, "assign", "to", "me", "reason", "mine").has(t, "otto looks after it now")
	if get(c).Reconciliation.Assignee != "otto" {
		t.Error("not assigned")
	}
	otto.act(c, "assign", "to", "other", "reason", "x").has(t, "Write who takes it on")
	otto.act(c, "assign", "to", "nobody", "reason", "not mine").has(t, "Nobody looks after it")
	otto.act(c, "note", "reason", "called the bank").has(t, "The note is on record")
	otto.act(c, "resolve", "state", "rejected", "code", "closed", "message", "account closed", "reason", "they say so").has(t, "Resolved as rejected")
	if o := get(c).Outcome; o.Rejection == nil || o.Rejection.Code != "closed" {
		t.Errorf("outcome %+v", o)
	}
	otto.act(c, "correct", "state", "cancelled", "reason", "it never came").has(t, "Corrected to cancelled")
	if get(c).State != outcome.StateCancelled {
		t.Error("not corrected")
	}
	otto.get(pageOf(c.ID)+"/resolve").has(t, "Resolve is not possible as things stand", "only an unresolved one can be resolved")

	d := s.doubtful(t, "again")
	refused := otto.act(d, "resend", "reason", "try")
	refused.has(t, "not safely idempotent", `value="yes"`)
	refused.lacks(t, "disabled")
	if refused.status != http.StatusConflict {
		t.Errorf("an unsafe resend: %d", refused.status)
	}
	otto.act(d, "resend", "reason", "try", "absent", "yes").has(t, "needs a reference to its evidence")
	otto.act(d, "resend", "reason", "they have nothing", "absent", "yes", "evidence_reference", "T-1").has(t, "It is sent once more")
	s.until(t, d.ID, func(c commands.Command) bool { return c.Attempts == 2 && c.Final() })
	if got := s.deeds(t, d.ID); got != "otto command.resend" {
		t.Errorf("deeds: %s", got)
	}

	e := s.ended(t, "ask", "send_transfer", "commit,drop", outcome.StateUnresolved)
	otto.act(e, "cancel", "reason", "customer gave up").has(t, "The cancel is on record")
	if !get(e).CancelRequested {
		t.Error("not cancelled")
	}
	otto.get(pageOf(e.ID)).has(t, "A cancel was asked for already")
	otto.act(e, "lookup", "reason", "hurry").has(t, "The upstream is asked now")
	if got := s.deeds(t, e.ID); got != "otto command.lookup, otto command.cancel" {
		t.Errorf("deeds: %s", got)
	}
}

// TestAStaleFormSaysWhatChanged: of two operators one wins; the other sees who did
// what, keeps what they typed, and may go on.
func TestAStaleFormSaysWhatChanged(t *testing.T) {
	s := newSite(t)
	c := s.doubtful(t, "two")
	otto, ada := s.as(t, "otto"), s.as(t, "ada")
	path := pageOf(c.ID) + "/resolve"
	typed := []string{"state", "success", "reference", "pay_7", "reason", "my finding"}
	first, second := otto.get(path), otto.get(path)
	ada.act(c, "note", "reason", "I am on the phone").has(t, "on record")

	stale := otto.post(path, first.hidden(typed...)...)
	if stale.status != http.StatusConflict {
		t.Errorf("a stale form: %d", stale.status)
	}
	stale.has(t, "has changed since you looked", "ada", "I am on the phone", `value="pay_7"`, "my finding", "Go on with version")
	confirm := otto.post(path, stale.hidden(typed...)...)
	ada.act(c, "resolve", "state", "rejected", "reason", "the bank refused it").has(t, "Resolved as rejected")
	lost := otto.post(path, confirm.hidden()...)
	lost.has(t, "You saw it as", "rejected", "the bank refused it", "Resolve is not possible as things stand", `value="pay_7"`)
	if lost.status != http.StatusConflict || s.await(t, c.ID, outcome.StateRejected).Outcome.Result != nil {
		t.Errorf("the loser: %d", lost.status)
	}
	same := otto.post(path, second.hidden("state", "rejected", "reason", "me too", "confirmed", "yes")...)
	same.has(t, "already as you wanted it")
	if got := otto.post(path, "state", "success", "reason", "x", "reference", "y"); got.status != http.StatusConflict {
		t.Errorf("a form without a version: %d", got.status)
	}
}

// TestWhoMayNotAct: a viewer sees what there is and may not; another tenant's
// commands do not exist.
func TestWhoMayNotAct(t *testing.T) {
	s := newSite(t)
	c := s.doubtful(t, "mine")
	vera := s.as(t, "vera")
	vera.get(pageOf(c.ID)).has(t, "takes the role operator", "Resolve")
	vera.get(pageOf(c.ID)).lacks(t, `href="`+pageOf(c.ID)+`/resolve"`)
	if p := vera.post(pageOf(c.ID)+"/note", "reason", "x", "version", "1"); p.status != http.StatusForbidden {
		t.Errorf("a viewer's note: %d", p.status)
	}
	s.addOperator(t, "oscar", "other", "operator")
	oscar := s.as(t, "oscar")
	for _, action := range []string{"resolve", "lookup", "resend", "assign", "note", "correct", "cancel"} {
		if p := oscar.get(pageOf(c.ID) + "/" + action); p.status != http.StatusNotFound {
			t.Errorf("another tenant's %s: %d", action, p.status)
		}
		if p := oscar.post(pageOf(c.ID)+"/"+action, "reason", "x", "version", "1", "state", "success", "reference", "x", "confirmed", "yes"); p.status != http.StatusNotFound {
			t.Errorf("another tenant's %s: %d", action, p.status)
		}
	}
	if s.deeds(t, c.ID) != "" {
		t.Error("something was done")
	}
}

// until waits until a command is as wanted.
func (s *site) until(t testing.TB, id uuid.UUID, ok func(commands.Command) bool) {
	t.Helper()
	until(t, "the command "+id.String(), func() bool {
		c, err := s.commands.Get(t.Context(), tenant, id)
		if err != nil {
			t.Fatal(err)
		}
		return ok(c)
	})
}
