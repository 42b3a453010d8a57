package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"executor/commands"
	"executor/internal/apikeys"
)

// pathOf fills the parameters of a pattern.
func pathOf(pattern string) string {
	return strings.NewReplacer("{id}", someID.String(), "{name}", "ledger", "{upstream}", "ledger", "{code}", "not_found").Replace(pattern)
}

// content gives a body to a call that has to have one.
func content(op operation) askOption {
	return func(a *ask) {
		if op.method == http.MethodPost {
			sending(`{}`)(a)
		}
	}
}

func TestKeysAndScopes(t *testing.T) {
	g := newRig(t)
	for _, op := range operations() {
		path := pathOf(op.pattern)
		if op.public {
			if r := g.do(op.method, path, without("Authorization"), content(op)); r.status >= 300 {
				t.Errorf("%s gives %d without a key", op.id, r.status)
			}
			continue
		}
		for _, bad := range []askOption{without("Authorization"), as(""), as("exk_unknown"), with("Authorization", "Bearer exk_admin")} {
			r := g.do(op.method, path, bad).want(401)
			if r.problem(ProblemCodeUnauthorized); !strings.HasPrefix(r.header.Get("WWW-Authenticate"), "Bearer ") {
				t.Errorf("%s: the challenge is %q", op.id, r.header.Get("WWW-Authenticate"))
			}
		}
		for secret, key := range g.keys {
			r := g.do(op.method, path, as(secret))
			if key.Allows(apikeys.Scope(op.scope)) {
				if r.status == 401 || r.status == 403 {
					t.Errorf("%s refuses %s, which has %v", op.id, key.Name, key.Scopes)
				}
				continue
			}
			if p := r.want(403).problem(ProblemCodeMissingScope); !strings.Contains(p.Detail, string(op.scope)) {
				t.Errorf("%s: the detail does not name the scope: %s", op.id, p.Detail)
			}
		}
	}
}

func TestTenantIsTheKeys(t *testing.T) {
	g := newRig(t)
	g.keys["exk_other"] = apikeys.Key{Tenant: "other", Name: "other", Scopes: []string{"admin"}}
	asked := ""
	note := func(tenant string) error { asked = tenant; return commands.ErrNotFound }
	g.commands.submit = func(_ context.Context, sub commands.Submission) (commands.Accepted, error) {
		return commands.Accepted{}, note(sub.Tenant)
	}
	g.commands.get = func(_ context.Context, tenant string, _ uuid.UUID) (commands.Command, error) {
		return commands.Command{}, note(tenant)
	}
	g.commands.cancel = func(_ context.Context, tenant string, _ uuid.UUID, _ string) (commands.Command, commands.CancelResult, error) {
		return commands.Command{}, "", note(tenant)
	}
	g.commands.attempts = func(_ context.Context, tenant string, _ uuid.UUID) ([]commands.Attempt, error) {
		return nil, note(tenant)
	}
	g.commands.events = func(_ context.Context, tenant string, _ uuid.UUID) ([]commands.Event, error) {
		return nil, note(tenant)
	}
	g.do("PUT", "/v1/upstreams/ledger", yamlBody(someProfile)).want(201)
	g.lookups.err = commands.ErrNotFound

	id := "/v1/commands/" + someID.String()
	for _, path := range []string{id, id + "?wait=1", id + "/attempts", id + "/audit", id + "/events"} {
		asked = ""
		if g.do("GET", path, as("exk_other")).want(404); asked != "other" {
			t.Errorf("GET %s asked for the tenant %q", path, asked)
		}
	}
	if g.do("GET", id+"/lookups", as("exk_other")).want(404); g.lookups.tenant != "other" {
		t.Errorf("lookups asked for the tenant %q", g.lookups.tenant)
	}
	if g.do("POST", id+"/cancel", as("exk_other")).want(404); asked != "other" {
		t.Errorf("cancel asked for the tenant %q", asked)
	}
	for _, path := range []string{"/v1/upstreams/ledger", "/v1/upstreams/ledger/explain"} {
		g.do("GET", path, as("exk_other")).want(404)
	}
	g.do("POST", "/v1/upstreams/ledger/pause", as("exk_other"), sending(`{"reason":"x"}`)).want(404)
	g.do("PUT", "/v1/upstreams/ledger", as("exk_other"), yamlBody(someProfile)).want(422).problem(ProblemCodeInvalidProfile)
}

func TestOutsideOfTheDocument(t *testing.T) {
	g := newRig(t)
	for _, path := range []string{"/", "/v1", "/v1/", "/v2/commands", "/v1/commands/", "/v1/commands/x/y", "/problems/", "/%00"} {
		g.do("GET", path, without("Authorization")).want(404).problem(ProblemCodeNotFound)
	}
	g.do("GET", "/problems/nothing").want(404).problem(ProblemCodeNotFound)
	for path, allow := range map[string]string{
		"/v1/commands": "GET, HEAD, POST", "/v1/commands/batch": "GET, HEAD, POST", "/v1/commands/" + someID.String() + "/cancel": "POST",
		"/v1/upstreams/ledger": "GET, HEAD, PUT", "/livez": "GET, HEAD",
	} {
		for _, method := range []string{"DELETE", "PATCH", "OPTIONS"} {
			r := g.do(method, path, without("Authorization")).want(405)
			if r.problem(ProblemCodeMethodNotAllowed); r.header.Get("Allow") != allow {
				t.Errorf("%s %s: Allow is %q, want %q", method, path, r.header.Get("Allow"), allow)
			}
		}
	}
}

func TestProblemMeanings(t *testing.T) {
	g := newRig(t)
	for _, m := range meanings() {
		var got ProblemMeaning
		if g.do("GET", "/problems/"+string(m.code), without("Authorization")).want(200).decode(&got); got.Code != m.code || got.Status != m.status {
			t.Errorf("%s: %+v", m.code, got)
		}
	}
}

func TestRequestIDTravels(t *testing.T) {
	g := newRig(t)
	if r := g.do("GET", "/livez", with("X-Request-Id", "mine-1")); r.header.Get("X-Request-Id") != "mine-1" {
		t.Errorf("the id became %q", r.header.Get("X-Request-Id"))
	}
	if r := g.do("GET", "/nowhere", with("X-Request-Id", "a b")); r.header.Get("X-Request-Id") == "a b" {
		t.Error("an unfit id was taken")
	}
}

func TestSubmitNeedsAKey(t *testing.T) {
	g := newRig(t)
	g.do("POST", "/v1/commands", sending(leastSubmit)).want(400).problem(ProblemCodeMissingIdempotencyKey)
	g.submit("", leastSubmit).want(400).problem(ProblemCodeInvalidIdempotencyKey)
	g.do("POST", "/v1/commands?dry_run=true", sending(leastSubmit)).want(400).problem(ProblemCodeMissingIdempotencyKey)
	g.do("POST", "/v1/commands?dry_run=maybe", sending(leastSubmit), with(keyHeader, "k")).want(400).problem(ProblemCodeInvalidParameter)
}

func TestStrictBodies(t *testing.T) {
	g := newRig(t)
	for body, pointer := range map[string]string{
		`{"upstream":"u","operation":"o","body":{"amount":1,"amount":2}}`:        "/body/amount",
		`{"upstream":"u","upstream":"v","operation":"o"}`:                        "/upstream",
		"{\"upstream\":\"u\",\"operation\":\"o\",\"body\":\"\xff\"}":             "/body",
		`{"upstream":"u","operation":"o","body":` + strings.Repeat("[", 100_000): "/body" + strings.Repeat("/0", maxDepth-1),
		`{"upstream":"u","operation":"o"`:                                        "",
		``:                                                                       "",
	} {
		p := g.submit("k", body).want(400).problem(ProblemCodeMalformedJSON)
		if len(p.Errors) != 1 || p.Errors[0].Pointer != pointer || p.Errors[0].Line == 0 {
			t.Errorf("%.60q: %+v", body, p.Errors)
		}
	}
	p := g.submit("k", `{"upstream":"u","operation":"o","Body":1,"metadata":{"a":"\u0000"}}`).want(422).problem(ProblemCodeInvalidRequest)
	if len(p.Errors) != 2 || p.Errors[0].Pointer != "/Body" || p.Errors[1].Pointer != "/metadata/a" {
		t.Errorf("%+v", p.Errors)
	}
}

func TestMediaTypes(t *testing.T) {
	g := newRig(t)
	for contentType, status := range map[string]int{
		"application/json": 202, "application/json; charset=utf-8": 202, "Application/JSON;charset=UTF-8": 202,
		"application/json; charset=latin1": 415, "text/json": 415, "application/x-www-form-urlencoded": 415, "": 415, ";": 415,
	} {
		r := g.submit("k", leastSubmit, without("Content-Type"), with("Content-Type", contentType)).want(status)
		if status == 415 {
			r.problem(ProblemCodeUnsupportedMediaType)
		}
	}
	g.submit("k", leastSubmit, with("Content-Encoding", "gzip")).want(415)
	g.submit("k", leastSubmit, with("Content-Encoding", "identity")).want(202)
	g.do("PUT", "/v1/upstreams/ledger", func(a *ask) { a.body = someProfile; a.header.Set("Content-Type", "text/plain") }).want(415)
}

func TestBodyLimits(t *testing.T) {
	g := newRig(t, func(c *Config) { c.SubmitBytes, c.BatchBytes = 256, 1024 })
	pad := func(n int) string { return leastSubmit + strings.Repeat(" ", n-len(leastSubmit)) }
	g.submit("k", pad(256)).want(202)
	if p := g.submit("k", pad(257)).want(413).problem(ProblemCodeBodyTooLarge); !strings.Contains(p.Detail, "256") {
		t.Errorf("the limit is not named: %s", p.Detail)
	}
	g.do("POST", "/v1/commands/batch", sending(pad(1025))).want(413)
	g.do("PUT", "/v1/upstreams/ledger", yamlBody(pad(257))).want(413)
	g.do("POST", "/v1/upstreams/ledger/resume", sending(pad(257))).want(413)

	chunked, _ := http.NewRequest("POST", g.http.URL+"/v1/commands", io.MultiReader(strings.NewReader(pad(300))))
	chunked.Header = http.Header{"Authorization": {"Bearer exk_admin"}, "Content-Type": {"application/json"}, keyHeader: {"k"}}
	resp, err := g.http.Client().Do(chunked)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 413 {
		t.Errorf("a chunked body over the limit gave %d", resp.StatusCode)
	}
}

func TestUnknownErrorsStayInTheLog(t *testing.T) {
	g := newRig(t)
	secret := errors.New("relation \"secrets\" does not exist")
	for name, submit := range map[string]func(context.Context, commands.Submission) (commands.Accepted, error){
		"error": func(context.Context, commands.Submission) (commands.Accepted, error) {
			return commands.Accepted{}, secret
		},
		"panic": func(context.Context, commands.Submission) (commands.Accepted, error) { panic(secret) },
	} {
		g.commands.submit = submit
		r := g.submit("k", leastSubmit, with("X-Request-Id", "trace-"+name)).want(500)
		if r.problem(ProblemCodeInternalError); strings.Contains(string(r.body), "relation") {
			t.Errorf("%s: the cause is in the answer: %s", name, r.body)
		}
		if log := g.log.String(); !strings.Contains(log, "relation") || !strings.Contains(log, "trace-"+name) {
			t.Errorf("%s: the log has no cause: %s", name, log)
		}
	}
}

func TestUnavailable(t *testing.T) {
	g := newRig(t)
	for _, err := range []error{
		fmt.Errorf("submit: %w", commands.ErrUnavailable), context.DeadlineExceeded, io.ErrUnexpectedEOF,
		&pgconn.PgError{Code: "57P01"}, &pgconn.PgError{Code: "53300"}, &pgconn.PgError{Code: "57014"}, &pgconn.ConnectError{},
		errors.Join(&pgconn.ConnectError{}, &pgconn.PgError{Code: "28P01"}), // turned down: the password was changed, say
	} {
		g.commands.submit = func(context.Context, commands.Submission) (commands.Accepted, error) { return commands.Accepted{}, err }
		r := g.submit("k", leastSubmit).want(503)
		if r.problem(ProblemCodeUnavailable); r.header.Get("Retry-After") != "1" {
			t.Errorf("%v: Retry-After is %q", err, r.header.Get("Retry-After"))
		}
	}
	g.commands.submit = func(context.Context, commands.Submission) (commands.Accepted, error) {
		return commands.Accepted{}, &pgconn.PgError{Code: "42P01"}
	}
	g.submit("k", leastSubmit).want(500)
	g.commands.submit = func(context.Context, commands.Submission) (commands.Accepted, error) {
		return commands.Accepted{}, commands.ErrConflict
	}
	g.do("POST", "/v1/commands/"+someID.String()+"/cancel").want(404)
	g.commands.cancel = func(context.Context, string, uuid.UUID, string) (commands.Command, commands.CancelResult, error) {
		return commands.Command{}, "", commands.ErrConflict
	}
	g.do("POST", "/v1/commands/"+someID.String()+"/cancel").want(409).problem(ProblemCodeConflict)
}
