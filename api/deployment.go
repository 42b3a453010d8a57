package api

import (
	"context"
	"net/http"
	"slices"
	"time"

	"executor/attempts"
	"executor/internal/audit"
)

// Deployment says whose data this is and whether sending stands still, and
// changes it, for every process on the database.
type Deployment interface {
	Show(ctx context.Context) (attempts.DeploymentState, error)
	Freeze(ctx context.Context, by audit.By) (attempts.DeploymentState, error)
	Resume(ctx context.Context, by audit.By) (attempts.DeploymentState, error)
	Adopt(ctx context.Context, by audit.By) (attempts.DeploymentState, error)
}

// GetDeployment shows the deployment.
func (s *Server) GetDeployment(w http.ResponseWriter, r *http.Request) error {
	return s.answerDeployment(w, r)(s.deployment.Show(r.Context()))
}

// FreezeDeployment stops sending everywhere.
func (s *Server) FreezeDeployment(w http.ResponseWriter, r *http.Request) error {
	reason, err := s.readReason(w, r)
	if err != nil {
		return err
	}
	if err := s.ownsDeployment(r); err != nil {
		return err
	}
	return s.answerDeployment(w, r)(s.deployment.Freeze(r.Context(), deploymentBy(r, reason)))
}

// ListDeploymentAudit reads what was done to the deployment.
func (s *Server) ListDeploymentAudit(w http.ResponseWriter, r *http.Request) error {
	if err := notEmpty(r, "cursor"); err != nil {
		return err
	}
	if err := s.ownsDeployment(r); err != nil {
		return err
	}
	return s.answerAudit(w, r, audit.Filter{Tenant: audit.Deployment})
}

// ResumeDeployment sends again.
func (s *Server) ResumeDeployment(w http.ResponseWriter, r *http.Request) error {
	reason, err := s.mayReason(w, r)
	if err != nil {
		return err
	}
	if err := s.ownsDeployment(r); err != nil {
		return err
	}
	return s.answerDeployment(w, r)(s.deployment.Resume(r.Context(), deploymentBy(r, reason)))
}

// AdoptDeployment makes the data this deployment's own.
func (s *Server) AdoptDeployment(w http.ResponseWriter, r *http.Request) error {
	reason, err := s.mayReason(w, r)
	if err != nil {
		return err
	}
	if err := s.ownsDeployment(r); err != nil {
		return err
	}
	return s.answerDeployment(w, r)(s.deployment.Adopt(r.Context(), deploymentBy(r, reason)))
}

// ownsDeployment refuses the keys of one tenant among several: what is done to the
// deployment is done to all of them.
func (s *Server) ownsDeployment(r *http.Request) error {
	tenants, err := s.upstreams.Tenants(r.Context())
	if err != nil {
		return err
	}
	if own := callOf(r).key.Tenant; slices.ContainsFunc(tenants, func(tenant string) bool { return tenant != own }) {
		return &failure{code: ProblemCodeSeveralTenants, headers: map[string]string{"WWW-Authenticate": `Bearer realm="executor", error="insufficient_scope"`},
			detail: "What is done to the deployment touches every tenant of it: that takes the command line, or the dashboard and the role admin in each of them."}
	}
	return nil
}

func (s *Server) answerDeployment(w http.ResponseWriter, r *http.Request) func(attempts.DeploymentState, error) error {
	return func(d attempts.DeploymentState, err error) error {
		if err != nil {
			return err
		}
		d = d.SeenBy(callOf(r).key.Tenant)
		return writeJSON(w, http.StatusOK, "application/json", DeploymentView{
			ID: d.ID, ProcessID: textOrNull(d.Expected), Frozen: d.Frozen(), FrozenAt: utc(d.FrozenAt),
			FrozenBy: textOrNull(d.FrozenBy), FrozenReason: textOrNull(d.FrozenReason), Doubtful: d.Doubtful,
		})
	}
}

// deploymentBy names who asks for what concerns every tenant: keys of two tenants may
// have one name. No key's name has a slash.
func deploymentBy(r *http.Request, reason string) audit.By {
	caller := callOf(r).key
	return audit.By{Actor: caller.Tenant + "/" + caller.Name, Reason: reason}
}

// maxReason bounds the reason that a person gives, in characters.
const maxReason = 500

// mayReason reads the body of a call that a reason may be given for.
func (s *Server) mayReason(w http.ResponseWriter, r *http.Request) (reason string, err error) {
	err = readMaybe(w, r, s.submitBytes, textMember("reason", &reason, maxReason))
	return reason, err
}

// readReason reads the body of a call that a person must give a reason for.
func (s *Server) readReason(w http.ResponseWriter, r *http.Request) (string, error) {
	src, err := readBody(w, r, s.submitBytes, "application/json")
	if err != nil {
		return "", err
	}
	var reason string
	err = decodeObject(src, func(r *jsonReader, fields *complaints) error {
		complete := true
		err := r.object(func(name []byte) (err error) {
			if string(name) != "reason" {
				return fields.unknown(r, name)
			}
			reason, complete, err = textField(r, fields, maxReason)
			return err
		})
		if err == nil && complete && reason == "" {
			fields.add("/reason", "required", "Give a reason: it is kept with your name.")
		}
		return err
	})
	return reason, err
}

func textOrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}
