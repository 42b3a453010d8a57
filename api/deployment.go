package api

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// Deployment says whose data this is and whether sending stands still, and
// changes it. Changes hold for every process on the database.
type Deployment interface {
	Show(ctx context.Context) (DeploymentStatus, error)
	Freeze(ctx context.Context, reason, actor string) (DeploymentStatus, error)
	Resume(ctx context.Context, actor string) (DeploymentStatus, error) // ErrDeploymentConflict while the data is another deployment's
	Adopt(ctx context.Context, actor string) (DeploymentStatus, error)  // ErrDeploymentConflict if there is no id to adopt it under
}

// DeploymentStatus is the deployment as it is now.
type DeploymentStatus struct {
	ID           string // the deployment that the data belongs to
	ProcessID    string // the deployment that this process belongs to
	FrozenAt     *time.Time
	FrozenBy     string
	FrozenReason string
	Doubtful     bool // a promotion or a restore: what was committed before may be lost
}

// ErrDeploymentConflict refuses a change that the deployment's state does not
// allow. Wrap it with a sentence for people.
var ErrDeploymentConflict = errors.New("deployment conflict")

// GetDeployment shows the deployment.
func (s *Server) GetDeployment(w http.ResponseWriter, r *http.Request) error {
	return s.answerDeployment(w)(s.deployment.Show(r.Context()))
}

// FreezeDeployment stops sending everywhere.
func (s *Server) FreezeDeployment(w http.ResponseWriter, r *http.Request) error {
	reason, err := s.readReason(w, r)
	if err != nil {
		return err
	}
	return s.answerDeployment(w)(s.deployment.Freeze(r.Context(), reason, callOf(r).key.Name))
}

// ResumeDeployment sends again.
func (s *Server) ResumeDeployment(w http.ResponseWriter, r *http.Request) error {
	if err := readNothing(w, r, s.submitBytes); err != nil {
		return err
	}
	return s.answerDeployment(w)(s.deployment.Resume(r.Context(), callOf(r).key.Name))
}

// AdoptDeployment makes the data this deployment's own.
func (s *Server) AdoptDeployment(w http.ResponseWriter, r *http.Request) error {
	if err := readNothing(w, r, s.submitBytes); err != nil {
		return err
	}
	return s.answerDeployment(w)(s.deployment.Adopt(r.Context(), callOf(r).key.Name))
}

func (s *Server) answerDeployment(w http.ResponseWriter) func(DeploymentStatus, error) error {
	return func(d DeploymentStatus, err error) error {
		if errors.Is(err, ErrDeploymentConflict) {
			return &failure{code: ProblemCodeConflict, detail: err.Error()}
		}
		if err != nil {
			return err
		}
		return writeJSON(w, http.StatusOK, "application/json", DeploymentView{
			ID: d.ID, ProcessID: d.ProcessID, Frozen: d.FrozenAt != nil, FrozenAt: utc(d.FrozenAt),
			FrozenBy: textOrNull(d.FrozenBy), FrozenReason: textOrNull(d.FrozenReason), Doubtful: d.Doubtful,
		})
	}
}

// maxReason bounds the reason that a person gives, in characters.
const maxReason = 500

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
