package web

import (
	"errors"
	"net/http"
	"time"

	"executor/internal/operators"
)

func operatorRoutes() []route {
	return []route{
		{method: http.MethodGet, pattern: "/operators", role: operators.RoleAdmin, serve: (*Server).operatorsPage},
		{method: http.MethodPost, pattern: "/operators", role: operators.RoleAdmin, serve: (*Server).addOperator},
		{method: http.MethodGet, pattern: "/operators/{id}/{deed:role|remove|disable|enable|link|end-sessions}", role: operators.RoleAdmin, serve: (*Server).askOperator},
		{method: http.MethodPost, pattern: "/operators/{id}/{deed:role|remove|disable|enable|link|end-sessions}", role: operators.RoleAdmin, serve: (*Server).changeOperator},
	}
}

// operatorsView is who may sign in to this tenant, and the form for one more.
type operatorsView struct {
	Tenant    string
	Operators []operatorLine
	Roles     []operators.Role
	Link      string // of whoever was just added: shown this once
	// The form, as typed.
	Name, Reason, Wrong string
	Role                operators.Role
}

// operatorLine is one of them.
type operatorLine struct {
	operators.Operator
	Is  operators.Role // in this tenant
	You bool
}

// invitation is how long a link works that an admin passes on.
const invitation = 24 * time.Hour

func (s *Server) operatorsPage(v *visit) error {
	return s.showOperators(v, http.StatusOK, operatorsView{Role: operators.RoleOperator, Link: v.takeOnce("operators")})
}

func (s *Server) showOperators(v *visit, status int, view operatorsView) error {
	list, err := s.operators.List(v.r.Context(), v.tenant)
	if err != nil {
		return err
	}
	for _, o := range list {
		line := operatorLine{Operator: o, You: o.ID == v.operator.ID}
		for _, grant := range o.Roles {
			if grant.Tenant == v.tenant {
				line.Is = grant.Role
			}
		}
		view.Operators = append(view.Operators, line)
	}
	view.Tenant, view.Roles = v.tenant, operators.Roles()
	return v.renderStatus(status, "operators.html", "Operators", view)
}

// by says that the visitor changes somebody's rights.
func (v *visit) by(reason string) operators.By {
	return operators.By{Actor: v.actor(), Operator: v.operator.ID, Reason: reason}
}

func (s *Server) addOperator(v *visit) error {
	ctx := v.r.Context()
	view := operatorsView{Name: v.form("name"), Reason: v.form("reason"), Role: operators.Role(v.form("role"))}
	if view.Wrong = wrongReason(view.Reason); view.Wrong != "" {
		return s.showOperators(v, http.StatusUnprocessableEntity, view)
	}
	o, err := s.operators.Create(ctx, v.by(view.Reason), operators.New{Name: view.Name, Tenant: v.tenant, Role: view.Role})
	if errors.Is(err, operators.ErrExists) {
		o, err = s.admitOperator(v, view)
	}
	if errors.Is(err, operators.ErrForbidden) {
		err = errElsewhere
	}
	var invalid *operators.Invalid
	if errors.Is(err, errElsewhere) || errors.As(err, &invalid) || errors.Is(err, operators.ErrExists) {
		view.Wrong = capital(err.Error()) + "."
		return s.showOperators(v, http.StatusUnprocessableEntity, view)
	}
	if err != nil {
		return err
	}
	if o.HasPassword {
		v.tell("good", o.Name+" may sign in to this tenant too, as before.")
		return v.redirect("/operators")
	}
	return s.invite(v, o, view.Reason)
}

// errElsewhere: names are unique in the deployment, and this one is of other tenants.
var errElsewhere = errors.New("somebody of another tenant has this name. If it is the same person, an admin of all their tenants lets them in, or the command line does; else choose another name")

// admitOperator gives somebody who works in another tenant a role in this one, if the
// visitor is an admin there too.
func (s *Server) admitOperator(v *visit, view operatorsView) (operators.Operator, error) {
	o, err := s.operators.ByName(v.r.Context(), view.Name)
	if err != nil {
		return o, err
	}
	if o.Role(v.tenant) != "" || o.DisabledAt != nil {
		return o, operators.ErrExists
	}
	return s.operators.SetRole(v.r.Context(), v.by(view.Reason), o.ID, v.tenant, view.Role)
}

// invite shows a link for somebody, once.
func (s *Server) invite(v *visit, o operators.Operator, reason string) error {
	token, err := s.operators.CreateLink(v.r.Context(), v.by(reason), o.ID, invitation)
	if err != nil {
		return err
	}
	if err := v.keepOnce("operators", v.origin()+"/sign-in/link?token="+token); err != nil {
		return err
	}
	v.tell("good", "A link for "+o.Name+" is made.")
	return v.redirect("/operators")
}

// origin is the address under which the visitor sees the dashboard. It is shown to
// them, and nothing rests on it.
func (v *visit) origin() string {
	scheme := "https://"
	if v.r.TLS == nil && v.r.Header.Get("X-Forwarded-Proto") != "https" {
		scheme = "http://"
	}
	return scheme + v.r.Host
}
