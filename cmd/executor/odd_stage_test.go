//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"executor/client"
	"executor/internal/testkit"
)

// oddStage is where odd bytes meet the whole program: an upstream that gives each
// request its body back, a receiver of webhooks, somebody at the dashboard, and the
// command line.
type oddStage struct {
	*stage
	log      *transcript
	caller   *http.Client
	upstream *testkit.RawServer
	cookie   string

	mu   sync.Mutex
	told map[string]json.RawMessage // the data of each command's webhook
}

// newOddStage serves in the test's own process.
func newOddStage(t *testing.T) *oddStage {
	t.Helper()
	s := &oddStage{stage: emptyStage(t), log: newTranscript(), told: map[string]json.RawMessage{}}
	s.caller = &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: submitting},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	s.serveHere(t, &process{log: slog.New(slog.NewJSONHandler(s.log, nil))}, "odd", func(c *Config) {
		c.EncryptionKeys, c.WebhookAllow = []string{"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}, []string{"127.0.0.0/8"}
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
	})
	s.listen(t)
	s.upstream = testkit.NewRawServer(t, func(c *testkit.RawConn) {
		c.Serve(func(r testkit.RawRequest) string {
			return response("201 Created", "Content-Type: "+r.Header.Get("Content-Type")+"\r\n", string(r.Body))
		})
	})
	s.apply(t, "odd", "http://"+s.upstream.Address(), nil, oddOperations())
	s.signIn(t)
	return s
}

// listen takes webhooks.
func (s *oddStage) listen(t *testing.T) {
	t.Helper()
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var message struct{ Data json.RawMessage }
		var about struct{ ID, Challenge string }
		body, _ := io.ReadAll(r.Body)
		if json.Unmarshal(body, &message) != nil || json.Unmarshal(message.Data, &about) != nil || !json.Valid(body) {
			t.Errorf("a webhook is not JSON: %.300q", body)
		}
		_, _ = io.WriteString(w, about.Challenge) // yes, they are wanted
		s.mu.Lock()
		defer s.mu.Unlock()
		s.told[about.ID] = message.Data
	}))
	t.Cleanup(receiver.Close)
	if _, err := s.api.CreateWebhook(bounded(t), client.WebhookSettings{URL: receiver.URL, Upstreams: []string{"odd"}}); err != nil {
		t.Fatal(err)
	}
}

// signIn gives somebody a session at the dashboard.
func (s *oddStage) signIn(t *testing.T) {
	t.Helper()
	ann := decode[admitted](t, s.execute("operators", "add", "ann", "--role", "admin", "--output", "json").must(t, exitSuccess).stdout)
	form := url.Values{"name": {"ann"}, "password": {ann.Password}}.Encode()
	answer := s.ask(t, http.MethodPost, "/sign-in", map[string]string{"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}, []byte(form))
	s.cookie, _, _ = strings.Cut(answer.header.Get("Set-Cookie"), ";")
	if s.cookie == "" {
		t.Fatalf("nobody is let in: %d %.300s", answer.status, answer.body)
	}
}

// requests are those that arrived for a payload.
func (s *oddStage) requests(number int) (list []testkit.RawRequest) {
	for _, r := range s.upstream.Requests() {
		if parts := strings.Split(r.Target, "/"); len(parts) > 3 && parts[2] == strconv.Itoa(number) {
			list = append(list, r)
		}
	}
	return list
}

// entries counts the lines of the log that hold a text.
func (s *oddStage) entries(text string) (n int) {
	for line := range strings.Lines(s.log.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// arrived: the one request on the wire is the payload's, the command has succeeded,
// and its echo is told everywhere.
func (s *oddStage) arrived(t *testing.T, p *payload, accepted client.Command) {
	t.Helper()
	c, err := s.api.Wait(bounded(t), accepted.ID)
	if err != nil || c.State != client.StateSuccess {
		t.Fatalf("%s, %v", c.JSON(), err)
	}
	want := p.submission()
	list := s.requests(p.number)
	if len(list) != 1 {
		t.Fatalf("%d requests", len(list))
	}
	got := list[0]
	if !bytes.Equal(got.Body, want.body) || got.Target != want.target || got.Header.Get("X-Odd") != want.header || got.Header.Get("Idempotency-Key") != p.key {
		t.Errorf("sent to %.200q, key %.300q, header %.200q:\n%.300q\nwant to %.200q, key %.300q, header %.200q:\n%.300q",
			got.Target, got.Header.Get("Idempotency-Key"), got.Header.Get("X-Odd"), got.Body, want.target, p.key, want.header, want.body)
	}
	success, _ := c.Outcome.(client.Success)
	if !bytes.Equal(bytes.TrimSpace(success.Result.Body), bytes.TrimSpace(kept(want.body))) || c.Key != p.key {
		t.Errorf("key %q, the echo is shown as %.300q, want %.300q", c.Key, success.Result.Body, want.body)
	}
	s.looksSound(t, c)
	s.announced(t, c)
}

// kept is how much of an answer is stored. White space around a document is not its
// own where it stands in another one.
func kept(body []byte) []byte { return body[:min(len(body), 64<<10)] }

// looksSound: whoever looks at the command comes to no harm.
func (s *oddStage) looksSound(t *testing.T, c client.Command) {
	t.Helper()
	s.answersSound(t, c)
	inert(t, "the command line", []byte(s.execute("get", c.ID, "--output", "table").stdout))
	if text := s.execute("get", c.ID, "--output", "json").stdout; !json.Valid([]byte(text)) {
		t.Errorf("the command line's JSON is none: %.300s", text)
	}
}

// answersSound: the API and the page that tell of the command are sound.
func (s *oddStage) answersSound(t *testing.T, c client.Command) {
	t.Helper()
	for _, part := range []string{"", "/attempts", "/lookups", "/events"} {
		answer := s.ask(t, http.MethodGet, "/v1/commands/"+c.ID+part, nil, nil)
		if answer.status != http.StatusOK || !json.Valid(answer.body) {
			t.Errorf("%s: %d, valid %t: %.300s", part, answer.status, json.Valid(answer.body), answer.body)
		}
		harmless(t, "the API's "+part, answer.body)
	}
	page := s.ask(t, http.MethodGet, "/commands/"+c.ID, map[string]string{"Cookie": s.cookie}, nil)
	if page.status != http.StatusOK || !bytes.Contains(page.body, []byte(c.ID)) {
		t.Errorf("the page: %d %.300s", page.status, page.body)
	}
	inert(t, "the page", page.body)
}

// announced: the webhook tells of the command as it is.
func (s *oddStage) announced(t *testing.T, c client.Command) {
	t.Helper()
	var data struct {
		Key      string `json:"idempotency_key"`
		Metadata map[string]string
	}
	comes(t, "the webhook", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		raw, told := s.told[c.ID]
		if !told {
			return false
		}
		data.Metadata = map[string]string{}
		if err := json.Unmarshal(raw, &data); err != nil || data.Key != c.Key || len(data.Metadata) != len(c.Metadata) || data.Metadata["odd"] != c.Metadata["odd"] {
			t.Errorf("told %.300s, %v, want metadata %q", raw, err, c.Metadata)
		}
		return true
	})
}

// comes waits for what somebody else brings about.
func comes(t *testing.T, what string, there func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for ctx := bounded(t); !there(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s does not come", what)
		}
	}
}

// harmless: it is text without control characters but for the white space that JSON may
// have.
func harmless(t *testing.T, what string, text []byte) {
	t.Helper()
	if i := bytes.IndexFunc(text, func(r rune) bool { return r < ' ' && r != '\n' && r != '\r' && r != '\t' }); i >= 0 || !utf8.Valid(text) {
		t.Errorf("%s holds control characters or is no UTF-8: %.300q", what, text[max(i, 0):])
	}
}

// inert: it holds nothing that a terminal or a reader takes for something else.
func inert(t *testing.T, what string, text []byte) {
	t.Helper()
	disguise := func(r rune) bool {
		return r != '\n' && r != '\t' && unicode.IsControl(r) || r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069
	}
	if i := bytes.IndexFunc(text, disguise); i >= 0 || !utf8.Valid(text) {
		t.Errorf("%s holds %.60q", what, text[max(i, 0):])
	}
}

// listed: none of them spoils the lists that it stands in, and each is found again.
func (s *oddStage) listed(t *testing.T, list []payload) {
	var found int
	for _, err := range s.api.List(bounded(t), client.Filter{Limit: 50}) {
		if err != nil {
			t.Fatal(err)
		}
		found++
	}
	accepted := 0
	for i := range list {
		p := &list[i]
		if p.refused != "" {
			continue
		}
		accepted++
		query := "key=" + percent(p.key)
		switch p.where {
		case "metadata":
			query += "&metadata.odd=" + percent(decoded(p.submission().members["metadata"][7:len(p.submission().members["metadata"])-1]))
		case "label":
			query += "&metadata." + percent(decoded(string(p.value))) + "=odd"
		}
		answer := s.ask(t, http.MethodGet, "/v1/commands?"+query, nil, nil)
		if n := bytes.Count(answer.body, []byte(`"idempotency_key":`)); n != 1 {
			t.Errorf("%s: %d commands are found by %s: %d %.300s", p.name, n, query, answer.status, answer.body)
		}
	}
	if found != accepted {
		t.Errorf("%d commands are listed, %d were accepted", found, accepted)
	}
	for _, path := range []string{"/", "/search?q=payload", "/search?q=%E2%80%AE", "/deliveries"} {
		page := s.ask(t, http.MethodGet, path, map[string]string{"Cookie": s.cookie}, nil)
		if page.status != http.StatusOK {
			t.Errorf("%s: %d", path, page.status)
		}
		inert(t, path, page.body)
	}
	inert(t, "list", []byte(s.execute("list", "--limit", "100", "--output", "table").must(t, exitSuccess).stdout))
}
