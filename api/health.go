package api

import (
	"context"
	"net/http"
	"time"
)

// Health is asked whether the process can serve.
type Health interface {
	Ready(ctx context.Context) []Check
}

// Check is one thing that readiness rests on. Its detail is shown to anybody
// who asks.
type Check struct {
	Name   string // for example database, migrations
	OK     bool
	Detail string
}

// readyTime bounds the checks.
const readyTime = 2 * time.Second

// Livez says that the process answers.
func (s *Server) Livez(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, "application/json", HealthView{Status: HealthStatusOk})
}

// Healthz is Livez under its older name.
func (s *Server) Healthz(w http.ResponseWriter, r *http.Request) error { return s.Livez(w, r) }

// Readyz says whether the process can serve.
func (s *Server) Readyz(w http.ResponseWriter, r *http.Request) error {
	verbose := given(r, "verbose") && param(r, "verbose") == ""
	if !verbose {
		var err error
		if verbose, err = flag(r, "verbose"); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), readyTime)
	defer cancel()
	checks := append(s.health.Ready(ctx), s.drainCheck())
	answer, status := HealthView{Status: HealthStatusOk}, http.StatusOK
	for _, c := range checks {
		if !c.OK {
			answer.Status, status = HealthStatusNotReady, http.StatusServiceUnavailable
		}
		if verbose || !c.OK {
			answer.Checks = append(answer.Checks, CheckView{Name: c.Name, Ok: c.OK, Detail: c.Detail})
		}
	}
	return writeJSON(w, status, "application/json", answer)
}

func (s *Server) drainCheck() Check {
	if s.draining.Err() != nil {
		return Check{Name: "draining", Detail: "The process is stopping."}
	}
	return Check{Name: "draining", OK: true}
}
