package operators

import (
	"context"
	"testing"

	"github.com/alexedwards/argon2id"
	"github.com/jackc/pgx/v5/pgxpool"

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

func TestSignInAndSession(t *testing.T) {
	r := newRig(t)
	made := r.add("ann", RoleOperator)
	o, err := r.SignIn(r.ctx, "Ann", password, "192.0.2.1")
	if err != nil || o.ID != made.ID || o.Role(tenant) != RoleOperator {
		t.Fatalf("SignIn = %+v, %v", o, err)
	}
	m := r.sessions.Manager()
	ctx, err := m.Load(r.ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.sessions.Start(ctx, m, o, "192.0.2.1", "browser"); err != nil {
		t.Fatal(err)
	}
	token, _, err := m.Commit(ctx)
	if err != nil {
		t.Fatal(err)
	}
	a, err := r.sessions.Authorize(r.ctx, token, tenant)
	if err != nil || a.Role != RoleOperator || a.Operator.Name != "ann" {
		t.Fatalf("Authorize = %+v, %v", a, err)
	}
	list, err := r.sessions.List(r.ctx, o.ID)
	if err != nil || len(list) != 1 || list[0].ID != a.Session || list[0].Address != "192.0.2.1" || list[0].UserAgent != "browser" {
		t.Errorf("List = %+v, %v", list, err)
	}
}
