package web_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/commands"
	"executor/internal/audit"
	"executor/internal/operators"
	"executor/outcome"
	"executor/reconcile"
)

// pageOf is the path of a command's page.
func pageOf(id uuid.UUID) string { return "/commands/" + id.String() }

func TestACommandPageSaysWhatIsKnown(t *testing.T) {
	s := newSite(t)
	vera := s.as(t, "vera")
	for _, tt := range []struct {
		key, operation, behavior string
		state                    outcome.State
		says                     []string
	}{
		{"paid", "create_payment", "", outcome.StateSuccess, []string{
			"The upstream did it and confirmed it.", "Nothing about whether it was done.", "Nothing: this is final.", "that would do it a second time"}},
		{"refused", "charge_card", "status=422", outcome.StateRejected, []string{
			"The upstream refused it, and nothing was done.", "An identical command would be refused again"}},
		{"doubt", "charge_card", "commit,drop", outcome.StateUnresolved, []string{
			"No answer came to attempt 1: the upstream may or may not have done it.", "Whether the upstream has done it.",
			"A person decides, because the profile names no way to ask the upstream. Nobody has taken it on yet.", "Settle it here first."}},
		{"asked", "send_transfer", "commit,drop", outcome.StateUnresolved, []string{
			"The upstream is asked what became of it (0 lookups so far), without sending it again. The next time:"}},
	} {
		c := s.ended(t, tt.key, tt.operation, tt.behavior, tt.state)
		p := vera.get(pageOf(c.ID))
		if p.status != http.StatusOK {
			t.Fatalf("%s: %d\n%s", tt.key, p.status, p.body)
		}
		p.has(t, append(tt.says, `data-live-topic="command:`+c.ID.String()+`"`, "Attempt 1", `role="img"`)...)
	}
}

func TestACommandPageFollowsACommandThatRuns(t *testing.T) {
	s := newSite(t)
	release := make(chan struct{})
	arrived := make(chan struct{})
	s.evil(t, func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-release
		_, _ = w.Write([]byte(`{}`))
	})
	vera := s.as(t, "vera")
	later := time.Now().Add(time.Hour)
	waiting := s.submit(t, "waits", "charge_card", "", func(sub *commands.Submission) { sub.NotBefore = &later })
	vera.get(pageOf(waiting)).has(t, "nothing has been sent yet", "before which the caller wants nothing sent", "No attempt has been made yet.", "it ends as cancelled")
	id := s.submit(t, "runs", "act", "", toEvil("act", "{}"))
	<-arrived
	vera.get(pageOf(id)).has(t, "Attempt 1 is on the wire since", "The attempt is open", "under way", "A cancel does not cut the attempt off")
	close(release)
	s.await(t, id, outcome.StateSuccess)
	if _, _, err := s.commands.Cancel(t.Context(), tenant, waiting, audit.By{Actor: "ada"}); err != nil {
		t.Fatal(err)
	}
	vera.get(pageOf(waiting)).has(t, "The caller cancelled it before anything was done.", "under a NEW key")
}

func TestACommandPageOfManyAttemptsStaysReadable(t *testing.T) {
	s := newSite(t)
	c := s.ended(t, "many", "create_payment", "times=29;status=503", outcome.StateSuccess)
	p := s.as(t, "vera").get(pageOf(c.ID))
	p.has(t, "Attempt 30", "The axis is compressed", `id="attempt-1"`, `<details id="attempt-30" class="attempt" open>`)
	if open := strings.Count(p.body, `class="attempt" open`); open > 2 {
		t.Errorf("%d attempts are unfolded", open)
	}
	p.lacks(t, "style=", "NaN", "+Inf")
}

func TestACommandOfAnotherTenantIsNotFound(t *testing.T) {
	s := newSite(t)
	c := s.doubtful(t, "mine")
	s.addOperator(t, "eve", "other", operators.RoleAdmin)
	eve := s.as(t, "eve")
	for _, path := range []string{pageOf(c.ID), pageOf(c.ID) + "/json", pageOf(c.ID) + "/attempts/1/body", pageOf(uuid.New()), "/commands/x"} {
		if p := eve.get(path); p.status != http.StatusNotFound {
			t.Errorf("%s: %d", path, p.status)
		}
	}
	if p := s.as(t, "vera").get(pageOf(c.ID) + "/json"); p.status != http.StatusOK || p.header.Get("Content-Type") != "application/json" {
		t.Errorf("JSON: %d %s", p.status, p.header.Get("Content-Type"))
	}
}

func TestACommandPageShowsWhatContradictsIt(t *testing.T) {
	s := newSite(t)
	c := s.ended(t, "paid", "create_payment", "", outcome.StateSuccess)
	err := pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error {
		_, _, err := s.commands.Learn(t.Context(), tx, c.ID, commands.Knowledge{
			Source: outcome.DecidedByLookup, Finding: outcome.FindingRefused, Status: 404, Observation: []byte(`{"url": "<script>"}`),
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	s.as(t, "vera").get(pageOf(c.ID)).has(t, "The command stands as success. But a lookup says that it was refused (404)",
		"Which of the two is right", "&lt;script&gt;", ">conflict<")
}

func TestASubmissionPutTogetherAgainGivesTheSameCommand(t *testing.T) {
	s := newSite(t)
	s.evil(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{}`)) })
	written := func(sub *commands.Submission) {
		sub.Upstream, sub.Params = "evil", map[string]string{"place": "a/b?c"}
		sub.Query, sub.Headers = map[string]string{"mode": "x & y"}, map[string]string{"x-trace": "t1"}
		sub.Body = []byte("{ \"note\": \"it's \u202E\", \"order\": {\"n\": 1.50} }\n")
	}
	for key, id := range map[string]uuid.UUID{
		"header": s.submit(t, "header", "create_payment", ""), "none": s.submit(t, "none", "charge_card", ""),
		"body": s.submit(t, "body", "written", "", written),
	} {
		c := s.await(t, id, outcome.StateSuccess)
		asked, err := s.commands.Asked(t.Context(), c, 1<<16)
		if err != nil || len(asked.Lost) > 0 {
			t.Fatalf("%s: lost %v, %v", key, asked.Lost, err)
		}
		asked.Submission.Actor = "again"
		again, err := s.commands.Submit(t.Context(), asked.Submission)
		if err != nil || !again.Replayed || again.Command.ID != id {
			t.Errorf("%s: %+v, %v", key, again, err)
		}
		s.as(t, "vera").get(pageOf(id)).has(t, "executor submit --upstream", "--key "+key, "--data-binary", "$EXECUTOR_API_KEY")
	}
}

// TestACommandPageTellsOfBodiesThatAreNotStored: a one-shot body is nowhere to be
// shown; a file is named, and the repeat refers to it again.
func TestACommandPageTellsOfBodiesThatAreNotStored(t *testing.T) {
	s := newSite(t)
	s.evil(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{}`)) })
	once := s.submit(t, "once", "act", "", toEvil("act", `{"pin":"canary-4711"}`), func(sub *commands.Submission) { sub.OneShot = true })
	s.await(t, once, outcome.StateSuccess)
	p := s.as(t, "vera").get(pageOf(once))
	p.has(t, "The body is one-shot", "your own copy of its body")
	if strings.Contains(p.body, "canary") {
		t.Error("the page shows the body")
	}
	file := s.submit(t, "file", "stored", "", func(sub *commands.Submission) {
		sub.Upstream, sub.Body, sub.HasBody, sub.BodyFile = "evil", nil, false, s.bodyFile(t, "in/a.pdf", "content")
	})
	s.await(t, file, outcome.StateSuccess)
	s.as(t, "vera").get(pageOf(file)).has(t, "in/a.pdf", "is read from the service", "--body-ref")
}

func TestACommandPageShowsWhoFoundOutAndWhoWasTold(t *testing.T) {
	s := newSite(t)
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(receiver.Close)
	s.hook(t, receiver.URL+"/hook")
	c := s.ended(t, "asked", "send_transfer", "commit,drop", outcome.StateUnresolved)
	err := s.doubts.LookUpNow(t.Context(), reconcile.Action{Tenant: tenant, Command: c.ID, Version: c.Version, Actor: "otto", Reason: "the shop <asks>"})
	if err != nil {
		t.Fatal(err)
	}
	s.await(t, c.ID, outcome.StateSuccess)
	s.as(t, "vera").get(pageOf(c.ID)).has(t, "The upstream was asked, and showed that it was done.",
		"Lookup, round 1, question 1", "GET "+s.simURL+"/v1/charges?client_reference=asked", `&#34;items&#34;`, "It moved the command.",
		"command.unresolved", "command.success", receiver.URL+"/hook", "command.lookup", "the shop &lt;asks&gt;", "lookup.ended", ">Lookups</text>")
}
