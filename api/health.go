package api

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// Health is asked whether the process can serve: the database is reachable and
// migrated. The error's text is shown to anybody who asks.
type Health interface {
	Ready(ctx context.Context) error
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
		if verbose, err = boolean(r, "verbose"); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), readyTime)
	defer cancel()
	checks := []CheckView{checked("database", s.health.Ready(ctx)), checked("draining", s.stopping())}
	answer, status := HealthView{Status: HealthStatusOk}, http.StatusOK
	for _, c := range checks {
		if !c.Ok {
			answer.Status, status = HealthStatusNotReady, http.StatusServiceUnavailable
		}
		if verbose || !c.Ok {
			answer.Checks = append(answer.Checks, c)
		}
	}
	return writeJSON(w, status, "application/json", answer)
}

func checked(name string, err error) CheckView {
	if err != nil {
		return CheckView{Name: name, Detail: err.Error()}
	}
	return CheckView{Name: name, Ok: true}
}

func (s *Server) stopping() error {
	if s.draining.Err() != nil {
		return errors.New("the process is stopping")
	}
	return nil
}
