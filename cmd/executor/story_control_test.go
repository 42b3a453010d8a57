//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"executor/client"
	"executor/internal/testkit"
	"executor/outcome"
)

// interference is a story in which somebody does more than submit and wait.
type interference struct {
	name string
	tell func(*testing.T)
}

func (s *stage) interferences() []interference {
	return []interference{
		{"cancelled before the first attempt", s.cancelledBefore},
		{"cancelled while the answer is on its way", s.cancelledDuring},
		{"cancelled between attempts", s.cancelledBetween},
		{"cancelled after the end", s.cancelledAfter},
		{"the deadline passes in a paused upstream", s.deadlineInPause},
		{"pause and resume", s.pauseAndResume},
		{"not before a moment", s.notBefore},
		{"a throttle holds back the others", s.throttleHoldsBack},
		{"one at a time", s.oneAtATime},
		{"a second response is left over", s.leftover},
		{"the connection dies under a repeatable request", s.noSilentRepeat},
		{"408 on a connection that was idle", s.timeoutOnReused},
		{"the profile's own proxy", s.throughProxy},
		{"fifty identical submits at once", s.fiftyAtOnce},
		{"another request under a known key", s.keyReused},
		{"what is never accepted", s.refusedAtTheDoor},
		{"where no profile may lead", s.nowhere},
	}
}

// holding is an upstream that keeps each request until it is told what to answer.
type holding struct{ answer chan string }

func newHolding() holding { return holding{make(chan string)} }

func (h holding) script(p *peer) {
	if _, ok := p.ReadRequest(); !ok {
		return
	}
	select {
	case text := <-h.answer:
		p.Send(text)
	case <-p.of.over:
	}
}

// cancel asks for no further attempt.
func (r *running) cancel(t *testing.T, want client.CancelResult) client.Command {
	t.Helper()
	c, err := r.api.Cancel(bounded(t), r.command.ID)
	if err != nil || c.Result != want {
		t.Fatalf("cancel: %q, want %q; %v", c.Result, want, err)
	}
	return c.Command
}

// onTheWire waits until its request has arrived.
func (r *running) onTheWire(t *testing.T) {
	t.Helper()
	r.until(t, "the request at the upstream", func(client.Command) bool { return len(r.arrivals()) > 0 })
}

func (s *stage) pause(t *testing.T, upstream string) {
	t.Helper()
	u, err := s.api.PauseUpstream(bounded(t), upstream, "a story")
	if err != nil || u.Paused == nil {
		t.Fatalf("pause: %+v, %v", u, err)
	}
}

func (s *stage) resume(t *testing.T, upstream string) {
	t.Helper()
	u, err := s.api.ResumeUpstream(bounded(t), upstream)
	if err != nil || u.Paused != nil {
		t.Fatalf("resume: %+v, %v", u, err)
	}
}

func (s *stage) cancelledBefore(t *testing.T) {
	pl := s.one(t, story{name: "cancelled before", kind: "none", meets: "commit", ends: "cancelled cancelled_by_caller cancel_requested"})
	s.pause(t, pl.upstream)
	r := pl.submit(t)
	if c := r.again(t); c.State != client.StatePending || c.Waiting == nil || c.Waiting.For != "paused" {
		t.Errorf("submitted again while it waits: %s", c.JSON())
	}
	if c := r.cancel(t, client.CancelCancelled); c.State != client.StateCancelled {
		t.Errorf("it is not over in the same request: %s", c.JSON())
	}
	s.resume(t, pl.upstream)
	r.end(t)
}

// The request on the wire is not cut off, and its answer decides.
func (s *stage) cancelledDuring(t *testing.T) {
	for _, tt := range []struct {
		name          string
		kind          outcome.Idempotency
		answer        string
		ends, attempt string
	}{
		{"201", "none", testkit.Reply(201, `{"id":"p1"}`), "success applied applied", created},
		{"422", "keyed", testkit.Reply(422, `{}`), "rejected refused refused", refused},
		{"429", "keyed", testkit.Reply(429, `{}`), "cancelled cancelled_by_caller cancel_requested", throttled},
		{"503", "keyed", testkit.Reply(503, `{}`), "unresolved unclear_response cancel_requested", "response_received unclear 503"},
		{"nothing", "keyed", "", "unresolved no_response cancel_requested", lost},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHolding()
			r := s.one(t, story{name: "cancelled during " + tt.name, kind: tt.kind, script: h.script}).submit(t)
			r.onTheWire(t)
			if c := r.again(t); c.State != client.StateExecuting {
				t.Errorf("submitted again while it is on the wire: %s", c.JSON())
			}
			if c := r.cancel(t, client.CancelRequested); !c.CancelRequested || c.Final {
				t.Errorf("cancelled while it is on the wire: %s", c.JSON())
			}
			h.answer <- tt.answer
			r.endsAs(t, tt.ends, tt.attempt)
		})
	}
}

func (s *stage) cancelledBetween(t *testing.T) {
	for _, tt := range []struct {
		name          string
		kind          outcome.Idempotency
		meets         string
		result        client.CancelResult
		ends, attempt string
	}{
		{"after 429", "keyed", "status=429,retry_after=3600", client.CancelCancelled, "cancelled cancelled_by_caller cancel_requested", throttled},
		{"after 429 no key", "none", "status=429,retry_after=3600", client.CancelCancelled, "cancelled cancelled_by_caller cancel_requested", throttled},
		{"after a doubt", "keyed", "status=503,retry_after=3600", client.CancelInDoubt, "unresolved unclear_response cancel_requested", "response_received unclear 503"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := s.one(t, story{
				name: "cancelled between " + tt.name, kind: tt.kind, meets: tt.meets, profile: settings{"deadline": "3h"},
			}).submit(t)
			if c := r.waitsFor(t, "backoff"); c.NextAttemptAt == nil || c.Record.Attempts != 1 {
				t.Errorf("between two attempts it is %s", c.JSON())
			}
			r.cancel(t, tt.result)
			r.endsAs(t, tt.ends, tt.attempt)
		})
	}
}

func (s *stage) cancelledAfter(t *testing.T) {
	for _, tt := range []struct {
		meets, ends, attempt string
		effects              int
		result               client.CancelResult
	}{
		{"commit", "success applied applied", created, 1, client.CancelTooLate},
		{"status=422", "rejected refused refused", refused, 0, client.CancelTooLate},
		{"status=429,retry_after=3600", "cancelled declined deadline", throttled, 0, client.CancelTooLate},
		{"commit,drop", "unresolved no_response ambiguous", lost, 1, client.CancelInDoubt},
	} {
		t.Run(tt.meets, func(t *testing.T) {
			r := s.one(t, story{name: "cancelled after " + tt.meets, kind: "none", meets: tt.meets, effects: tt.effects}).submit(t)
			before := r.endsAs(t, tt.ends, tt.attempt).command
			if after := r.cancel(t, tt.result); after.State != before.State {
				t.Errorf("a cancel changed %s to %s", before.State, after.State)
			}
			r.endsAs(t, tt.ends, tt.attempt)
		})
	}
}

// shortly is a deadline that comes soon.
func shortly(sub *client.Submission) { sub.Timeout = 2 * time.Second }

func (s *stage) deadlineInPause(t *testing.T) {
	pl := s.one(t, story{name: "deadline in pause", kind: "keyed", meets: "commit", change: shortly, ends: "cancelled never_sent deadline"})
	s.pause(t, pl.upstream)
	r := pl.submit(t)
	r.end(t)
	s.resume(t, pl.upstream)
}

func (s *stage) pauseAndResume(t *testing.T) {
	pl := s.one(t, story{name: "pause and resume", kind: "none", meets: "commit", attempts: []string{created}, ends: "success applied applied", effects: 1})
	s.pause(t, pl.upstream)
	r := pl.submit(t)
	r.waitsFor(t, "paused")
	s.resume(t, pl.upstream)
	r.end(t)
}

func (s *stage) notBefore(t *testing.T) {
	pl := s.one(t, story{name: "not before", kind: "none", meets: "commit", attempts: []string{created}, ends: "success applied applied", effects: 1})
	soon, late := time.Now().Add(time.Second).Truncate(time.Microsecond), time.Now().Add(time.Hour)
	first := pl.submitWith(t, func(sub *client.Submission) { sub.NotBefore = soon })
	second := pl.submitWith(t, func(sub *client.Submission) { sub.NotBefore = late })
	if c := second.waitsFor(t, "not_before"); c.NextAttemptAt == nil || c.NextAttemptAt.Before(late.Truncate(time.Microsecond)) {
		t.Errorf("accepted as %s", c.JSON())
	}
	if o := first.end(t); o.record[0].StartedAt.Before(soon) {
		t.Errorf("started at %s, not before %s", o.record[0].StartedAt, soon)
	}
	second.cancel(t, client.CancelCancelled)
	second.neverSent(t)
}

// neverSent is the end of a command that was cancelled while it waited.
func (r *running) neverSent(t *testing.T) {
	t.Helper()
	other := *r.plot
	other.effects, r.plot = 0, &other
	r.endsAs(t, "cancelled cancelled_by_caller cancel_requested")
}

// One command is told to come back, and the others need not ask.
func (s *stage) throttleHoldsBack(t *testing.T) {
	pl := s.one(t, story{
		name: "throttle holds back", kind: "none", profile: settings{"retry": "{backoff: {initial: 20ms}}", "deadline": "3h"}, // and the pause, by default
		meets: "status=429,retry_after=3600",
	})
	first := pl.submit(t)
	first.waitsFor(t, "backoff")
	second := pl.submit(t)
	second.waitsFor(t, "throttle")
	if u, err := s.api.Upstream(bounded(t), pl.upstream); err != nil || u.ThrottledUntil == nil {
		t.Errorf("throttled until %v, %v", u.ThrottledUntil, err)
	}
	first.cancel(t, client.CancelCancelled)
	second.cancel(t, client.CancelCancelled)
	first.endsAs(t, "cancelled cancelled_by_caller cancel_requested", throttled)
	second.neverSent(t)
}

// The second one waits for its turn, and says so.
func (s *stage) oneAtATime(t *testing.T) {
	for name, limits := range map[string]string{"permit": "{max_in_flight: 1}", "rate": "{rate: {per_second: 0.001, burst: 1}}"} {
		t.Run(name, func(t *testing.T) {
			h := newHolding()
			pl := s.one(t, story{name: "one at a time by " + name, kind: "none", profile: settings{"limits": limits}, script: h.script})
			first := pl.submit(t)
			first.onTheWire(t)
			second := pl.submit(t)
			second.waitsFor(t, name)
			h.answer <- testkit.Reply(201, `{"id":"p1"}`)
			first.endsAs(t, "success applied applied", created)
			if name == "rate" {
				second.cancel(t, client.CancelCancelled)
				second.neverSent(t)
				return
			}
			h.answer <- testkit.Reply(201, `{"id":"p1"}`)
			second.endsAs(t, "success applied applied", created)
		})
	}
}

// reusing keeps connections for the next command.
var reusing = settings{"connection": "{fresh: auto, idle: 1m}"}

// What comes after the first response is nobody's answer.
func (s *stage) leftover(t *testing.T) {
	for _, kind := range []outcome.Idempotency{"keyed", "natural"} {
		t.Run(string(kind), func(t *testing.T) {
			pl := s.one(t, story{
				name: "leftover " + string(kind), kind: kind, profile: reusing, attempts: []string{created}, ends: "success applied applied",
				script: func(p *peer) {
					p.Serve(func(testkit.RawRequest) string {
						return testkit.Reply(201, fmt.Sprintf(`{"id":"own-%d"}`, p.Number)) + testkit.Reply(201, `{"id":"leftover"}`)
					})
				},
			})
			for n := 1; n <= 3; n++ {
				o := pl.submit(t).end(t)
				o.reference(t, fmt.Sprintf("own-%d", n))
				if c := o.record[0].Connection; c.Reused || len(o.record[0].Notes) == 0 {
					t.Errorf("reused %t, notes %q", c.Reused, o.record[0].Notes)
				}
			}
		})
	}
}

// noSilentRepeat: some HTTP clients send a request anew by themselves when a
// connection dies that was idle before, if there is a key or if the method allows
// it. Here each request is an attempt.
func (s *stage) noSilentRepeat(t *testing.T) {
	for _, kind := range []outcome.Idempotency{"keyed", "natural"} {
		t.Run(string(kind), func(t *testing.T) {
			u := &dying{idle: 3, together: make(chan struct{})}
			pl := s.one(t, story{name: "no silent repeat " + string(kind), kind: kind, profile: reusing, script: u.script, ends: "success applied applied"})
			var warm []*running
			for range u.idle {
				warm = append(warm, pl.submit(t))
			}
			for _, r := range warm {
				r.endsAs(t, pl.ends, created)
			}
			o := pl.submit(t).endsAs(t, pl.ends, lost, created)
			if c := o.record[0].Connection; !c.Reused {
				t.Error("the first attempt was not made on a connection that was idle before")
			}
			if n := len(pl.made.server.Requests()); n != u.idle+2 {
				t.Errorf("the upstream saw %d requests, want %d", n, u.idle+2)
			}
		})
	}
}

// dying is an upstream that gets its first requests at the same time, each on a
// connection of its own, and ends the connection of the next one unanswered.
type dying struct {
	idle     int
	together chan struct{}

	mu sync.Mutex
	n  int
}

func (d *dying) script(p *peer) {
	p.Serve(func(testkit.RawRequest) string {
		d.mu.Lock()
		d.n++
		n := d.n
		if n == d.idle {
			close(d.together)
		}
		d.mu.Unlock()
		if n == d.idle+1 {
			return ""
		}
		<-d.together
		return testkit.Reply(201, `{"id":"p1"}`)
	})
}

// timeoutOnReused: a 408 on a connection that was idle may have been sent before
// the request came, and says nothing about it.
func (s *stage) timeoutOnReused(t *testing.T) {
	for _, kind := range []outcome.Idempotency{"keyed", "natural"} {
		t.Run(string(kind), func(t *testing.T) {
			n := 0 // one connection at a time
			pl := s.one(t, story{
				name: "timeout on reused " + string(kind), kind: kind, profile: reusing, ends: "success applied applied",
				script: func(p *peer) {
					p.Serve(func(testkit.RawRequest) string {
						if n++; n == 2 {
							return response("408 Request Timeout", "Connection: close\r\n", "")
						}
						return testkit.Reply(201, `{"id":"p1"}`)
					})
				},
			})
			pl.submit(t).endsAs(t, pl.ends, created)
			pl.submit(t).endsAs(t, pl.ends, "response_received unclear 408", created)
		})
	}
}

func (s *stage) throughProxy(t *testing.T) {
	for _, tt := range []struct {
		name     string
		proxy    func(*testkit.RawConn)
		ends     string
		attempts []string
		asked    int
	}{
		{"that relays", relay, "success applied applied", []string{created}, 1},
		{"that refuses", func(c *testkit.RawConn) { c.ReadRequest(); c.Send(testkit.Reply(502, `{}`)) },
			"cancelled never_sent max_attempts", []string{"not_sent connect_failure", "not_sent connect_failure", "not_sent connect_failure"}, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			proxy := testkit.NewRawServer(t, tt.proxy)
			pl := s.one(t, story{
				name: "a proxy " + tt.name, kind: "none", script: answers(testkit.Reply(201, `{"id":"p1"}`)), attempts: tt.attempts, ends: tt.ends,
				profile: settings{"egress": "{allow: [127.0.0.0/8], proxy: 'http://" + proxy.Address() + "'}"},
			})
			pl.submit(t).end(t)
			asked := proxy.Requests()
			if len(asked) != tt.asked || asked[0].Method != http.MethodConnect || asked[0].Target != pl.made.server.Address() {
				t.Errorf("the proxy was asked %+v", asked)
			}
		})
	}
}

// relay is an honest proxy.
func relay(c *testkit.RawConn) {
	q, ok := c.ReadRequest()
	if !ok {
		return
	}
	far, err := net.Dial("tcp", q.Target)
	if err != nil {
		return
	}
	defer far.Close()
	c.Send("HTTP/1.1 200 Connected\r\n\r\n")
	go func() { _, _ = io.Copy(far, c) }()
	_, _ = io.Copy(c.Conn, far)
}

func (s *stage) fiftyAtOnce(t *testing.T) {
	pl := s.one(t, story{name: "fifty at once", kind: "none", meets: "commit", attempts: []string{created}, ends: "success applied applied", effects: 1})
	r := &running{plot: pl, submission: pl.submission()}
	accepted := make([]client.Accepted, 50)
	var all sync.WaitGroup
	for i := range accepted {
		all.Go(func() {
			var err error
			if accepted[i], err = s.api.Submit(bounded(t), r.submission); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	first := 0
	for _, a := range accepted {
		if !a.Replayed {
			first++
		}
		if a.Command.ID != accepted[0].Command.ID {
			t.Errorf("two commands: %s and %s", a.Command.ID, accepted[0].Command.ID)
		}
	}
	if first != 1 {
		t.Errorf("%d of them were the first", first)
	}
	r.command = accepted[0].Command
	r.end(t)
}

// keyReused: a key is bound to its request for good, and a request is its bytes.
func (s *stage) keyReused(t *testing.T) {
	pl := s.one(t, story{name: "key reused", kind: "keyed", meets: "commit", attempts: []string{created}, ends: "success applied applied", effects: 1})
	r := pl.submit(t)
	for differs, change := range map[string]func(*client.Submission){
		"body":      func(sub *client.Submission) { sub.Body = bytes.Replace(sub.Body, []byte(" :"), []byte(":"), 1) },
		"params":    func(sub *client.Submission) { sub.Params = map[string]string{"account": pl.token + "-other"} },
		"headers":   func(sub *client.Submission) { sub.Headers = nil },
		"upstream":  func(sub *client.Submission) { sub.Upstream = shared },
		"operation": func(sub *client.Submission) { sub.Operation = "other" },
	} {
		other := r.submission
		change(&other)
		_, err := s.api.Submit(bounded(t), other)
		var problem *client.Problem
		if !errors.As(err, &problem) || !errors.Is(err, client.ErrKeyReused) || problem.CommandID != r.command.ID || !strings.Contains(problem.Detail, differs) {
			t.Errorf("another %s under the key: %v", differs, err)
		}
	}
	for name, change := range map[string]func(*client.Submission){
		"timeout":  func(sub *client.Submission) { sub.Timeout = time.Hour },
		"priority": func(sub *client.Submission) { sub.Priority = client.PriorityHigh },
		"metadata": func(sub *client.Submission) { sub.Metadata = map[string]string{"order": "42"} },
	} {
		other := *r
		change(&other.submission)
		if other.again(t).ID != r.command.ID {
			t.Errorf("another %s is another command", name)
		}
	}
	r.end(t)
}

// refusedAtTheDoor: what could never be sent as it was meant is refused, with the
// place, and nothing of it is on record.
func (s *stage) refusedAtTheDoor(t *testing.T) {
	pl := s.one(t, story{name: "refused at the door", kind: "keyed", operation: settings{
		"idempotency": "{kind: keyed, key: {in: body, name: /key, max_length: 60}, retention: 24h}",
	}})
	submission := func(account, body string) string {
		return fmt.Sprintf(`{"upstream":%q,"operation":%q,"params":{"account":%s},"body":%s}`, pl.upstream, pl.operation, account, body)
	}
	for _, tt := range []struct {
		name, key, text string
		status          int
		code, place     string
	}{
		{"a member named twice", "k", submission(`"a"`, `{"amount":1,"amount":2}`), 400, "malformed_json", "/body/amount"},
		{"bytes that are not UTF-8", "k", submission(`"a"`, "{\"note\":\"\xff\"}"), 400, "malformed_json", "/body/note"},
		{"nesting without end", "k", submission(`"a"`, nested(100_000)), 400, "malformed_json", ""},
		{"half of a document", "k", `{"upstream":`, 400, "malformed_json", ""},
		{"a member that nobody knows", "k", `{"upstream":"x","operation":"y","bodie":{}}`, 422, "invalid_request", "/bodie"},
		{"an empty parameter", "k", submission(`""`, `{}`), 422, "invalid_request", "/params/account"},
		{"a parameter that climbs", "k", submission(`".."`, `{}`), 422, "invalid_request", "/params/account"},
		{"a parameter with a line end", "k", submission(`"a\r\nX: y"`, `{}`), 422, "invalid_request", "/params/account"},
		{"another key in the body", "k", submission(`"a"`, `{"key":"other"}`), 422, "invalid_request", "/body/key"},
		{"a key too long for the upstream", strings.Repeat("k", 61), submission(`"a"`, `{}`), 422, "invalid_request", ""},
		{"no key", "", submission(`"a"`, `{}`), 400, "missing_idempotency_key", ""},
		{"a body of two megabytes", "k", submission(`"a"`, `"`+strings.Repeat("x", 2<<20)+`"`), 413, "body_too_large", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			problem := s.post(t, tt.key, tt.text)
			if problem.Status != tt.status || problem.Code != tt.code {
				t.Errorf("refused with %d %s, want %d %s", problem.Status, problem.Code, tt.status, tt.code)
			}
			if tt.place != "" && !slices.ContainsFunc(problem.Errors, func(e client.FieldError) bool { return e.Pointer == tt.place }) {
				t.Errorf("the place is told as %v, want %s", problem.Errors, tt.place)
			}
		})
	}
	page, err := s.api.ListPage(bounded(t), client.Filter{Upstream: pl.upstream})
	if err != nil || len(page.Data) > 0 {
		t.Errorf("%d commands are on record, %v", len(page.Data), err)
	}
}

// nowhere: spellings of this machine and of its neighbours that pass for something
// else.
func (s *stage) nowhere(t *testing.T) {
	for _, base := range []string{
		"http://2130706433", "http://0x7f000001", "http://0177.0.0.1", "http://127.1", "http://localhost.", "http://[::ffff:127.0.0.1]", "http://[::]",
		"http://10.0.0.1", "http://me:secret@127.0.0.1", "http://127.0.0.1:22", "https://Example.com", "https://example.com/?x=1",
		"ftp://127.0.0.1", "127.0.0.1:8080",
	} {
		profile := fmt.Appendf(nil, "version: 1\nupstream: nowhere\nbase_url: %s\negress: {allow: [127.0.0.0/8, 169.254.0.0/16]}\noperations: {a: {method: POST, path: /}}\n", base)
		_, err := s.api.PutUpstream(bounded(t), "nowhere", profile)
		var problem *client.Problem
		if !errors.As(err, &problem) || problem.Code != "invalid_profile" || len(problem.Errors) == 0 || problem.Errors[0].Line != 3 {
			t.Errorf("%s: %v", base, err)
		}
	}
}

// post submits a text as it is and returns the problem that it is answered with.
func (s *stage) post(t *testing.T, key, text string) client.Problem {
	t.Helper()
	q, err := http.NewRequestWithContext(bounded(t), http.MethodPost, s.env["EXECUTOR_URL"]+"/v1/commands", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+s.env["EXECUTOR_API_KEY"])
	q.Header.Set("Content-Type", "application/json")
	if key != "" {
		q.Header.Set("Idempotency-Key", key)
	}
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var problem client.Problem
	if err := json.NewDecoder(res.Body).Decode(&problem); err != nil || problem.Status != res.StatusCode {
		t.Fatalf("answered %d, %v", res.StatusCode, err)
	}
	return problem
}
