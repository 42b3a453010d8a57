package web_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"executor/internal/audit"
	"executor/internal/operators"
	"executor/internal/postgres"
)

// recorded counts the entries of an action in the audit of a tenant.
func (s *site) recorded(t testing.TB, tenant, action string) int {
	t.Helper()
	list, _, err := audit.List(t.Context(), s.pool, audit.Filter{Tenant: tenant, Action: action})
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestKeysAreMadeShownOnceAndRevoked(t *testing.T) {
	s := newSite(t)
	ada := s.as(t, "ada")
	ada.post("/keys", "name", "shop", "scope", "commands:write").has(t, "Say why", `value="shop"`)
	ada.post("/keys", "name", "shop", "reason", "the web shop").has(t, "needs a scope")
	p := ada.post("/keys", "name", "shop", "scope", "commands:write", "reason", "the web shop")
	secret := regexp.MustCompile(`exk_[A-Za-z0-9]{43}`).FindString(p.body)
	if secret == "" {
		t.Fatalf("no key is shown:\n%s", p.body)
	}
	key, err := s.keys.Authenticate(t.Context(), secret)
	if err != nil || key.Name != "shop" {
		t.Fatalf("the key is %+v, %v", key, err)
	}
	ada.get("/keys").lacks(t, secret)
	var kept int
	if err := s.pool.QueryRow(t.Context(), `SELECT count(*) FROM operator_sessions WHERE position(convert_to($1, 'UTF8') IN data) > 0`, secret).Scan(&kept); err != nil || kept != 0 {
		t.Errorf("the key is kept in %d sessions, %v", kept, err)
	}
	ada.get("/keys/"+key.ID.String()+"/revoke").has(t, "every request with it is refused")
	ada.post("/keys/"+key.ID.String()+"/revoke").has(t, "Say why")
	ada.post("/keys/"+key.ID.String()+"/revoke", "reason", "leaked").has(t, "is revoked", "1 revoked key")
	if p := ada.post("/keys/"+key.ID.String()+"/revoke", "reason", "leaked"); p.status != http.StatusNotFound {
		t.Errorf("a second revocation answers %d", p.status)
	}
	if made, ended := s.recorded(t, tenant, audit.ActionKeyCreate), s.recorded(t, tenant, audit.ActionKeyRevoke); made != 1 || ended != 1 {
		t.Errorf("%d creations and %d revocations are on record", made, ended)
	}
	ada.get("/audit?action=key.revoke").has(t, "leaked", "key.revoke")
}

func TestOperatorsAreInvitedChangedAndDisabled(t *testing.T) {
	s := newSite(t)
	ada := s.as(t, "ada")
	p := ada.post("/operators", "name", "nora", "role", "viewer", "reason", "night shift")
	link := regexp.MustCompile(`/sign-in/link\?token=[A-Z0-9]+`).FindString(p.body)
	if link == "" {
		t.Fatalf("no link is shown:\n%s", p.body)
	}
	nora := s.visitor(t)
	nora.get(link).has(t, "signs you in once")
	token := strings.TrimPrefix(link, "/sign-in/link?token=")
	nora.post("/sign-in/link", "token", token).has(t, ">nora</a>")
	if p := s.visitor(t).post("/sign-in/link", "token", token); p.status != http.StatusUnauthorized {
		t.Errorf("a used link answers %d", p.status)
	}
	if p := nora.get("/keys"); p.status != http.StatusForbidden {
		t.Errorf("a viewer sees the keys: %d", p.status)
	}
	o, err := s.operators.ByName(t.Context(), "nora")
	if err != nil {
		t.Fatal(err)
	}
	ada.post("/operators/"+o.ID.String()+"/role", "role", "admin", "reason", "promoted").has(t, "nora has the new role")
	if p := nora.get("/keys"); p.status != http.StatusOK {
		t.Errorf("a new role does not hold at once: %d", p.status)
	}
	ada.post("/operators/"+o.ID.String()+"/disable", "reason", "left").has(t, "nora is disabled")
	if p := nora.get("/"); p.path != "/sign-in" {
		t.Errorf("a disabled operator sees %s", p.path)
	}
	if n := s.recorded(t, tenant, audit.ActionOperatorDisable); n != 1 {
		t.Errorf("%d disablings are on record", n)
	}
}

func TestTheLastAdminStays(t *testing.T) {
	s := newSite(t)
	ada := s.as(t, "ada")
	me, err := s.operators.ByName(t.Context(), "ada")
	if err != nil {
		t.Fatal(err)
	}
	for _, deed := range []string{"disable", "remove"} {
		if p := ada.post("/operators/"+me.ID.String()+"/"+deed, "reason", "oops"); p.status != http.StatusConflict {
			t.Errorf("%s of the last admin answers %d", deed, p.status)
		}
	}
	if p := ada.post("/operators/"+me.ID.String()+"/role", "role", "viewer", "reason", "oops"); p.status != http.StatusConflict {
		t.Errorf("the last admin can become a viewer: %d", p.status)
	}
}

func TestNobodyTouchesOperatorsOfOtherTenants(t *testing.T) {
	s := newSite(t)
	other := s.addOperator(t, "olga", "other", operators.RoleAdmin)
	ada := s.as(t, "ada")
	for _, deed := range []string{"remove", "disable", "enable", "link", "end-sessions", "role"} {
		if p := ada.post("/operators/"+other.ID.String()+"/"+deed, "reason", "mine", "role", "viewer"); p.status != http.StatusNotFound {
			t.Errorf("%s of another tenant's operator answers %d", deed, p.status)
		}
	}
	ada.get("/operators").lacks(t, "olga")
}

func TestSessionsAreListedAndEnded(t *testing.T) {
	s := newSite(t)
	here, there := s.as(t, "otto"), s.as(t, "otto")
	p := here.get("/account")
	p.has(t, "this one", "End all the others")
	here.post("/account/sessions/end-others").has(t, "1 other session has ended")
	if p := there.get("/"); p.path != "/sign-in" {
		t.Errorf("an ended session sees %s", p.path)
	}
	id := regexp.MustCompile(`/account/sessions/([0-9a-f-]{36})/end`).FindStringSubmatch(p.body)
	ada := s.as(t, "ada")
	ada.post("/account/sessions/"+id[1]+"/end").has(t, "had ended already")
	here.post("/account/password", "old", "wrong", "new", "another long one", "again", "another long one").has(t, "is another one")
	here.post("/account/password", "old", password, "new", "short", "again", "short").has(t, "12")
	again := s.as(t, "otto")
	here.post("/account/password", "old", password, "new", "another long one", "again", "another long one").has(t, "The password is changed")
	if p := again.get("/"); p.path != "/sign-in" {
		t.Errorf("a session of the old password sees %s", p.path)
	}
	here.get("/account").has(t, "this one")
}

func TestFreezeAndResume(t *testing.T) {
	s := newSite(t)
	ada := s.as(t, "ada")
	ada.get("/deployment/freeze").has(t, "Within seconds no process sends")
	ada.post("/deployment/freeze").has(t, "Say why")
	ada.post("/deployment/freeze", "reason", "the upstream is on fire").has(t, "Frozen: nothing is sent", "the upstream is on fire")
	s.as(t, "vera").get("/").has(t, "Nothing is sent until somebody")
	for cause, want := range map[error]int{
		fmt.Errorf("%w: fsync is off", postgres.ErrNotDurable): http.StatusConflict, // whoever sees that can mend it
		errors.New("no route to db-7.internal"):                http.StatusInternalServerError,
	} {
		s.deployment.Demand(func(context.Context, *pgxpool.Pool) error { return cause })
		p := ada.post("/deployment/resume", "reason", "out")
		if p.status != want || strings.Contains(p.body, "fsync is off") != (want == http.StatusConflict) || strings.Contains(p.body, "db-7") {
			t.Errorf("while %v: %d %s", cause, p.status, p.body)
		}
	}
	s.deployment.Demand(func(context.Context, *pgxpool.Pool) error { return nil })
	ada.post("/deployment/resume", "reason", "out").has(t, "What is due is sent")
	if n := s.recorded(t, audit.Deployment, audit.ActionDeploymentFreeze); n != 1 {
		t.Errorf("%d freezes are on record", n)
	}
}

// TestOneTenantsAdminFreezesNobodyElse: what is done to the deployment is done to
// every tenant.
func TestOneTenantsAdminFreezesNobodyElse(t *testing.T) {
	s := newSite(t)
	s.addOperator(t, "olga", "other", operators.RoleAdmin)
	olga := s.as(t, "olga")
	if p := olga.post("/deployment/freeze", "reason", "mine"); p.status != http.StatusForbidden {
		t.Errorf("another tenant's admin freezes: %d", p.status)
	}
	olga.get("/deployment").lacks(t, "Freeze…")
}

func TestAuditFilters(t *testing.T) {
	s := newSite(t)
	vera := s.as(t, "vera")
	vera.get("/audit").has(t, "operator.create", "profile.apply")
	vera.get("/audit?action=profile.apply").lacks(t, "<code>operator.create</code>")
	vera.get("/audit?actor=nobody").has(t, "Nothing of that kind")
	vera.get("/audit?after=2999-01-01T00:00").has(t, "Nothing of that kind")
	for _, bad := range []string{"/audit?command=x", "/audit?after=yesterday"} {
		if p := vera.get(bad); p.status != http.StatusBadRequest {
			t.Errorf("%s answers %d", bad, p.status)
		}
	}
	export := vera.get("/audit.csv?action=profile.apply")
	export.has(t, "number,at,actor,action", "profile.apply,,ledger")
	export.lacks(t, "operator.create")
	s.addOperator(t, "olga", "other", operators.RoleViewer)
	s.as(t, "olga").get("/audit").lacks(t, "profile.apply</code>")
	s.as(t, "olga").get("/audit.csv").lacks(t, "profile.apply")
}

// TestAFormActsInTheTenantThatItsPageShowed: somebody with two tenants turns to the
// other one in a second tab, and sends the form of the first.
func TestAFormActsInTheTenantThatItsPageShowed(t *testing.T) {
	s := newSite(t)
	both := s.addOperator(t, "bo", tenant, operators.RoleAdmin)
	if _, err := s.operators.SetRole(t.Context(), operators.By{Actor: "test"}, both.ID, "other", operators.RoleAdmin); err != nil {
		t.Fatal(err)
	}
	bo := s.as(t, "bo")
	here := bo.get("/keys")
	here.has(t, `method="post" action="/keys?for=default"`, `action="/sign-out?for=default"`)
	bo.post("/account/tenant", "tenant", "other").has(t, "of <bdi>other</bdi>")
	for _, path := range []string{"/keys?for=default", "/keys"} {
		if p := bo.post(path, "name", "shop", "scope", "admin", "reason", "r"); p.status != http.StatusConflict {
			t.Errorf("%s answers %d", path, p.status)
		}
	}
	bo.post("/keys?for=other", "name", "shop", "scope", "admin", "reason", "r").has(t, "The key shop is made")
	if mine, err := s.keys.List(t.Context(), tenant); err != nil || len(mine) != 0 {
		t.Errorf("the tenant of the first page has %d keys, %v", len(mine), err)
	}
}

// TestAFormOfALostTenantActsNowhere: the role in the tenant of the page is taken away
// while its form is open. What was meant for that tenant is not done to the one that
// is left.
func TestAFormOfALostTenantActsNowhere(t *testing.T) {
	s := newSite(t)
	by := operators.By{Actor: "test"}
	both := s.addOperator(t, "bo", tenant, operators.RoleAdmin)
	s.addOperator(t, "olga", "other", operators.RoleAdmin)
	if _, err := s.operators.SetRole(t.Context(), by, both.ID, "other", operators.RoleAdmin); err != nil {
		t.Fatal(err)
	}
	bo := s.as(t, "bo")
	bo.post("/account/tenant", "tenant", "other").has(t, "of <bdi>other</bdi>")
	bo.get("/keys").has(t, `action="/keys?for=other"`)
	if _, err := s.operators.RemoveRole(t.Context(), by, both.ID, "other"); err != nil {
		t.Fatal(err)
	}
	if p := bo.post("/keys?for=other", "name", "shop", "scope", "admin", "reason", "r"); p.status != http.StatusConflict {
		t.Errorf("a form of the lost tenant answers %d", p.status)
	}
	for _, name := range []string{tenant, "other"} {
		if list, err := s.keys.List(t.Context(), name); err != nil || len(list) != 0 {
			t.Errorf("%s has %d keys, %v", name, len(list), err)
		}
	}
}

// TestARoleIsTakenWhileAFormIsOpen: rights are those of the moment at which the form
// arrives.
func TestARoleIsTakenWhileAFormIsOpen(t *testing.T) {
	s := newSite(t)
	otto := s.as(t, "otto")
	o, err := s.operators.ByName(t.Context(), "otto")
	if err != nil {
		t.Fatal(err)
	}
	otto.get("/upstreams/ledger/pause").has(t, `action="/upstreams/ledger/pause"`)
	if _, err := s.operators.SetRole(t.Context(), operators.By{Actor: "test"}, o.ID, tenant, operators.RoleViewer); err != nil {
		t.Fatal(err)
	}
	if p := otto.post("/upstreams/ledger/pause", "reason", "r", "seen", ""); p.status != http.StatusForbidden {
		t.Errorf("a viewer's form answers %d", p.status)
	}
	if u, err := s.ups.Get(t.Context(), tenant, "ledger"); err != nil || u.PausedAt != nil {
		t.Errorf("the upstream is paused at %v, %v", u.PausedAt, err)
	}
}

// TestEveryFormIsBound: no form that acts is written in a way that is overlooked.
func TestEveryFormIsBound(t *testing.T) {
	files, err := filepath.Glob("*.html")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d templates, %v", len(files), err)
	}
	forms := regexp.MustCompile(`<form\b[^>]*`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, form := range forms.FindAllString(string(text), -1) {
			if strings.Contains(form, "post") && !regexp.MustCompile(`method="post" action="[^?"]+"`).MatchString(form) {
				t.Errorf("%s: %s> needs its method before its action, and no query in it", file, form)
			}
		}
	}
}
