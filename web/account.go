package web

import (
	"errors"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"executor/internal/operators"
)

func accountRoutes() []route {
	return []route{
		{method: http.MethodGet, pattern: "/account", role: operators.RoleViewer, serve: (*Server).account},
		{method: http.MethodPost, pattern: "/account/password", role: operators.RoleViewer, serve: (*Server).changePassword},
		{method: http.MethodPost, pattern: "/account/sessions/{id}/end", role: operators.RoleViewer, serve: (*Server).endSession},
		{method: http.MethodPost, pattern: "/account/sessions/end-others", role: operators.RoleViewer, serve: (*Server).endOtherSessions},
		{method: http.MethodPost, pattern: "/account/tenant", role: operators.RoleViewer, serve: (*Server).changeTenant},
	}
}

// accountPage is the visitor's own.
type accountPage struct {
	Operator operators.Operator
	Tenant   string
	Sessions []operators.Session
	Current  uuid.UUID
	Wrong    string // about the password
}

func (s *Server) account(v *visit) error { return s.showAccount(v, http.StatusOK, "") }

func (s *Server) showAccount(v *visit, status int, wrong string) error {
	sessions, err := s.sessions.List(v.r.Context(), v.operator.ID)
	if err != nil {
		return err
	}
	return v.renderStatus(status, "account.html", "Your account", accountPage{v.operator, v.tenant, sessions, v.session, wrong})
}

// changePassword takes the old one too, where there is one: an unlocked screen
// must not be enough.
func (s *Server) changePassword(v *visit) error {
	ctx, next := v.r.Context(), v.r.PostFormValue("new")
	if next != v.r.PostFormValue("again") {
		return s.showAccount(v, http.StatusUnprocessableEntity, "The new password was not typed the same way twice.")
	}
	if v.operator.HasPassword {
		_, err := s.operators.SignIn(ctx, v.operator.Name, v.r.PostFormValue("old"), v.address())
		var wait *operators.WaitError
		switch {
		case errors.As(err, &wait):
			return s.showAccount(v, http.StatusTooManyRequests, "Too many tries. Wait "+duration(wait.Wait)+", then try again.")
		case errors.Is(err, operators.ErrSignIn):
			return s.showAccount(v, http.StatusUnprocessableEntity, "The password of now is another one.")
		case err != nil:
			return err
		}
	}
	me, err := s.operators.SetPassword(ctx, v.self("changed their own password"), v.operator.ID, next)
	var invalid *operators.Invalid
	if errors.As(err, &invalid) {
		return s.showAccount(v, http.StatusUnprocessableEntity, capital(err.Error()))
	}
	if err != nil {
		return err
	}
	if err := s.sessions.Start(ctx, s.cookies, me, v.address(), v.r.UserAgent()); err != nil {
		return err
	}
	v.tell("good", "The password is changed. All other sessions of yours have ended.")
	return v.redirect("/account")
}

// self says that visitors do something to themselves.
func (v *visit) self(reason string) operators.By {
	return operators.By{Actor: v.actor(), Operator: v.operator.ID, Reason: reason}
}

func (s *Server) endSession(v *visit) error {
	id, err := v.id()
	if err != nil {
		return err
	}
	if err := s.sessions.Revoke(v.r.Context(), v.operator.ID, id); errors.Is(err, operators.ErrUnknown) {
		v.tell("good", "That session had ended already.")
		return v.redirect("/account")
	} else if err != nil {
		return err
	}
	if id == v.session {
		return v.redirect("/sign-in")
	}
	v.tell("good", "The session has ended.")
	return v.redirect("/account")
}

func (s *Server) endOtherSessions(v *visit) error {
	n, err := s.sessions.RevokeAll(v.r.Context(), v.operator.ID, v.session)
	if err != nil {
		return err
	}
	v.tell("good", plural(n, "other session has", "other sessions have")+" ended.")
	return v.redirect("/account")
}

// changeTenant turns to another tenant that the visitor has a role in.
func (s *Server) changeTenant(v *visit) error {
	tenant := v.form("tenant")
	if !slices.ContainsFunc(v.operator.Roles, func(g operators.Grant) bool { return g.Tenant == tenant }) {
		return badRequest("You have no role in that tenant.")
	}
	s.cookies.Put(v.r.Context(), sessionTenant, tenant)
	return v.redirect("/")
}
