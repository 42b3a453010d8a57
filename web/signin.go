package web

import (
	"errors"
	"fmt"
	"net/http"

	"executor/internal/operators"
)

func signInRoutes() []route {
	return []route{
		{method: http.MethodGet, pattern: "/sign-in", serve: (*Server).showSignIn},
		{method: http.MethodPost, pattern: "/sign-in", serve: (*Server).signIn},
		{method: http.MethodGet, pattern: "/sign-in/link", serve: (*Server).showLink},
		{method: http.MethodPost, pattern: "/sign-in/link", serve: (*Server).useLink},
		{method: http.MethodPost, pattern: "/sign-out", serve: (*Server).signOut},
	}
}

// signInPage is the form, with what was wrong about the last try.
type signInPage struct {
	To    string // where to go afterwards
	Name  string
	Wrong string
	Token string // of a link, instead of a password
}

func (s *Server) showSignIn(v *visit) error {
	if v.signedIn() {
		return v.redirect(localPath(v.query("to")))
	}
	return v.render("signin.html", "Sign in", signInPage{To: v.query("to")})
}

// signIn takes a name and a password. What is wrong with them is not told: a
// stranger learns neither which names there are nor which of them are disabled.
func (s *Server) signIn(v *visit) error {
	v.r.Body = http.MaxBytesReader(v.w, v.r.Body, maxForm)
	if err := v.parseForm(); err != nil {
		return err
	}
	name := v.form("name")
	operator, err := s.operators.SignIn(v.r.Context(), name, v.r.PostFormValue("password"), v.address())
	var wait *operators.WaitError
	switch {
	case errors.As(err, &wait):
		text := fmt.Sprintf("Too many tries. Wait %s, then try again.", duration(wait.Wait))
		return v.renderStatus(http.StatusTooManyRequests, "signin.html", "Sign in", signInPage{To: v.form("to"), Name: name, Wrong: text})
	case errors.Is(err, operators.ErrSignIn):
		text := "This name and password do not open the dashboard."
		return v.renderStatus(http.StatusUnauthorized, "signin.html", "Sign in", signInPage{To: v.form("to"), Name: name, Wrong: text})
	case err != nil:
		return err
	}
	return v.enter(operator, v.form("to"))
}

// enter begins a session.
func (v *visit) enter(operator operators.Operator, to string) error {
	ctx, cookies := v.r.Context(), v.server.cookies
	if err := cookies.Clear(ctx); err != nil {
		return err
	}
	if err := v.server.sessions.Start(ctx, cookies, operator, v.address(), v.r.UserAgent()); err != nil {
		return err
	}
	return v.redirect(to)
}

// showLink asks for a click: to follow the link alone changes nothing, since
// programs that look ahead follow links too.
func (s *Server) showLink(v *visit) error {
	return v.render("signin_link.html", "Sign in", signInPage{Token: v.query("token")})
}

func (s *Server) useLink(v *visit) error {
	v.r.Body = http.MaxBytesReader(v.w, v.r.Body, maxForm)
	if err := v.parseForm(); err != nil {
		return err
	}
	operator, err := s.operators.UseLink(v.r.Context(), v.form("token"))
	if errors.Is(err, operators.ErrLink) {
		return &failure{http.StatusUnauthorized, "This link is used up",
			"It signs in once and for a short time only. Make another one with \"executor operators link\"."}
	}
	if err != nil {
		return err
	}
	return v.enter(operator, "/")
}

func (s *Server) signOut(v *visit) error {
	if err := s.cookies.Destroy(v.r.Context()); err != nil {
		return err
	}
	return v.redirect("/sign-in")
}
