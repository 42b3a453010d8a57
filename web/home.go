package web

import (
	"net/http"

	"executor/internal/operators"
	"executor/reconcile"
)

func homeRoutes() []route {
	return []route{{method: http.MethodGet, pattern: "/", role: operators.RoleViewer, serve: (*Server).home}}
}

// homePage is what needs a person.
type homePage struct {
	Oldest []reconcile.ReviewItem // of those that wait for a person
}

// oldestShown is how many of those that wait for a person the home page names.
const oldestShown = 5

func (s *Server) home(v *visit) error {
	var (
		p   homePage
		err error
	)
	if p.Oldest, _, err = s.doubts.Reviews(v.r.Context(), reconcile.ReviewFilter{Tenant: v.tenant, Limit: oldestShown}); err != nil {
		return err
	}
	return v.render("home.html", "Home", p)
}
