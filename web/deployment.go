package web

import (
	"errors"
	"fmt"
	"net/http"

	"executor/attempts"
	"executor/commands"
	"executor/internal/audit"
	"executor/internal/operators"
)

func deploymentRoutes() []route {
	return []route{
		{method: http.MethodGet, pattern: "/deployment", role: operators.RoleViewer, serve: (*Server).deploymentPage},
		{method: http.MethodGet, pattern: "/deployment/freeze", role: operators.RoleAdmin, serve: (*Server).askFreeze},
		{method: http.MethodPost, pattern: "/deployment/freeze", role: operators.RoleAdmin, serve: (*Server).freeze},
		{method: http.MethodGet, pattern: "/deployment/resume", role: operators.RoleAdmin, serve: (*Server).askResume},
		{method: http.MethodPost, pattern: "/deployment/resume", role: operators.RoleAdmin, serve: (*Server).resume},
	}
}

// deploymentView is whose data this is, and what was done to it lately.
type deploymentView struct {
	State  attempts.DeploymentState
	Deeds  []audit.Recorded
	Change bool // the visitor may freeze and resume
}

// deedsShown is how many of the last deeds a page lists.
const deedsShown = 20

func (s *Server) deploymentPage(v *visit) error {
	state, err := s.deployment.Show(v.r.Context())
	if err != nil {
		return err
	}
	view := deploymentView{State: state.SeenBy(v.tenant)}
	if err := s.ownsDeployment(v); err != nil {
		return v.render("deployment.html", "Deployment", view)
	}
	view.Change = true
	view.Deeds, _, err = audit.List(v.r.Context(), s.pool, audit.Filter{Tenant: audit.Deployment, Limit: deedsShown})
	if err != nil {
		return err
	}
	return v.render("deployment.html", "Deployment", view)
}

// ownsDeployment refuses who is not an admin of every tenant: what is done to the
// deployment is done to all of them.
func (s *Server) ownsDeployment(v *visit) error {
	tenants, err := s.upstreams.Tenants(v.r.Context())
	if err != nil {
		return err
	}
	for _, tenant := range append(tenants, v.tenant) {
		if !v.operator.Role(tenant).Allows(operators.RoleAdmin) {
			return &failure{http.StatusForbidden, "Not allowed",
				"Freezing and resuming touch every tenant: they take the role admin in each of them, or the command line (\"executor freeze\")."}
		}
	}
	return nil
}

func freezeDeed() deed {
	return deed{
		Title: "Freeze the deployment", Action: "/deployment/freeze", Button: "Freeze: send nothing", Danger: true, Back: "/deployment",
		Says: []string{
			"Within seconds no process sends a command any more, of any tenant and to any upstream.",
			"Attempts that are on the wire now end by themselves: they are not cut off.",
			"Commands are still accepted and wait. Their deadlines run on: what is not sent by then ends cancelled, or unresolved where an earlier attempt may have acted.",
			"Lookups and webhooks go on.",
		},
	}
}

func (s *Server) askFreeze(v *visit) error {
	if err := s.ownsDeployment(v); err != nil {
		return err
	}
	return v.ask(freezeDeed())
}

func (s *Server) freeze(v *visit) error {
	if err := s.ownsDeployment(v); err != nil {
		return err
	}
	reason, ok, err := v.reason(freezeDeed())
	if !ok {
		return err
	}
	if _, err := s.deployment.Freeze(v.r.Context(), audit.By{Actor: v.tenant + "/" + v.actor(), Reason: reason}); err != nil {
		return err
	}
	v.tell("doubt", "Frozen: nothing is sent until somebody resumes.")
	return v.redirect("/deployment")
}

// resumeDeed says what would follow, which after a promotion or a restore is more
// than that sending goes on.
func (s *Server) resumeDeed(v *visit) (deed, error) {
	if err := s.ownsDeployment(v); err != nil {
		return deed{}, err
	}
	state, err := s.deployment.Show(v.r.Context())
	if err != nil {
		return deed{}, err
	}
	preview, err := s.deployment.PreviewResume(v.r.Context())
	if err != nil {
		return deed{}, err
	}
	d := deed{
		Title: "Resume sending", Action: "/deployment/resume", Button: "Resume", Back: "/deployment", Danger: preview.Doubtful,
		Says: []string{"Every process sends again what is due, within the limits of each upstream."},
	}
	if state.Frozen() {
		d.Facts = []fact{{"Frozen by", state.FrozenBy}, {"Reason", state.FrozenReason}, {"Since", state.FrozenAt.UTC().Format("2006-01-02 15:04:05 UTC")}}
	}
	if preview.Doubtful {
		d.Says = append(d.Says,
			"The database was promoted or restored: what was committed last may be lost, so that a command which looks unsent may have been sent.",
			fmt.Sprintf("%s without a settled outcome count as possibly sent. What is not safe to repeat is not sent again: it ends unresolved, for lookups or a person.",
				commands.Count{N: int64(preview.Commands), More: preview.More}))
	}
	return d, nil
}

func (s *Server) askResume(v *visit) error {
	d, err := s.resumeDeed(v)
	if err != nil {
		return err
	}
	return v.ask(d)
}

func (s *Server) resume(v *visit) error {
	d, err := s.resumeDeed(v)
	if err != nil {
		return err
	}
	reason, ok, err := v.reason(d)
	if !ok {
		return err
	}
	_, err = s.deployment.Resume(v.r.Context(), audit.By{Actor: v.tenant + "/" + v.actor(), Reason: reason})
	if errors.Is(err, attempts.ErrNotResumed) || errors.Is(err, attempts.ErrOtherDeployment) {
		return &failure{http.StatusConflict, "It stays frozen", sentence(err.Error())}
	}
	if err != nil {
		return err
	}
	v.tell("good", "Resumed: what is due is sent.")
	return v.redirect("/deployment")
}
