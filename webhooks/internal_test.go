package webhooks

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	reference "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"executor/commands"
	"executor/internal/egress"
)

func TestSignAsTheReferenceDoes(t *testing.T) {
	key, other := []byte("0123456789abcdef0123456789abcdef"), []byte("another key of thirty-two bytes!")
	at, body := time.Unix(1_700_000_000, 999), []byte(`{"amount": 1.00}`)
	hook, err := reference.NewWebhookRaw(key)
	if err != nil {
		t.Fatal(err)
	}
	want, err := hook.Sign("msg_1", at, body)
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(sign([]egress.Secret{egress.NewSecret(string(other)), egress.NewSecret(string(key))}, "msg_1", at, body), " ")
	if len(got) != 2 || got[1] != want || got[0] == got[1] {
		t.Errorf("signed %q, the reference %q", got, want)
	}
}

// TestSchemesInCapitals are the same schemes: plain http is not dialled as if it
// were secure.
func TestSchemesInCapitals(t *testing.T) {
	for url, want := range map[string]string{"http://a/": "plain", "HTTP://a/": "plain", "https://a/": "secure", "hTTPs://a/": "secure"} {
		used := ""
		named := func(name string) client {
			return trip(func(*http.Request) (*http.Response, error) { used = name; return nil, errors.New("no") })
		}
		s := &sender{secure: named("secure"), plain: named("plain")}
		if _, err := s.do(t.Context(), &job{URL: url}, time.Now()); err == nil || used != want {
			t.Errorf("%s: %s, want %s (%v)", url, used, want, err)
		}
	}
}

type trip func(*http.Request) (*http.Response, error)

func (f trip) Do(r *http.Request) (*http.Response, error) { return f(r) }

func TestSchedule(t *testing.T) {
	low, high, middle := func() float64 { return 0 }, func() float64 { return 1 }, func() float64 { return .5 }
	for step, wait := range Schedule() {
		for _, tt := range []struct {
			random func() float64
			want   time.Duration
		}{{low, wait * 8 / 10}, {middle, wait}, {high, wait * 12 / 10}} {
			got, ok := next(Schedule(), step, 0, tt.random)
			if !ok || got.Round(time.Millisecond) != tt.want {
				t.Errorf("after %d failures: %s, %v, want %s", step+1, got, ok, tt.want)
			}
		}
	}
	if len(Schedule()) != 9 {
		t.Errorf("%d tries, want 10", len(Schedule())+1)
	}
	if _, ok := next(Schedule(), 9, time.Minute, middle); ok {
		t.Error("there is an eleventh try")
	}
	for _, tt := range []struct{ asked, want time.Duration }{
		{time.Second, 5 * time.Second}, {time.Hour, time.Hour}, {30 * 24 * time.Hour, 24 * time.Hour},
	} {
		if got, _ := next(Schedule(), 0, tt.asked, middle); got != tt.want {
			t.Errorf("asked for %s: %s, want %s", tt.asked, got, tt.want)
		}
	}
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"":                         "",
		"plain text\nline":         "plain text\nline",
		"a\x00b\x1b[31m\u202e\xff": "a b [31m  ",
		strings.Repeat("é", 600):   strings.Repeat("é", 510) + "…",
	} {
		if got := printable(in, maxExcerpt); got != want {
			t.Errorf("printable(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestPayloadsStaySmall, whatever a caller or an upstream puts into them.
func TestPayloadsStaySmall(t *testing.T) {
	event := func(message string) commands.OutcomeEvent {
		data, err := json.Marshal(map[string]any{"state": "rejected", "message": message, "code": strings.Repeat("c", 200), "reference": "r"})
		if err != nil {
			t.Fatal(err)
		}
		return commands.OutcomeEvent{ID: uuid.New(), CommandID: uuid.New(), Type: "command.rejected", Data: data, Sequence: 1}
	}
	large := `{"k":"` + strings.Repeat("m", 25_000) + `"}`
	for name, tt := range map[string]struct {
		message, metadata string
		omitted           bool
	}{
		"ordinary":       {"no", `{"a":"1"}`, false},
		"large metadata": {"no", large, true},
		"both":           {strings.Repeat("\x01", 4_000), large, true},
	} {
		text, err := payload(event(tt.message), about{Key: strings.Repeat("k", 255), Metadata: tt.metadata})
		if err != nil || len(text) >= maxPayload || !json.Valid(text) {
			t.Errorf("%s: %d bytes, %v", name, len(text), err)
		}
		if strings.Contains(string(text), `"metadata_omitted":true`) != tt.omitted {
			t.Errorf("%s: omitted is not %v", name, tt.omitted)
		}
	}
}

// TestStandingsOfTwoURLs: what an endpoint's former URL answers late, recorded together
// with what the new one answers, neither takes its proof away nor speaks for it.
func TestStandingsOfTwoURLs(t *testing.T) {
	id := uuid.New()
	late := result{job: &job{EndpointID: id, URL: "https://old.example/", Type: "command.succeeded"}}
	proof := result{job: &job{EndpointID: id, URL: "https://new.example/", Type: TypeChallenge}}
	gone := late
	gone.failure = FailureGone
	for _, held := range [][]result{{late, proof}, {proof, late}, {gone, proof}, {proof, gone}} {
		for _, h := range standings(held) {
			if isNew := h.url == proof.job.URL; h.proved != isNew || h.gone && isNew {
				t.Errorf("%s: %+v", h.url, h)
			}
		}
		if n := len(standings(held)); n != 2 {
			t.Errorf("%d receivers, want 2", n)
		}
	}
}
