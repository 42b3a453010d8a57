package web

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"executor/internal/audit"
	"executor/internal/operators"
	"executor/upstreams"
)

// newUpstreamPath is where a new upstream is made. No name of one is in its way:
// there may be one that is called "new".
const newUpstreamPath = "/upstreams/-/new"

func upstreamEditRoutes() []route {
	admin := func(method, pattern string, serve func(*Server, *visit) error) route {
		return route{method: method, pattern: pattern, role: operators.RoleAdmin, serve: serve}
	}
	return []route{
		admin(http.MethodGet, newUpstreamPath, (*Server).upstreamNew),
		admin(http.MethodPost, newUpstreamPath, (*Server).upstreamSave),
		admin(http.MethodGet, "/upstreams/{name}/edit", (*Server).upstreamEdit),
		admin(http.MethodPost, "/upstreams/{name}/edit", (*Server).upstreamSave),
	}
}

// profileForm makes a new version of a profile: first the text is checked and its
// consequences are shown, then exactly that text is applied.
type profileForm struct {
	Name     string // "" for a new upstream
	Tenant   string
	Base     int // the version that the text was made from; 0 for none
	Source   string
	Reason   string
	Problem  string
	Wrong    string // about the reason
	Problems []upstreams.Problem
	Checked  string // the mark of the text that was checked and can be applied; "" for none
	Upstream string // that the text is of
	Warnings []upstreams.Warning
	Diff     diff
	Theirs   *diff // what somebody else changed meanwhile
	Disguise bool  // the text has characters that the page shows by name
}

// Path is where the form goes.
func (f *profileForm) Path() string {
	if f.Name == "" {
		return newUpstreamPath
	}
	return "/upstreams/" + f.Name + "/edit"
}

// Next is the version that applying makes.
func (f *profileForm) Next() int { return f.Base + 1 }

func (s *Server) upstreamNew(v *visit) error {
	return s.showProfileForm(v, http.StatusOK, &profileForm{Source: starterProfile(v.tenant)})
}

// starterProfile is what a new profile begins with.
func starterProfile(tenant string) string {
	return `version: 1
upstream: my-upstream
tenant: ` + strconv.Quote(tenant) + `
base_url: https://api.example.com
operations:
  create_payment:
    method: POST
    path: /v1/payments
    body: json
    idempotency: {kind: none}
`
}

func (s *Server) upstreamEdit(v *visit) error {
	f := &profileForm{Name: v.param("name")}
	if err := s.rebase(v, f); err != nil {
		return err
	}
	var err error
	if f.Source, err = s.upstreams.Source(v.r.Context(), v.tenant, f.Name, f.Base); err != nil {
		return err
	}
	return s.showProfileForm(v, http.StatusOK, f)
}

// rebase makes the newest version the one that the text is compared with.
func (s *Server) rebase(v *visit, f *profileForm) error {
	versions, err := s.upstreams.Versions(v.r.Context(), v.tenant, f.Name)
	if err == nil {
		f.Base = versions[0].Version
	}
	return err
}

func (s *Server) showProfileForm(v *visit, status int, f *profileForm) error {
	f.Tenant, f.Disguise = v.tenant, string(inert([]byte(f.Source))) != f.Source
	title := "New upstream"
	if f.Name != "" {
		title = "Change the profile of " + f.Name
	}
	return v.renderStatus(status, "upstream_edit.html", title, f)
}

// upstreamSave checks a text or applies it.
func (s *Server) upstreamSave(v *visit) error {
	base, _ := strconv.Atoi(v.form("base")) // of a form without one: 0, which is never current where there is an upstream
	f := &profileForm{
		Name: v.param("name"), Base: base, Reason: v.form("reason"),
		Source: strings.ReplaceAll(v.r.PostFormValue("source"), "\r\n", "\n"), // as browsers send line ends
	}
	if err := s.known(v, f); err != nil {
		return err
	}
	profile, ok := f.check(v.tenant)
	if !ok {
		return s.showProfileForm(v, http.StatusUnprocessableEntity, f)
	}
	if v.form("do") == "apply" {
		return s.applyProfile(v, f, profile)
	}
	return s.offerProfile(v, http.StatusOK, f, profile)
}

// known refuses what is done to an upstream that is not there.
func (s *Server) known(v *visit, f *profileForm) error {
	if f.Name == "" {
		return nil
	}
	_, err := s.upstreams.Versions(v.r.Context(), v.tenant, f.Name)
	return err
}

// check reads the text; what is wrong with it stands in the form afterwards.
func (f *profileForm) check(tenant string) (*upstreams.Profile, bool) {
	profile, err := upstreams.Parse("profile", []byte(f.Source))
	var bad *upstreams.ParseError
	switch {
	case errors.As(err, &bad):
		f.Problem, f.Problems = "This is no valid profile. Nothing was applied.", bad.Problems
	case err != nil:
		f.Problem = "This could not be read. Nothing was applied."
	case f.Name != "" && profile.Upstream != f.Name:
		f.Problem = fmt.Sprintf("The text is of the upstream %q; this page is about %q. Nothing was applied.", profile.Upstream, f.Name)
	case profile.Tenant != tenant:
		f.Problem = fmt.Sprintf("The text is for the tenant %q; you are in %q. Write tenant: %s. Nothing was applied.", profile.Tenant, tenant, tenant)
	default:
		return profile, true
	}
	return nil, false
}

// markOf tells one text from another.
func markOf(base int, source string) string {
	sum := sha256.Sum256([]byte(strconv.Itoa(base) + "\x00" + source))
	return hex.EncodeToString(sum[:])
}

// offerProfile shows what applying a valid text would do. For a new upstream whose
// name is taken, that is a new version of the old one.
func (s *Server) offerProfile(v *visit, status int, f *profileForm, p *upstreams.Profile) error {
	if f.Name == "" {
		f.Name = p.Upstream
		switch err := s.rebase(v, f); {
		case errors.Is(err, upstreams.ErrNotFound):
			f.Name = ""
		case err != nil:
			return err
		default:
			f.Problem = "There is an upstream of this name already: this would be its next version. If you meant another, change the name in the text."
		}
	}
	f.Upstream, f.Warnings, f.Checked = p.Upstream, p.Warnings, markOf(f.Base, f.Source)
	if f.Base > 0 {
		was, err := s.upstreams.Source(v.r.Context(), v.tenant, f.Name, f.Base)
		if err != nil {
			return err
		}
		f.Diff = compareLines(was, f.Source)
	}
	return s.showProfileForm(v, status, f)
}

// applyProfile applies the text that was checked, over the version that it was
// checked against.
func (s *Server) applyProfile(v *visit, f *profileForm, p *upstreams.Profile) error {
	switch {
	case v.form("checked") != markOf(f.Base, f.Source):
		f.Problem = "The text changed after it was checked, so nothing was applied. This is what it would do now."
		return s.offerProfile(v, http.StatusConflict, f, p)
	case f.Reason == "":
		f.Wrong = "Say why: it is put on record under your name."
		return s.offerProfile(v, http.StatusUnprocessableEntity, f, p)
	case len(f.Reason) > maxReason:
		f.Wrong = "Keep it below 2,000 characters."
		return s.offerProfile(v, http.StatusUnprocessableEntity, f, p)
	}
	u, changed, err := s.upstreams.ApplyOver(v.r.Context(), p, f.Base, audit.By{Actor: v.actor(), Reason: f.Reason})
	var elsewhere *upstreams.CredentialError
	switch {
	case errors.Is(err, upstreams.ErrStale):
		return s.staleProfile(v, f, p)
	case errors.As(err, &elsewhere):
		f.Problem, f.Problems = "A credential would go where it was not meant to. Nothing was applied.", elsewhere.Problems
		return s.showProfileForm(v, http.StatusUnprocessableEntity, f)
	case err != nil:
		return err
	case changed:
		v.tell("good", fmt.Sprintf("Version %d is applied: commands that are accepted from now on use it.", u.Version))
	default:
		v.tell("good", fmt.Sprintf("This is the newest version already, number %d. Nothing was changed.", u.Version))
	}
	return v.redirect("/upstreams/" + u.Name)
}

// staleProfile shows what somebody else applied meanwhile, and compares the text
// with that.
func (s *Server) staleProfile(v *visit, f *profileForm, p *upstreams.Profile) error {
	seen := f.Base
	f.Name = p.Upstream
	if err := s.rebase(v, f); err != nil {
		return err
	}
	f.Problem = fmt.Sprintf("Somebody applied version %d after you opened this page, and nothing of yours was applied. Your text is kept; below it is compared with theirs.", f.Base)
	if seen > 0 && seen < f.Base {
		theirs, err := s.compareVersions(v, f.Name, seen, f.Base)
		if err != nil {
			return err
		}
		f.Theirs = &theirs
	}
	return s.offerProfile(v, http.StatusConflict, f, p)
}
