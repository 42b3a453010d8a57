package api

import (
	"encoding/json"
	"errors"
	"net/http/httptest"
	"testing"
	"time"

	"executor/attempts"
)

func TestDeployment(t *testing.T) {
	g := newRig(t)
	g.deployment.state = attempts.DeploymentState{ID: "prod", Expected: "copy"}
	var d DeploymentView
	if g.do("GET", "/v1/deployment", as("exk_read")).want(200).decode(&d); d.ID != "prod" || *d.ProcessID != "copy" || d.Frozen || d.FrozenBy != nil {
		t.Errorf("%+v", d)
	}
	if g.do("POST", "/v1/deployment/freeze", sending(`{"reason":"restore"}`)).want(200).decode(&d); !d.Frozen || *d.FrozenReason != "restore" || *d.FrozenBy != "default/boss" {
		t.Errorf("%+v", d)
	}
	if g.do("POST", "/v1/deployment/adopt").want(200).decode(&d); d.ID != "copy" {
		t.Errorf("%+v", d)
	}
	if g.do("POST", "/v1/deployment/resume").want(200).decode(&d); d.Frozen {
		t.Errorf("%+v", d)
	}
	g.do("POST", "/v1/deployment/freeze", sending(`{}`)).want(422)
	g.upstreams.tenants, g.deployment.state.FrozenAt, g.deployment.state.FrozenBy = []string{"acme", "default"}, new(time.Time), "acme/ann"
	for call, body := range map[string]string{"freeze": `{"reason":"drill"}`, "resume": "", "adopt": ""} {
		g.do("POST", "/v1/deployment/"+call, sending(body)).want(403).problem(ProblemCodeSeveralTenants)
	}
	g.do("GET", "/v1/deployment/audit").want(403).problem(ProblemCodeSeveralTenants)
	if g.do("GET", "/v1/deployment").want(200).decode(&d); *d.FrozenBy != "an operator of the deployment" {
		t.Errorf("the name of another tenant: %+v", d)
	}
	g.upstreams.tenants = []string{"default"}
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

// What a process without the API answers is not all that openapi.yaml has, but
// it is in its form.
func TestHealthRoutes(t *testing.T) {
	routes := newRig(t).server.HealthRoutes("Elsewhere.")
	ask := func(method, path string, want int) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		if routes.ServeHTTP(w, httptest.NewRequest(method, path, nil)); w.Code != want {
			t.Errorf("%s %s: %d, want %d: %s", method, path, w.Code, want, w.Body)
		}
		return w
	}
	refused := func(method, path string, status int) (p Problem) {
		w := ask(method, path, status)
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s: %v: %s", method, path, err, w.Body)
		}
		return p
	}
	for _, path := range []string{"/livez", "/healthz", "/readyz", "/problems/not_found"} {
		ask("GET", path, 200)
	}
	for _, path := range []string{"/", "/v1/commands", "/openapi.yaml"} {
		if p := refused("GET", path, 404); p.Code != ProblemCodeNotFound || p.Detail != "Elsewhere." || p.Type != "/problems/not_found" {
			t.Errorf("%s: %+v", path, p)
		}
	}
	if p := refused("POST", "/livez", 405); p.Code != ProblemCodeMethodNotAllowed {
		t.Errorf("%+v", p)
	}
}
