package web

import (
	"errors"
	"net/http"
	"slices"

	"executor/internal/apikeys"
	"executor/internal/audit"
	"executor/internal/operators"
)

func keyRoutes() []route {
	return []route{
		{method: http.MethodGet, pattern: "/keys", role: operators.RoleAdmin, serve: (*Server).keysPage},
		{method: http.MethodPost, pattern: "/keys", role: operators.RoleAdmin, serve: (*Server).createKey},
		{method: http.MethodGet, pattern: "/keys/{id}/revoke", role: operators.RoleAdmin, serve: (*Server).askRevokeKey},
		{method: http.MethodPost, pattern: "/keys/{id}/revoke", role: operators.RoleAdmin, serve: (*Server).revokeKey},
	}
}

// keysView is the tenant's API keys and the form for one more.
type keysView struct {
	Live, Revoked []apikeys.Key
	Scopes        []apikeys.Scope
	Secret        string // of the key just made: shown this once
	// The form, as typed.
	Name, Reason, Wrong string
	Chosen              []string
}

func (s *Server) keysPage(v *visit) error {
	return s.showKeys(v, http.StatusOK, keysView{Secret: v.takeOnce("keys")})
}

func (s *Server) showKeys(v *visit, status int, view keysView) error {
	list, err := s.keys.List(v.r.Context(), v.tenant)
	if err != nil {
		return err
	}
	for _, key := range list {
		if key.RevokedAt == nil {
			view.Live = append(view.Live, key)
		} else {
			view.Revoked = append(view.Revoked, key)
		}
	}
	view.Scopes = apikeys.Scopes()
	return v.renderStatus(status, "keys.html", "API keys", view)
}

func (s *Server) createKey(v *visit) error {
	view := keysView{Name: v.form("name"), Reason: v.form("reason"), Chosen: v.r.PostForm["scope"]}
	if view.Wrong = wrongReason(view.Reason); view.Wrong != "" {
		return s.showKeys(v, http.StatusUnprocessableEntity, view)
	}
	_, secret, err := s.keys.Create(v.r.Context(), v.tenant, view.Name, view.Chosen, audit.By{Actor: v.actor(), Reason: view.Reason})
	var invalid *apikeys.Invalid
	if errors.Is(err, apikeys.ErrExists) || errors.As(err, &invalid) {
		view.Wrong = capital(err.Error()) + "."
		return s.showKeys(v, http.StatusUnprocessableEntity, view)
	}
	if err != nil {
		return err
	}
	if err := v.keepOnce("keys", secret); err != nil {
		return err
	}
	v.tell("good", "The key "+view.Name+" is made.")
	return v.redirect("/keys")
}

// revokeDeed is about a live key of the tenant.
func (s *Server) revokeDeed(v *visit) (deed, apikeys.Key, error) {
	list, err := s.keys.List(v.r.Context(), v.tenant)
	if err != nil {
		return deed{}, apikeys.Key{}, err
	}
	i := slices.IndexFunc(list, func(k apikeys.Key) bool { return k.ID.String() == v.param("id") && k.RevokedAt == nil })
	if i < 0 {
		return deed{}, apikeys.Key{}, notFound("This tenant has no live key of that id. It may have been revoked meanwhile.")
	}
	key := list[i]
	return deed{
		Title: "Revoke the key " + key.Name, Action: "/keys/" + key.ID.String() + "/revoke", Button: "Revoke the key", Danger: true, Back: "/keys",
		Facts: []fact{{"Name", key.Name}, {"Begins with", key.Prefix}},
		Says: []string{
			"Within seconds every request with it is refused, in every process. This cannot be undone; a new key can have the same name.",
			"Commands that were submitted with it go on.",
		},
	}, key, nil
}

func (s *Server) askRevokeKey(v *visit) error {
	d, _, err := s.revokeDeed(v)
	if err != nil {
		return err
	}
	return v.ask(d)
}

func (s *Server) revokeKey(v *visit) error {
	d, key, err := s.revokeDeed(v)
	if err != nil {
		return err
	}
	reason, ok, err := v.reason(d)
	if !ok {
		return err
	}
	if _, err := s.keys.Revoke(v.r.Context(), v.tenant, key.ID.String(), audit.By{Actor: v.actor(), Reason: reason}); err != nil && !errors.Is(err, apikeys.ErrUnknown) {
		return err
	}
	v.tell("good", "The key "+key.Name+" is revoked.")
	return v.redirect("/keys")
}
