package api

import (
	"errors"
	"testing"

	"executor/attempts"
)

func TestDeployment(t *testing.T) {
	g := newRig(t)
	g.deployment.state = attempts.DeploymentState{ID: "prod", Expected: "copy"}
	var d DeploymentView
	if g.do("GET", "/v1/deployment", as("exk_read")).want(200).decode(&d); d.ID != "prod" || *d.ProcessID != "copy" || d.Frozen || d.FrozenBy != nil {
		t.Errorf("%+v", d)
	}
	if g.do("POST", "/v1/deployment/freeze", sending(`{"reason":"restore"}`)).want(200).decode(&d); !d.Frozen || *d.FrozenReason != "restore" || *d.FrozenBy != "boss" {
		t.Errorf("%+v", d)
	}
	if g.do("POST", "/v1/deployment/adopt").want(200).decode(&d); d.ID != "copy" {
		t.Errorf("%+v", d)
	}
	if g.do("POST", "/v1/deployment/resume").want(200).decode(&d); d.Frozen {
		t.Errorf("%+v", d)
	}
	g.do("POST", "/v1/deployment/freeze", sending(`{}`)).want(422)
	g.deployment.err = attempts.ErrOtherDeployment
	g.do("POST", "/v1/deployment/resume").want(409).problem(ProblemCodeConflict)
	g.do("POST", "/v1/deployment/adopt").want(409).problem(ProblemCodeConflict)
}

func TestHealth(t *testing.T) {
	g := newRig(t)
	for _, path := range []string{"/livez", "/healthz", "/readyz"} {
		if r := g.do("GET", path, without("Authorization")).want(200); string(r.body) != `{"status":"ok"}`+"\n" {
			t.Errorf("%s: %s", path, r.body)
		}
	}
	var h HealthView
	for _, q := range []string{"?verbose", "?verbose=", "?verbose=true"} {
		if g.do("GET", "/readyz"+q).want(200).decode(&h); len(h.Checks) != 2 {
			t.Errorf("%s: %+v", q, h)
		}
	}
	g.do("GET", "/readyz?verbose=yes").want(400).problem(ProblemCodeInvalidParameter)
	g.health.err = errors.New("the database cannot be reached")
	if g.do("GET", "/readyz").want(503).decode(&h); h.Status != HealthStatusNotReady || len(h.Checks) != 1 || h.Checks[0].Detail != g.health.err.Error() {
		t.Errorf("%+v", h)
	}
	g.do("GET", "/livez").want(200)
}
