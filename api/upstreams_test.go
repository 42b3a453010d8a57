package api

import (
	"strings"
	"testing"
	"time"
)

const someProfile = `version: 1
upstream: ledger
base_url: https://ledger.example/v2
operations:
  pay:
    method: POST
    path: /payments
`

func yamlBody(src string) askOption {
	return func(a *ask) { a.body = src; a.header.Set("Content-Type", yamlType) }
}

func TestUpstreams(t *testing.T) {
	g := newRig(t)
	if r := g.do("GET", "/v1/upstreams").want(200); string(r.body) != `{"data":[],"next_cursor":null}`+"\n" {
		t.Errorf("no upstreams: %s", r.body)
	}
	g.do("GET", "/v1/upstreams/ledger").want(404)
	var applied struct {
		Version int
		Changed bool
	}
	r := g.do("PUT", "/v1/upstreams/ledger", yamlBody(someProfile)).want(201)
	if r.decode(&applied); !applied.Changed || applied.Version != 1 || r.header.Get("Location") != "/v1/upstreams/ledger" {
		t.Errorf("applied: %s", r.body)
	}
	g.do("PUT", "/v1/upstreams/ledger", yamlBody(someProfile)).want(200).decode(&applied)
	if applied.Changed {
		t.Error("the same profile made a new version")
	}
	g.do("PUT", "/v1/upstreams/ledger", sending(`{"version":1,"upstream":"ledger","base_url":"https://ledger.example/v3","operations":{"pay":{"method":"POST","path":"/p"}}}`)).want(200).decode(&applied)
	if !applied.Changed || applied.Version != 2 {
		t.Errorf("a profile in JSON gave %+v", applied)
	}
	g.do("PUT", "/v1/upstreams/ledger", yamlBody(someProfile)).want(200)
	var u Upstream
	if g.do("GET", "/v1/upstreams/ledger", as("exk_read")).want(200).decode(&u); u.Profile != someProfile || u.Paused != nil || len(u.Warnings) == 0 {
		t.Errorf("the upstream is %+v", u)
	}
	if r := g.do("GET", "/v1/upstreams/ledger", with("Accept", yamlType)).want(200); string(r.body) != someProfile || r.header.Get("Content-Type") != yamlType {
		t.Errorf("the profile is %s", r.body)
	}
	for _, tt := range []struct {
		after time.Duration
		shown bool
	}{{time.Hour, true}, {-time.Second, false}} {
		g.upstreams.held.ThrottledUntil = new(time.Now().Add(tt.after))
		if g.do("GET", "/v1/upstreams/ledger").want(200).decode(&u); (u.ThrottledUntil != nil) != tt.shown {
			t.Errorf("throttled for %s, shown as %v", tt.after, u.ThrottledUntil)
		}
	}
	var list UpstreamList
	if g.do("GET", "/v1/upstreams").want(200).decode(&list); len(list.Data) != 1 || list.Data[0].Profile != "" || list.Data[0].Operations[0] != "pay" {
		t.Errorf("the list is %+v", list)
	}
}

func TestPauseAndResume(t *testing.T) {
	g := newRig(t)
	g.do("PUT", "/v1/upstreams/ledger", yamlBody(someProfile)).want(201)
	var u Upstream
	g.do("POST", "/v1/upstreams/ledger/pause", sending(`{"reason":"it burns"}`)).want(200).decode(&u)
	if u.Paused == nil || u.Paused.Reason != "it burns" || u.Paused.By != "boss" {
		t.Errorf("paused: %+v", u.Paused)
	}
	for body, pointer := range map[string]string{`{}`: "/reason", `{"reason":""}`: "/reason", `{"reason":1}`: "/reason", `{"reason":"x","why":"y"}`: "/why", `[]`: "", `{"reason":"` + strings.Repeat("x", 501) + `"}`: "/reason"} {
		p := g.do("POST", "/v1/upstreams/ledger/pause", sending(body)).want(422).problem(ProblemCodeInvalidRequest)
		if len(p.Errors) != 1 || p.Errors[0].Pointer != pointer {
			t.Errorf("%.40s: %+v", body, p.Errors)
		}
	}
	u = Upstream{}
	if g.do("POST", "/v1/upstreams/ledger/resume").want(200).decode(&u); u.Paused != nil {
		t.Errorf("resumed: %+v", u.Paused)
	}
	g.do("POST", "/v1/upstreams/other/pause", sending(`{"reason":"x"}`)).want(404)
	g.do("POST", "/v1/upstreams/other/resume").want(404)
}

func TestApplyRefusesWithLineAndColumn(t *testing.T) {
	g := newRig(t)
	put := func(src string) Problem {
		return g.do("PUT", "/v1/upstreams/ledger", yamlBody(src)).want(422).problem(ProblemCodeInvalidProfile)
	}
	p := put(someProfile + "    colour: red\n")
	if len(p.Errors) == 0 || p.Errors[0].Line != 8 || p.Errors[0].Column != 5 {
		t.Errorf("%+v", p)
	}
	if p := put(strings.Replace(someProfile, "upstream: ledger", "upstream: other", 1)); p.Errors[0].Pointer != "/upstream" {
		t.Errorf("%+v", p)
	}
	if p := put("tenant: acme\n" + someProfile); p.Errors[0].Pointer != "/tenant" {
		t.Errorf("%+v", p)
	}
	g.do("PUT", "/v1/upstreams/ledger", yamlBody("a: \xff")).want(400).problem(ProblemCodeMalformedBody)
	g.do("PUT", "/v1/upstreams/Led%2Fger", yamlBody(someProfile)).want(400).problem(ProblemCodeInvalidParameter)
}

func TestExplain(t *testing.T) {
	g := newRig(t)
	g.do("PUT", "/v1/upstreams/ledger", yamlBody(someProfile)).want(201)
	var m Matrix
	if g.do("GET", "/v1/upstreams/ledger/explain").want(200).decode(&m); len(m.Operations) != 1 || len(m.Operations[0].Rows) == 0 {
		t.Errorf("the matrix is %+v", m)
	}
	if r := g.do("GET", "/v1/upstreams/ledger/explain", with("Accept", "text/plain")).want(200); !strings.Contains(string(r.body), "connection refused") {
		t.Errorf("the matrix is %s", r.body)
	}
}
