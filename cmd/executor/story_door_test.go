//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"executor/client"
)

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
