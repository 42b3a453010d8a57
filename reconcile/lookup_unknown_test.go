package reconcile_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/pem"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"executor/internal/egress"
	"executor/outcome"
	"executor/reconcile"
	"executor/upstreams"
)

// TestALookupThatIsDownEndsInReview, and in nothing else.
func TestALookupThatIsDownEndsInReview(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	up := newServer(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 500, `{}`) })
	const lookup = `schedule: {first_after: 0s, factor: 1, max_interval: 1s, give_up_after: 2s}
absence: {settles_after: 1s, confirmations: 1, spacing: 0s}`
	r.apply(t, profileFor(up.URL, byKey(lookup), ""))
	id := r.unresolved(t, "k1", lost)
	r.start(t)

	if why := r.handed(t, id); why != reconcile.ReviewLookupUnavailable {
		t.Errorf("handed over because of %s", why)
	}
	if got := r.eventTypes(t, id); got != "command.unresolved command.review" {
		t.Errorf("events %s", got)
	}
	var rounds, unknown int
	r.scan(t, `SELECT rounds, unknown FROM doubts WHERE command_id = $1`, []any{id}, &rounds, &unknown)
	if rounds < 2 || unknown != rounds {
		t.Errorf("%d rounds, %d of them unknown: %s", rounds, unknown, r.findings(t, id))
	}
	var last, end time.Time
	r.scan(t, `SELECT max(l.started_at), max(d.gives_up_at) FROM lookups l, doubts d`, nil, &last, &end)
	if last.Before(end) {
		t.Errorf("the last lookup was at %s, the schedule ends at %s", last, end)
	}
}

// TestNothingThatIsNoAnswerIsTakenForOne: whatever comes instead of an answer, or
// is one that may not be believed, is unknown and moves nothing.
func TestNothingThatIsNoAnswerIsTakenForOne(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	answers := map[string]struct {
		handler http.HandlerFunc
		want    outcome.Category
	}{
		"unauthorized": {func(w http.ResponseWriter, _ *http.Request) { answer(w, 401, nothing) }, outcome.CategoryNone},
		"forbidden":    {func(w http.ResponseWriter, _ *http.Request) { answer(w, 403, nothing) }, outcome.CategoryNone},
		"trouble":      {func(w http.ResponseWriter, _ *http.Request) { answer(w, 503, nothing) }, outcome.CategoryNone},
		"unmatched":    {func(w http.ResponseWriter, _ *http.Request) { answer(w, 404, `{}`) }, outcome.CategoryNone},
		"many":         {func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, `{"items": [{}, {}]}`) }, outcome.CategoryNone},
		"not ours": {func(w http.ResponseWriter, _ *http.Request) {
			answer(w, 200, `{"items": [{"id": "pay_2", "state": "done", "amount": 7}]}`)
		}, outcome.CategoryNone},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/payments?client_reference=elsewhere", http.StatusFound)
		}, outcome.CategoryNone},
		"html": {func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, "<html>") }, outcome.CategoryNone},
		"encoded": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write([]byte(nothing))
			_ = z.Close()
		}, outcome.CategoryBodyUndecodable},
		"large": {func(w http.ResponseWriter, _ *http.Request) {
			answer(w, 200, nothing+strings.Repeat(" ", 3000))
		}, outcome.CategoryBodyTruncated},
		"cut": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			answer(w, 200, nothing)
		}, outcome.CategoryBodyTruncated},
		"slow": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "100")
			answer(w, 200, nothing)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, outcome.CategoryBodyTimeout},
		"silent": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, outcome.CategoryHeaderTimeout},
		"reset":  {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, outcome.CategoryConnectionReset},
		"long headers": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Long", strings.Repeat("x", 9000))
			answer(w, 200, nothing)
		}, outcome.CategoryConnectionReset},
	}
	up := newServer(t, func(w http.ResponseWriter, r *http.Request) { answers[r.FormValue("client_reference")].handler(w, r) })
	const lookup = `compare: ["json.items[0].amount == command.body.amount"]
schedule: {first_after: 0s, factor: 1, max_interval: 1h, give_up_after: 2h}
absence: {settles_after: 1s, confirmations: 1, spacing: 0s}`
	source := profileFor(up.URL, byKey(lookup), "limits: {response_bytes: 2KiB, stored_response_bytes: 1KiB, header_bytes: 4KiB, lookups: {max_in_flight: 32}}")
	r.apply(t, strings.Replace(source, "response_header: 2s, total: 2s", "response_header: 1s, total: 2s", 1))
	ids := make(map[string]uuid.UUID)
	for name := range answers {
		ids[name] = r.unresolved(t, name, lost)
	}
	r.start(t)
	eventually(t, "a round of each", func() bool {
		return r.count(t, `SELECT count(*) FROM doubts WHERE rounds > 0 AND unknown = rounds AND absents = 0`) == len(answers)
	})
	for name, want := range answers {
		list := r.lookups(t, ids[name])
		if list[0].Finding != outcome.FindingUnknown || list[0].Counts || list[0].Category != want.want {
			t.Errorf("%s: %+v", name, list)
		}
		if c := r.get(t, ids[name]); c.State != outcome.StateUnresolved || c.Reconciliation.NextLookupAt == nil {
			t.Errorf("%s: the command is %s, %+v", name, c.State, c.Reconciliation)
		}
	}
	if n := len(up.asked("elsewhere")); n != 0 {
		t.Error("a redirect was followed")
	}
}

// inside is a name server that knows only one name, and gives it away as a private
// address.
type inside struct{}

func (inside) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if host == "inside.example" {
		return []netip.Addr{netip.MustParseAddr("192.168.7.7")}, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// TestAnUpstreamThatCannotBeReached is unknown too, and says why.
func TestAnUpstreamThatCannotBeReached(t *testing.T) {
	t.Parallel()
	closed := newServer(t, nil)
	closed.Close()
	for name, tt := range map[string]struct {
		url, top string
		want     outcome.Category
	}{
		"refused":   {closed.URL, "", outcome.CategoryConnectRefused},
		"forbidden": {"https://inside.example", "", outcome.CategoryAddressForbidden},
		"no name":   {"https://upstream.example", "", outcome.CategoryDNSFailure},
		"no secret": {closed.URL, "auth: {type: bearer, token: \"env:EXECUTOR_SECRET_NOT_THERE\"}", outcome.CategoryAuthFailure},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.apply(t, profileFor(tt.url, byKey(often), tt.top))
			id := r.unresolved(t, "k1", lost)
			r.start(t, func(c *reconcile.EngineConfig) {
				c.Dialer = egress.NewDialer(egress.NewGuard(egress.GuardConfig{}), inside{})
			})
			eventually(t, "a lookup", func() bool { return len(r.lookups(t, id)) > 0 })
			l := r.lookups(t, id)[0]
			if l.Category != tt.want || l.Finding != outcome.FindingUnknown || l.Status != 0 || l.Detail == "" {
				t.Errorf("%+v", l)
			}
		})
	}
}

// TestACertificateThatIsNotTrusted is no answer.
func TestACertificateThatIsNotTrusted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	up := newTLSServer(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, done) })
	r.apply(t, profileFor(up.URL, byKey(often), ""))
	id := r.unresolved(t, "k1", lost)
	r.start(t)
	eventually(t, "a lookup", func() bool { return len(r.lookups(t, id)) > 0 })
	if l := r.lookups(t, id)[0]; l.Category != outcome.CategoryCertificateInvalid || l.Finding != outcome.FindingUnknown {
		t.Errorf("%+v", l)
	}
}

// TestATrustedCertificate: who is to be trusted is the profile's to say.
func TestATrustedCertificate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	up := newTLSServer(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, done) })
	file := filepath.Join(t.TempDir(), "ca.pem")
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: up.Certificate().Raw})
	if err := os.WriteFile(file, ca, 0o600); err != nil {
		t.Fatal(err)
	}
	r.apply(t, profileFor(up.URL, byKey(often), "tls: {ca_file: "+file+", server_name: example.com}"))
	id := r.unresolved(t, "k1", lost)
	r.start(t)
	r.reaches(t, id, outcome.StateSuccess)
}

// TestAFaultOfOurOwn in one round is unknown, and holds up no other.
func TestAFaultOfOurOwn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.apply(t, profileFor("http://127.0.0.1:1024", byKey(often), "auth: {type: bearer, token: \"env:EXECUTOR_SECRET_UP\"}"))
	id := r.unresolved(t, "k1", lost)
	r.start(t, func(c *reconcile.EngineConfig) { c.Access = nil })
	eventually(t, "two rounds", func() bool {
		return r.count(t, `SELECT count(*) FROM doubts WHERE command_id = $1 AND rounds >= 2 AND unknown = rounds`, id) == 1
	})
	if l := r.lookups(t, id)[0]; !strings.HasPrefix(l.Detail, "panic: ") || l.Finding != outcome.FindingUnknown {
		t.Errorf("%+v", l)
	}
}

// TestWhatIsKeptOfAnAnswer holds neither the credential nor what the profile
// redacts, and is bounded; bytes that the database refuses do not keep it away.
func TestWhatIsKeptOfAnAnswer(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-t0k3n-value"
	r := newRig(t)
	up := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Echo", r.Header.Get("Authorization"))
		w.Header().Set("X-Card", "4111")
		answer(w, 200, `{"items": [{"id": "pay_1", "state": "failed", "code": "no \u0000 for `+secret+`", "card": "4111111111111111"}],
			"padding": "`+strings.Repeat("x", 2000)+`"}`)
	})
	source := profileFor(up.URL, byKey(often),
		"auth: {type: bearer, token: \"env:EXECUTOR_SECRET_UP\"}\nlimits: {stored_response_bytes: 1KiB}")
	source += "    redact: {headers: [X-Card], response: [/items/0/card]}\n"
	r.apply(t, source)
	id := r.unresolved(t, "k1", lost)
	r.start(t, func(c *reconcile.EngineConfig) {
		getenv := func(name string) string { return map[string]string{"EXECUTOR_SECRET_UP": secret}[name] }
		c.Access = upstreams.NewAccess(egress.NewSecrets(getenv, ""), egress.NewTokens(egress.TokensConfig{Guard: egress.NewGuard(egress.GuardConfig{})}))
	})
	c := r.reaches(t, id, outcome.StateRejected)
	l := r.lookups(t, id)[0]
	var all string
	r.scan(t, `SELECT string_agg(l::text, '') || (SELECT string_agg(f::text, '') FROM findings f) || (SELECT string_agg(e::text, '') FROM events e) FROM lookups l`, nil, &all)
	if strings.Contains(all, secret) || strings.Contains(all, "41111111") || bytes.Contains(l.ResponseBody, []byte(secret)) || bytes.Contains(l.ResponseBody, []byte("4111")) {
		t.Errorf("kept: %+v\n%s", l, l.ResponseBody)
	}
	if l.ResponseHeaders.Get("X-Card") != "[redacted]" || len(l.ResponseBody) != 1<<10 || !l.Truncated {
		t.Errorf("headers %v, %d bytes of the body", l.ResponseHeaders, len(l.ResponseBody))
	}
	if h := l.Request.Headers; len(h) != 2 || h[0] != (upstreams.Header{Name: "Cache-Control", Value: "no-cache"}) || h[1].Value != "[redacted]" {
		t.Errorf("request %+v", l.Request)
	}
	if !strings.HasPrefix(c.Outcome.Rejection.Code, "no ") {
		t.Errorf("rejection %+v", c.Outcome.Rejection)
	}
}

// TestTheUpstreamSaysWhenToComeBack, up to the longest interval of the schedule.
func TestTheUpstreamSaysWhenToComeBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	up := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		key := r.FormValue("client_reference")
		w.Header().Set("Retry-After", map[string]string{"soon": "600", "absurd": "90000", "working": "600", "nothing": "600"}[key])
		switch key {
		case "working":
			answer(w, 200, working)
		case "nothing":
			answer(w, 200, nothing)
		default:
			answer(w, 429, `{}`)
		}
	})
	r.apply(t, profileFor(up.URL, byKey(`schedule: {first_after: 0s, factor: 2, max_interval: 1h, give_up_after: 72h}`), ""))
	later := r.unresolved(t, "later", ending{evidence: outcome.EvidenceResponseReceived, answer: outcome.AnswerPending, status: 202, retryAfter: "600"})
	c := r.get(t, later)
	if next := c.Reconciliation.NextLookupAt; next == nil || next.Sub(*c.FinalizedAt) != 10*time.Minute {
		t.Errorf("accepted at %s, asked about first at %v", c.FinalizedAt, next)
	}
	soon, absurd, busy := r.unresolved(t, "soon", lost), r.unresolved(t, "absurd", lost), r.unresolved(t, "working", lost)
	other := r.unresolved(t, "nothing", lost)
	r.start(t)
	for id, want := range map[uuid.UUID]time.Duration{soon: 10 * time.Minute, absurd: time.Hour, busy: 10 * time.Minute} {
		eventually(t, "a lookup", func() bool { return len(r.lookups(t, id)) > 0 })
		at := r.lookups(t, id)[0].EndedAt
		if next := r.get(t, id).Reconciliation.NextLookupAt; next == nil || next.Sub(at).Round(time.Second) != want {
			t.Errorf("asked at %s, next at %v, want %s later", at, next, want)
		}
	}
	eventually(t, "a lookup that found nothing", func() bool { return len(r.lookups(t, other)) > 0 })
	if next := r.get(t, other).Reconciliation.NextLookupAt; next != nil && time.Until(*next) > 5*time.Minute {
		t.Errorf("nothing was there, next at %v", next)
	}
}

// TestARoundThatCannotBeMade, because the pinned profile can no longer be read,
// counts as unknown: the schedule goes on, and others are not held up.
func TestARoundThatCannotBeMade(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	up := newServer(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, done) })
	r.apply(t, profileFor(up.URL, byKey(often), ""))
	broken, sound := r.unresolved(t, "broken", lost), r.unresolved(t, "sound", lost)
	r.exec(t, `INSERT INTO upstream_versions (upstream_id, version, source, sha256, applied_at, applied_by)
		SELECT id, 99, 'nonsense', '', now(), 'test' FROM upstreams`)
	r.exec(t, `UPDATE commands SET profile_version = 99 WHERE id = $1`, broken)
	r.start(t)
	r.reaches(t, sound, outcome.StateSuccess)
	eventually(t, "a round", func() bool { return len(r.lookups(t, broken)) > 0 })
	l := r.lookups(t, broken)[0]
	if l.Finding != outcome.FindingUnknown || l.Detail == "" || l.Question != 0 {
		t.Errorf("%+v", l)
	}
	if n := r.count(t, `SELECT count(*) FROM doubts WHERE command_id = $1 AND unknown > 0 AND lookups = 0 AND next_at > now()`, broken); n != 1 {
		t.Error("the next round is not planned")
	}
}

// TestNobodyElsesLookupsAreShown.
func TestNobodyElsesLookupsAreShown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if _, err := r.store.Lookups(context.Background(), "other", uuid.New()); err == nil {
		t.Error("lookups of a command that is not there")
	}
}
