package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"executor/attempts"
	"executor/commands"
	"executor/internal/audit"
	"executor/internal/groupcommit"
	"executor/internal/operators"
	"executor/reconcile"
	"executor/upstreams"
	"executor/webhooks"
)

// failure is an error that a person can read.
type failure struct {
	status int
	title  string
	detail string
}

func (f *failure) Error() string { return f.title + ": " + f.detail }

// errSignIn: somebody has to sign in first.
var errSignIn = errors.New("not signed in")

func notFound(detail string) error {
	return &failure{http.StatusNotFound, "Not found", detail}
}

func badRequest(detail string) error {
	return &failure{http.StatusBadRequest, "That did not work", detail}
}

func forbidden(needed operators.Role) error {
	return &failure{http.StatusForbidden, "Not allowed", "This takes the role " + string(needed) + ". Ask an admin of this tenant for it."}
}

// failureOf turns an error into what is shown. What it does not know is a 500,
// whose cause goes to the log only.
func failureOf(err error) *failure {
	var (
		known   *failure
		invalid *commands.Invalid
		refused *operators.Invalid
	)
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &invalid):
		return &failure{http.StatusUnprocessableEntity, "That did not work", invalidText(invalid)}
	case errors.As(err, &refused):
		return &failure{http.StatusUnprocessableEntity, "That did not work", capital(refused.Detail) + "."}
	case errors.Is(err, operators.ErrForbidden):
		return &failure{http.StatusForbidden, "Not allowed", "It takes an admin of every tenant that this person has a role in."}
	case errors.Is(err, commands.ErrNotFound):
		return &failure{http.StatusNotFound, "Not found", "This tenant has no such command."}
	case errors.Is(err, upstreams.ErrNotFound):
		return &failure{http.StatusNotFound, "Not found", "This tenant has no such upstream, or the upstream no such version."}
	case errors.Is(err, webhooks.ErrNotFound), errors.Is(err, reconcile.ErrReportNotFound), errors.Is(err, reconcile.ErrBulkNotFound):
		return &failure{http.StatusNotFound, "Not found", "This tenant has nothing of that id."}
	case errors.Is(err, commands.ErrBadCursor), errors.Is(err, webhooks.ErrBadCursor), errors.Is(err, audit.ErrBadCursor):
		return &failure{http.StatusBadRequest, "That did not work", "This page of the list does not exist. Start again from the first one."}
	case errors.Is(err, commands.ErrUnavailable), errors.Is(err, groupcommit.ErrUnknown), errors.Is(err, context.DeadlineExceeded):
		return &failure{http.StatusServiceUnavailable, "The database does not answer",
			"Nothing can be shown or done at the moment. What you just sent may or may not have been done: look again before you repeat it."}
	case errors.Is(err, attempts.ErrNoDeployment):
		return &failure{http.StatusConflict, "No deployment", "The data has no deployment id yet. Run \"executor migrate\"."}
	default:
		return &failure{http.StatusInternalServerError, "Something went wrong here", "The cause is in the log of this process. What you just sent may or may not have been done: look again before you repeat it."}
	}
}

// invalidText is one line about all that is wrong.
func invalidText(e *commands.Invalid) string {
	text := e.Detail
	for _, f := range e.Fields {
		text += " " + f.Pointer + ": " + f.Detail
	}
	return text
}

// fail shows what went wrong.
func (s *Server) fail(v *visit, err error) {
	if errors.Is(err, errSignIn) {
		s.leadToSignIn(v)
		return
	}
	f := failureOf(err)
	gone := errors.Is(v.r.Context().Err(), context.Canceled)
	if f.status >= http.StatusInternalServerError && !gone {
		s.log.Error("page failed", "method", v.r.Method, "path", v.r.URL.Path, "status", f.status, "error", err)
	}
	if err := v.renderStatus(f.status, failurePage, f.title, f.view()); err != nil {
		s.log.Error("show failure", "path", v.r.URL.Path, "error", err)
		http.Error(v.w, f.title, http.StatusInternalServerError)
	}
}

// failureView is a failure as its page shows it.
type failureView struct{ Title, Detail string }

func (f *failure) view() failureView { return failureView{f.title, f.detail} }

// leadToSignIn remembers where the person wanted to go. What was sent with a form
// is not kept: it is to be looked at again.
func (s *Server) leadToSignIn(v *visit) {
	target := "/sign-in"
	if v.r.Method == http.MethodGet && v.r.URL.Path != "/" && v.r.URL.Path != "/live" {
		target += "?to=" + url.QueryEscape(v.r.URL.RequestURI())
	}
	if v.fromElsewhere() {
		if err := v.askAgain(); err != nil {
			s.log.Warn("lead a visitor on", "error", err)
		}
		return
	}
	if v.r.URL.Path == "/live" {
		http.Error(v.w, "signed out", http.StatusUnauthorized)
		return
	}
	_ = v.redirect(target)
}

// sessionFailed answers when the sessions cannot be read or written.
func (s *Server) sessionFailed(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(r.Context().Err(), context.Canceled) { // gone
		return
	}
	s.log.Error("session", "path", r.URL.Path, "error", err)
	http.Error(w, "The database does not answer. Try again in a moment.", http.StatusServiceUnavailable)
}
