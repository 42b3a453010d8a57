package web

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"executor/internal/clientaddr"
	"executor/internal/operators"
)

// visit is one request: who asks, for which tenant, and how it is answered.
type visit struct {
	server   *Server
	w        http.ResponseWriter
	r        *http.Request
	operator operators.Operator // zero before a sign-in
	role     operators.Role     // in the tenant; "" before a sign-in
	tenant   string
	session  uuid.UUID
}

// What a session carries besides its operator.
const (
	sessionTenant = "tenant"
	sessionNotice = "notice"
	sessionTone   = "notice_tone"
	sessionSecret = "secret" // shown once, on the next page
)

// open finds out who asks. A session whose operator lost the right to be here is
// none.
func (v *visit) open() error {
	ctx, cookies := v.r.Context(), v.server.cookies
	if cookies.GetString(ctx, operators.KeyOperator) == "" {
		return nil
	}
	access, err := v.server.sessions.Authorize(ctx, cookies.Token(ctx), cookies.GetString(ctx, sessionTenant))
	switch {
	case errors.Is(err, operators.ErrNoRole) && len(access.Operator.Roles) > 0: // not any more in that tenant
		access.Tenant, access.Role = access.Operator.Roles[0].Tenant, access.Operator.Roles[0].Role
	case errors.Is(err, operators.ErrNoRole), errors.Is(err, operators.ErrSignedOut):
		return cookies.Destroy(ctx)
	case err != nil:
		return err
	}
	v.session, v.operator, v.role, v.tenant = access.Session, access.Operator, access.Role, access.Tenant
	return nil
}

// signedIn reports whether somebody stands behind the request.
func (v *visit) signedIn() bool { return v.role != "" }

// admit refuses who may not use the route. Who is not signed in is led to the
// sign-in and back.
func (v *visit) admit(route route) error {
	switch {
	case !storable(v.r.URL.Query()):
		return badRequest("The address has characters that no text here has. Start again from the page before.")
	case route.role == "":
		return nil
	case !v.signedIn():
		return errSignIn
	case !v.role.Allows(route.role):
		return forbidden(route.role)
	case v.r.Method == http.MethodPost && v.elsewhere() && !strings.HasPrefix(route.pattern, "/account/"):
		return &failure{http.StatusConflict, "Another tenant", "This form is of a page that showed another tenant than " + v.tenant +
			", in which you are now. Nothing was done. Open the page again in the tenant that you mean."}
	case v.r.Method == http.MethodPost && !route.upload:
		v.r.Body = http.MaxBytesReader(v.w, v.r.Body, maxForm)
		return v.parseForm()
	default:
		return nil
	}
}

// elsewhere reports whether a form is of a page of another tenant than the visitor is
// in now: they turned to another one, or have no role any more in that of the page.
// Forms of those who have one tenant name none.
func (v *visit) elsewhere() bool {
	of := v.query("for")
	return of != v.tenant && (of != "" || len(v.operator.Roles) > 1)
}

// parseForm refuses what no browser sends.
func (v *visit) parseForm() error {
	if err := v.r.ParseForm(); err != nil {
		return badRequest("The form could not be read. Go back and send it again.")
	}
	if !storable(v.r.PostForm) {
		return badRequest("The form holds a NUL character, or what is no text in UTF-8. Nothing was done. Go back, take it out, and send it again.")
	}
	return nil
}

// storable reports whether all values are text that the database can compare: it
// has neither NUL nor what is no UTF-8.
func storable(values url.Values) bool {
	for _, list := range values {
		for _, value := range list {
			if !utf8.ValidString(value) || strings.Contains(value, "\x00") {
				return false
			}
		}
	}
	return true
}

// id is the {id} of the address.
func (v *visit) id() (uuid.UUID, error) {
	id, err := uuid.Parse(chi.URLParam(v.r, "id"))
	if err != nil {
		return uuid.Nil, notFound("This is not the id of anything: " + chi.URLParam(v.r, "id"))
	}
	return id, nil
}

// param is a part of the address, decoded.
func (v *visit) param(name string) string {
	text := chi.URLParam(v.r, name)
	if decoded, err := url.PathUnescape(text); err == nil {
		return decoded
	}
	return text
}

// query is a value of the address's query.
func (v *visit) query(name string) string { return strings.TrimSpace(v.r.URL.Query().Get(name)) }

// form is a value of the form that was sent.
func (v *visit) form(name string) string { return strings.TrimSpace(v.r.PostFormValue(name)) }

// actor is who the audit names.
func (v *visit) actor() string { return v.operator.Name }

// address is where the request comes from, for the list of sessions and the
// throttle of sign-ins.
func (v *visit) address() string { return clientaddr.Of(v.r) }

// may reports whether the visitor may do what takes the role.
func (v *visit) may(role operators.Role) bool { return v.signedIn() && v.role.Allows(role) }

// tell has the next page show a line. tone is good, bad, doubt or busy.
func (v *visit) tell(tone, text string) {
	v.server.cookies.Put(v.r.Context(), sessionNotice, text)
	v.server.cookies.Put(v.r.Context(), sessionTone, tone)
}

// redirect leads on after an action (RFC 9110, 15.4.4). Only paths of our own.
func (v *visit) redirect(path string) error {
	http.Redirect(v.w, v.r, localPath(path), http.StatusSeeOther)
	return nil
}

// localPath is the path if it stays on this host, else the home page.
func localPath(path string) string {
	u, err := url.Parse(path)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\r\n\t") {
		return "/"
	}
	return path
}
