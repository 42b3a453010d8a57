//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"executor/client"
	"executor/internal/testkit"
)

//go:embed testdata/answers.txt
var answerLines string

// oddAnswer is one line of testdata/answers.txt.
type oddAnswer struct {
	name  string
	bytes string
	state client.State

	asked, followed, refused client.Command // whose attempt, lookup and token it answers
}

// oddAnswers reads the corpus.
func oddAnswers(t *testing.T) []*oddAnswer {
	t.Helper()
	var list []*oddAnswer
	for line := range strings.Lines(answerLines) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		name, rest, _ := strings.Cut(line, " | ")
		last := strings.LastIndex(rest, " | ")
		text, err := strconv.Unquote(rest[:max(last, 0)])
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		list = append(list, &oddAnswer{name: name, bytes: written(text), state: client.State(rest[last+3:])})
	}
	return list
}

var (
	plainHead = regexp.MustCompile(`(?s)^\{json (\d+)\}(.*)$`)
	repeated  = regexp.MustCompile(`(?s)\{(\d+) (.*?)\}`)
)

// written is the answer that a text stands for.
func written(text string) string {
	if strings.Contains(text, "{names}") {
		text = strings.ReplaceAll(text, "{names}", string(spelled("@members 10000"))[1:])
	}
	text = repeated.ReplaceAllStringFunc(text, func(s string) string {
		parts := repeated.FindStringSubmatch(s)
		n, _ := strconv.Atoi(parts[1])
		if strings.HasPrefix(parts[2], "X-") || strings.HasPrefix(parts[2], "HTTP/") {
			parts[2] += "\r\n"
		}
		return strings.Repeat(parts[2], n)
	})
	if parts := plainHead.FindStringSubmatch(text); parts != nil {
		status, _ := strconv.Atoi(parts[1])
		return testkit.Reply(status, parts[2])
	}
	return text
}

// answering is an upstream, a token endpoint and a receiver of webhooks that gives the
// odd answers: which one, the request says with a number.
func answering(list []*oddAnswer) func(*testkit.RawConn) {
	number, challenge := regexp.MustCompile(`odd-answer-(\d+)`), regexp.MustCompile(`"challenge":"([^"]+)"`)
	return func(c *testkit.RawConn) {
		r, ok := c.ReadRequest()
		found := number.FindStringSubmatch(r.Target)
		if found == nil {
			found = number.FindStringSubmatch(string(r.Body)) // of a webhook, by the command's key
		}
		if asked := challenge.FindSubmatch(r.Body); asked != nil {
			c.Send(testkit.Reply(200, string(asked[1])))
			return
		}
		if !ok || found == nil || strings.HasPrefix(r.Target, "/lost/") {
			return // a silence, which lookups look into
		}
		n, _ := strconv.Atoi(found[1])
		c.Send(list[n].bytes)
	}
}

// applyAnswering makes the upstreams of odd answers known: one that gives them to
// attempts and lookups, and for each answer one whose tokens it is.
func (s *oddStage) applyAnswering(t *testing.T, list []*oddAnswer) {
	t.Helper()
	server := testkit.NewRawServer(t, answering(list))
	base, rejection := "http://"+server.Address(), "{code: json.code, message: json.message}"
	s.apply(t, "answers", base, settings{
		"limits": "{max_in_flight: 100, lookups: {max_in_flight: 20, rate: {per_second: 1000, burst: 1000}}}",
	}, map[string]settings{
		"ask": {"method": "POST", "path": `"/asked/{n}"`, "rejection": rejection,
			"result": `{reference: json.id, headers: [X-Odd], link: '"location" in headers ? headers["location"][0] : ""'}`},
		"lose": {"method": "POST", "path": `"/lost/{n}"`, "lookup": `{path: "/found", query: {n: "{n}"}, findings: [` +
			`{when: status == 201, finding: applied, reference: json.id}, {when: status == 422, finding: refused, code: json.code, message: json.message}],` +
			`schedule: {first_after: 0s, factor: 100, max_interval: 1h, give_up_after: 2h}}`},
	})
	s.secret("odd-secret", "hush")
	for i := range list {
		s.apply(t, fmt.Sprintf("tokens-%d", i), base, settings{
			"auth":  fmt.Sprintf("{type: oauth2_client_credentials, token_url: %s/odd-answer-%d, client_id: file:odd-secret, client_secret: file:odd-secret}", base, i),
			"retry": "{max_attempts: 1, backoff: {initial: 20ms, max: 100ms}}",
		}, map[string]settings{"ask": {"method": "POST", "path": "/asked"}})
	}
	if _, err := s.api.CreateWebhook(bounded(t), client.WebhookSettings{URL: base + "/hook", Upstreams: []string{"answers"}}); err != nil {
		t.Fatal(err)
	}
}

// TestOddAnswersAreRecorded: whatever an upstream answers, to an attempt, a lookup, a
// token request or a webhook, the outcome is on record, nothing is left out because the
// database would not take it, and whoever looks at it comes to no harm.
func TestOddAnswersAreRecorded(t *testing.T) {
	s := newOddStage(t)
	list := oddAnswers(t)
	s.applyAnswering(t, list)
	for i, a := range list {
		n := fmt.Sprintf("odd-answer-%d", i)
		a.asked = s.submitted(t, client.Submission{Key: n, Upstream: "answers", Operation: "ask", Params: map[string]string{"n": n}, Body: []byte("{}")})
		a.followed = s.submitted(t, client.Submission{Key: n + "-lost", Upstream: "answers", Operation: "lose", Params: map[string]string{"n": n}, Body: []byte("{}")})
		a.refused = s.submitted(t, client.Submission{Key: n + "-token", Upstream: fmt.Sprintf("tokens-%d", i), Operation: "ask", Body: []byte("{}")})
	}
	for _, a := range list {
		t.Run(a.name, func(t *testing.T) {
			s.endedAs(t, a.asked, a.state)
			s.lookedUp(t, a.followed)
			s.endedAs(t, a.refused, client.StateCancelled) // nothing is sent without a token
			s.tried(t, a.asked)
			s.looksSound(t, a.asked)
			s.answersSound(t, a.followed)
		})
	}
	t.Run("all of them in lists", func(t *testing.T) { s.listedInert(t, "answers") })
	if n := s.entries(`"level":"ERROR"`); n > 0 {
		t.Errorf("%d errors in the log:\n%s", n, s.log)
	}
}

func (s *oddStage) submitted(t *testing.T, sub client.Submission) client.Command {
	t.Helper()
	a, err := s.api.Submit(bounded(t), sub)
	if err != nil {
		t.Fatal(err)
	}
	return a.Command
}

// endedAs: the command is in the state, and its one attempt is on record as it was
// seen.
func (s *oddStage) endedAs(t *testing.T, command client.Command, want client.State) {
	t.Helper()
	c, err := s.api.Wait(bounded(t), command.ID)
	if err != nil || c.State != want {
		t.Errorf("ended %s, want %s: %s, %v", c.State, want, c.JSON(), err)
	}
	attempts, err := s.api.Attempts(bounded(t), c.ID)
	if err != nil || len(attempts) != 1 {
		t.Fatalf("%d attempts, %v", len(attempts), err)
	}
	if text := fmt.Sprint(attempts[0].Notes); strings.Contains(text, "the database refused") {
		t.Errorf("the record is not whole: %s", text)
	}
}

// lookedUp: what the lookup brought is on record.
func (s *oddStage) lookedUp(t *testing.T, command client.Command) {
	t.Helper()
	comes(t, "a lookup on record", func() bool {
		lookups, err := s.api.Lookups(bounded(t), command.ID)
		if err != nil {
			t.Fatal(err)
		}
		return len(lookups.Data) > 0
	})
}

// tried: what the receiver of its webhook said is on record.
func (s *oddStage) tried(t *testing.T, command client.Command) {
	t.Helper()
	comes(t, "a try on record", func() bool {
		deliveries, err := s.api.DeliveriesPage(bounded(t), client.DeliveryFilter{Command: command.ID})
		if err != nil {
			t.Fatal(err)
		}
		return len(deliveries.Data) > 0 && deliveries.Data[0].Tries > 0
	})
}

// listedInert: no list that they stand in is spoilt.
func (s *oddStage) listedInert(t *testing.T, upstream string) {
	for _, path := range []string{"/v1/commands?limit=100", "/v1/commands?reference=p1", "/v1/reviews", "/v1/webhook-deliveries?limit=100"} {
		answer := s.ask(t, http.MethodGet, path, nil, nil)
		if answer.status != http.StatusOK || !json.Valid(answer.body) {
			t.Errorf("%s: %d %.300s", path, answer.status, answer.body)
		}
		harmless(t, path, answer.body)
	}
	for _, path := range []string{"/", "/reviews", "/search?q=odd-answer", "/deliveries", "/reports", "/upstreams/" + upstream} {
		page := s.ask(t, http.MethodGet, path, map[string]string{"Cookie": s.cookie}, nil)
		if page.status != http.StatusOK {
			t.Errorf("%s: %d", path, page.status)
		}
		inert(t, path, page.body)
	}
	for _, args := range [][]string{{"list", "--limit", "100"}, {"reviews"}, {"deliveries", "list", "--limit", "100"}} {
		inert(t, args[0], []byte(s.execute(append(args, "--output", "table")...).must(t, exitSuccess).stdout))
	}
}
