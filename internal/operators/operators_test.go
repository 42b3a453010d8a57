package operators

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/alexedwards/argon2id"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/internal/audit"
	"executor/internal/testkit"
)

const (
	tenant   = "default"
	password = "correct horse battery"
)

// cheap are parameters that cost tests nothing.
func cheap() *argon2id.Params {
	return &argon2id.Params{Memory: 8, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32}
}

// root is whoever has the database.
var root = By{Actor: "root"}

// rig is a store on a database of the test's own.
type rig struct {
	*Store
	sessions *Sessions
	pool     *pgxpool.Pool
	t        testing.TB
	ctx      context.Context
}

func newRig(t testing.TB) *rig {
	t.Helper()
	pool := testkit.Database(t)
	store, err := NewStore(Config{Pool: pool, Hash: cheap()})
	if err != nil {
		t.Fatal(err)
	}
	return &rig{store, NewSessions(pool), pool, t, t.Context()}
}

// add creates an operator with the password of all tests.
func (r *rig) add(name string, role Role) Operator {
	r.t.Helper()
	o, err := r.Create(r.ctx, root, New{Name: name, Password: password, Tenant: tenant, Role: role})
	if err != nil {
		r.t.Fatal(err)
	}
	return o
}

// as is By of an operator.
func as(o Operator) By { return By{Actor: o.Name, Operator: o.ID} }

// exec runs a statement on the database itself.
func (r *rig) exec(sql string, args ...any) {
	r.t.Helper()
	if _, err := r.pool.Exec(r.ctx, sql, args...); err != nil {
		r.t.Fatalf("%s: %v", sql, err)
	}
}

// must fails the test on an error.
func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// atOnce runs a function several times at once and gives the errors.
func atOnce(n int, do func(i int) error) []error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = do(i) })
	}
	wg.Wait()
	return errs
}

// countErrors tells how many of the errors are like this one; nil counts successes.
func countErrors(errs []error, like error) int {
	n := 0
	for _, err := range errs {
		if errors.Is(err, like) {
			n++
		}
	}
	return n
}

func TestRoleAllows(t *testing.T) {
	for i, has := range append([]Role{""}, Roles()...) {
		for j, needed := range Roles() {
			if got, want := has.Allows(needed), i >= j+1; got != want {
				t.Errorf("%q allows %q = %v, want %v", has, needed, got, want)
			}
		}
		if has.Allows("") || has.Allows("root") {
			t.Errorf("%q allows what is no role", has)
		}
	}
	for _, bad := range []string{"", "none", "Admin"} {
		if _, err := ParseRole(bad); err == nil {
			t.Errorf("ParseRole(%q) passes", bad)
		}
	}
}

func TestCreateAndRead(t *testing.T) {
	r := newRig(t)
	made := must[Operator](t)(r.Create(r.ctx, root, New{Name: "Ann@example.com", Tenant: "acme", Role: RoleAdmin}))
	for what, read := range map[string]func() (Operator, error){
		"Get":    func() (Operator, error) { return r.Get(r.ctx, made.ID) },
		"ByName": func() (Operator, error) { return r.ByName(r.ctx, "ann@EXAMPLE.com") },
	} {
		if o, err := read(); err != nil || !cmp.Equal(o, made) {
			t.Errorf("%s = %+v, %v; want %+v", what, o, err, made)
		}
	}
	if made.HasPassword || made.Role("acme") != RoleAdmin || made.Role(tenant) != "" {
		t.Errorf("made %+v", made)
	}
	r.add("bob", RoleViewer)
	if list := must[[]Operator](t)(r.List(r.ctx, "acme")); len(list) != 1 || list[0].ID != made.ID {
		t.Errorf("List = %+v", list)
	}
	if _, err := r.Create(r.ctx, root, New{Name: "ann@example.com", Tenant: tenant, Role: RoleViewer}); !errors.Is(err, ErrExists) {
		t.Errorf("create ann again: %v", err)
	}
	if _, err := r.Get(r.ctx, uuid.New()); !errors.Is(err, ErrUnknown) {
		t.Errorf("Get of nobody: %v", err)
	}
	if _, err := r.ByName(r.ctx, "a\x00\xff"); !errors.Is(err, ErrUnknown) {
		t.Errorf("ByName of no text: %v", err)
	}
}

func TestWhatIsNeverAccepted(t *testing.T) {
	r := newRig(t)
	long := strings.Repeat("a", 101)
	for _, tt := range []struct {
		field string
		n     New
	}{
		{"name", New{Name: "", Tenant: tenant, Role: RoleViewer}},
		{"name", New{Name: "-x", Tenant: tenant, Role: RoleViewer}},
		{"name", New{Name: "a b", Tenant: tenant, Role: RoleViewer}},
		{"name", New{Name: "é", Tenant: tenant, Role: RoleViewer}},
		{"name", New{Name: long, Tenant: tenant, Role: RoleViewer}},
		{"tenant", New{Name: "a", Role: RoleViewer}},
		{"tenant", New{Name: "a", Tenant: "x\ny", Role: RoleViewer}},
		{"tenant", New{Name: "a", Tenant: long, Role: RoleViewer}},
		{"tenant", New{Name: "a", Tenant: audit.Deployment, Role: RoleViewer}},
		{"role", New{Name: "a", Tenant: tenant}},
		{"role", New{Name: "a", Tenant: tenant, Role: "root"}},
		{"password", New{Name: "a", Tenant: tenant, Role: RoleViewer, Password: "eleven char"}},
		{"password", New{Name: "a", Tenant: tenant, Role: RoleViewer, Password: strings.Repeat("x", MaxPassword+1)}},
		{"password", New{Name: "a", Tenant: tenant, Role: RoleViewer, Password: "not utf-8 \xff\xff\xff"}},
		{"password", New{Name: "Some.Body.Here", Tenant: tenant, Role: RoleViewer, Password: "some.body.here"}},
	} {
		_, err := r.Create(r.ctx, root, tt.n)
		var wrong *Invalid
		if !errors.As(err, &wrong) || wrong.Field != tt.field {
			t.Errorf("Create(%+v): %v, want %s refused", tt.n, err, tt.field)
		}
		if tt.field == "password" && strings.Contains(err.Error(), tt.n.Password) {
			t.Errorf("the error repeats the password: %v", err)
		}
	}
	for _, fits := range []string{"twelve chars", strings.Repeat("é", 12), strings.Repeat("x", MaxPassword), "  spaces  all  "} {
		if err := CheckPassword("a", fits); err != nil {
			t.Errorf("%q: %v", fits, err)
		}
	}
	if _, err := NewStore(Config{Pool: r.pool, Hash: &argon2id.Params{}}); err == nil {
		t.Error("a hash without parameters passes")
	}
}
