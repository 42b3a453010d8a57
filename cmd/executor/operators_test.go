package main

import (
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"executor/internal/audit"
	"executor/internal/operators"
	"executor/internal/testkit"
)

// peopleOf is the store of operators that a process would use.
func peopleOf(t *testing.T, pool *pgxpool.Pool) *operators.Store {
	t.Helper()
	store, err := operators.NewStore(operators.Config{Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// operatorsDatabase is a migrated database and the environment of whoever has it.
func operatorsDatabase(t *testing.T) (*pgxpool.Pool, map[string]string) {
	t.Helper()
	pool := testkit.Database(t)
	return pool, databaseEnv(pool.Config().ConnString())
}

func TestOperatorsComeIn(t *testing.T) {
	pool, env := operatorsDatabase(t)
	people := peopleOf(t, pool)

	r := execute(t, env, "operators", "add", "ann", "--role", "admin", "--output", "json").must(t, exitSuccess)
	ann := decode[admitted](t, r.stdout)
	if o, err := people.SignIn(t.Context(), "ann", ann.Password, ""); err != nil || o.Role(defaultTenant) != operators.RoleAdmin {
		t.Errorf("with the password that was made: %+v, %v", o, err)
	}
	if r.stderr != "" || ann.Link != "" {
		t.Errorf("stderr %q, link %q", r.stderr, ann.Link)
	}

	executeIn(t, env, "a password of my own\n", "operators", "add", "bob", "--role", "viewer", "--tenant", "acme", "--password-stdin").must(t, exitSuccess)
	if o, err := people.SignIn(t.Context(), "bob", "a password of my own", ""); err != nil || o.Role("acme") != operators.RoleViewer {
		t.Errorf("with the password from stdin: %+v, %v", o, err)
	}

	execute(t, env, "operators", "add", "eve", "--role", "operator", "--link", "--valid-for", "200h").must(t, exitUsage) // and she is not there
	r = execute(t, env, "operators", "add", "eve", "--role", "operator", "--link", "--url", "https://x.example.com/").must(t, exitSuccess)
	_, line, _ := strings.Cut(r.stdout, "https://x.example.com/sign-in/link?")
	query, _ := url.ParseQuery(strings.Fields(line)[0])
	if o, err := people.UseLink(t.Context(), query.Get("token")); err != nil || o.Name != "eve" || o.HasPassword {
		t.Errorf("by the link: %+v, %v", o, err)
	}
	if !strings.Contains(r.stderr, "Whoever has it is eve") {
		t.Errorf("stderr %q", r.stderr)
	}
}

func TestOperatorsAreChanged(t *testing.T) {
	pool, env := operatorsDatabase(t)
	people := peopleOf(t, pool)
	execute(t, env, "operators", "add", "ann", "--role", "admin").must(t, exitSuccess)
	execute(t, env, "operators", "add", "bob", "--role", "viewer").must(t, exitSuccess)

	r := execute(t, env, "operators", "role", "Bob", "operator", "--reason", "trained").must(t, exitSuccess)
	if !strings.Contains(r.stdout, "default:operator") {
		t.Errorf("role: %s", r.stdout)
	}
	r = execute(t, env, "operators", "role", "ann", "none").must(t, exitFailure)
	if !strings.Contains(r.stderr, "make somebody else an admin first") {
		t.Errorf("the last admin: %s", r.stderr)
	}
	execute(t, env, "operators", "disable", "ann").must(t, exitFailure)
	execute(t, env, "operators", "disable", "nobody").must(t, exitNotFound)
	execute(t, env, "operators", "disable", "bob").must(t, exitSuccess)
	execute(t, env, "operators", "link", "bob").must(t, exitUsage)
	execute(t, env, "operators", "enable", "bob").must(t, exitSuccess)
	executeIn(t, env, "short", "operators", "password", "bob", "--password-stdin").must(t, exitUsage)
	r = executeIn(t, env, "another password\r\n", "operators", "password", "bob", "--password-stdin").must(t, exitSuccess)
	if strings.Contains(r.stdout+r.stderr, "another password") {
		t.Errorf("a password that was given is shown: %s%s", r.stdout, r.stderr)
	}
	if _, err := people.SignIn(t.Context(), "bob", "another password", ""); err != nil {
		t.Error(err)
	}
	execute(t, env, "operators", "role", "bob", "none").must(t, exitSuccess)
	list := decode[struct{ Data []operatorView }](t, execute(t, env, "operators", "list", "--output", "json").must(t, exitSuccess).stdout)
	if len(list.Data) != 1 || list.Data[0].Name != "ann" || !list.Data[0].Password {
		t.Errorf("list: %+v", list)
	}
	execute(t, env, "operators", "add", "ANN", "--role", "viewer").must(t, exitFailure)

	entries, _, err := audit.List(t.Context(), pool, audit.Filter{Tenant: defaultTenant, Action: audit.ActionOperatorRole})
	if err != nil || len(entries) != 2 || entries[1].Actor != actor() || entries[1].Subject != "bob" || entries[1].Reason != "trained" ||
		string(entries[1].After) != `{"role":"operator"}` {
		t.Errorf("audit: %v, %v", entries, err)
	}
}

func TestOperatorsSessions(t *testing.T) {
	pool, env := operatorsDatabase(t)
	execute(t, env, "operators", "add", "ann", "--role", "admin").must(t, exitSuccess)
	ann, err := peopleOf(t, pool).ByName(t.Context(), "ann")
	if err != nil {
		t.Fatal(err)
	}
	sessions := operators.NewSessions(pool)
	m := sessions.Manager()
	ctx, err := m.Load(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := sessions.Start(ctx, m, ann, "192.0.2.7", "a browser"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if r := execute(t, env, "operators", "sessions", "ann").must(t, exitSuccess); !strings.Contains(r.stdout, "192.0.2.7  a browser") {
		t.Errorf("sessions: %s", r.stdout)
	}
	r := execute(t, env, "operators", "sessions", "ann", "--revoke", "--output", "json").must(t, exitSuccess)
	if left := decode[struct{ Data []sessionView }](t, r.stdout); len(left.Data) != 0 {
		t.Errorf("left after --revoke: %s", r.stdout)
	}
}
