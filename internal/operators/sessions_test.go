package operators

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// browser is somebody's browser: it keeps the token.
type browser struct {
	r     *rig
	m     *scs.SessionManager
	token string
}

func (r *rig) browser() *browser {
	m := r.sessions.Manager()
	m.IdleTimeout = time.Hour // every request commits
	return &browser{r: r, m: m}
}

// begin is the first half of a request.
func (b *browser) begin() context.Context {
	return must[context.Context](b.r.t)(b.m.Load(b.r.ctx, b.token))
}

// end is the second half.
func (b *browser) end(ctx context.Context) {
	b.r.t.Helper()
	if b.m.Status(ctx) == scs.Destroyed {
		b.token = ""
		return
	}
	token, _, err := b.m.Commit(ctx)
	if err != nil {
		b.r.t.Fatal(err)
	}
	b.token = token
}

// enter signs in.
func (b *browser) enter(o Operator) *browser {
	b.r.t.Helper()
	if err := b.tryEnter(o); err != nil {
		b.r.t.Fatal(err)
	}
	return b
}

func (b *browser) tryEnter(o Operator) error {
	ctx, err := b.m.Load(b.r.ctx, b.token)
	if err != nil {
		return err
	}
	if err := b.r.sessions.Start(ctx, b.m, o, "192.0.2.1", "browser"); err != nil {
		return err
	}
	b.token, _, err = b.m.Commit(ctx)
	return err
}

func (b *browser) access() (Access, error) { return b.r.sessions.Authorize(b.r.ctx, b.token, tenant) }

// out checks that the token opens nothing any more.
func (b *browser) out(what string, token string) {
	b.r.t.Helper()
	if a, err := b.r.sessions.Authorize(b.r.ctx, token, tenant); !errors.Is(err, ErrSignedOut) || a.Role != "" {
		b.r.t.Errorf("%s: Authorize = %+v, %v", what, a, err)
	}
	if _, found, err := b.r.sessions.Find(hashToken(token)); found || err != nil {
		b.r.t.Errorf("%s: Find = %v, %v", what, found, err)
	}
}

func TestSession(t *testing.T) {
	r := newRig(t)
	ann := r.add("ann", RoleOperator)
	must[Operator](t)(r.SetRole(r.ctx, root, ann.ID, "acme", RoleViewer))
	b := r.browser().enter(ann)
	a := must[Access](t)(b.access())
	if a.Role != RoleOperator || a.Tenant != tenant || a.Operator.Name != "ann" || len(a.Operator.Roles) != 2 {
		t.Errorf("Authorize = %+v", a)
	}
	if first := must[Access](t)(r.sessions.Authorize(r.ctx, b.token, "")); first.Tenant != "acme" || first.Role != RoleViewer {
		t.Errorf("Authorize without a tenant = %+v", first)
	}
	if other, err := r.sessions.Authorize(r.ctx, b.token, "other"); !errors.Is(err, ErrNoRole) || other.Role != "" || other.Operator.ID != ann.ID {
		t.Errorf("Authorize in another tenant = %+v, %v", other, err)
	}
	list := must[[]Session](t)(r.sessions.List(r.ctx, ann.ID))
	if len(list) != 1 || list[0].ID != a.Session || list[0].Address != "192.0.2.1" || list[0].UserAgent != "browser" || !list[0].ExpiresAt.After(list[0].CreatedAt) {
		t.Errorf("List = %+v", list)
	}
	b.out("no token", "")
	b.out("another token", b.token+"x")
	b.out("the hash as a token", hashToken(b.token))
}

// A session that is under way when it ends does not come back with its commit.
func TestWhatEndsASession(t *testing.T) {
	r := newRig(t)
	for what, end := range map[string]func(r *rig, b *browser, o Operator) error{
		"Revoke": func(r *rig, b *browser, o Operator) error {
			return r.sessions.Revoke(r.ctx, o.ID, must[Access](r.t)(b.access()).Session)
		},
		"RevokeAll": func(r *rig, _ *browser, o Operator) error {
			_, err := r.sessions.RevokeAll(r.ctx, o.ID, uuid.Nil)
			return err
		},
		"EndSessions": func(r *rig, _ *browser, o Operator) error { _, err := r.EndSessions(r.ctx, root, o.ID); return err },
		"another password": func(r *rig, _ *browser, o Operator) error {
			_, err := r.SetPassword(r.ctx, root, o.ID, "another password")
			return err
		},
		"signing out": func(r *rig, b *browser, _ Operator) error { return b.m.Destroy(b.begin()) },
		"disabled": func(r *rig, _ *browser, o Operator) error {
			_, err := r.Disable(r.ctx, root, o.ID)
			_, again := r.Enable(r.ctx, root, o.ID)
			return errors.Join(err, again)
		},
	} {
		t.Run(what, func(t *testing.T) {
			ann := r.add(strings.ReplaceAll(what, " ", "."), RoleViewer)
			b := r.browser().enter(ann)
			underWay := b.begin()
			if err := end(r, b, ann); err != nil {
				t.Fatal(err)
			}
			b.out("at once", b.token)
			b.m.Put(underWay, "note", "typed meanwhile")
			b.end(underWay)
			b.out("after a request that was under way", b.token)
			if list := must[[]Session](t)(r.sessions.List(r.ctx, ann.ID)); len(list) != 0 {
				t.Errorf("List = %+v", list)
			}
		})
	}
}

func TestExpiryAndRole(t *testing.T) {
	r := newRig(t)
	ann := r.add("ann", RoleViewer)
	b := r.browser().enter(ann)
	must[Operator](t)(r.SetRole(r.ctx, root, ann.ID, tenant, RoleOperator))
	if a := must[Access](t)(b.access()); a.Role != RoleOperator {
		t.Errorf("with another role: %+v", a)
	}
	must[Operator](t)(r.RemoveRole(r.ctx, root, ann.ID, tenant))
	if a, err := b.access(); !errors.Is(err, ErrNoRole) || a.Role != "" {
		t.Errorf("without a role: %+v, %v", a, err)
	}
	r.exec(`UPDATE operator_sessions SET expires_at = now()`)
	b.out("expired", b.token)
}

// A token from before the sign-in, or from before it was renewed, opens nothing.
func TestRenewedToken(t *testing.T) {
	r := newRig(t)
	ann := r.add("ann", RoleViewer)
	b := r.browser()
	b.token = "planted"
	b.enter(ann)
	first := b.token
	if first == "planted" {
		t.Error("a planted token was taken")
	}
	b.enter(ann)
	if b.token == first {
		t.Error("the token was not renewed")
	}
	b.out("the token before", first)
	must[Access](t)(b.access())
	if list := must[[]Session](t)(r.sessions.List(r.ctx, ann.ID)); len(list) != 1 {
		t.Errorf("List = %+v", list)
	}
}

// Who changes their own password goes on; all others are out.
func TestOwnPasswordKeepsThisSession(t *testing.T) {
	r := newRig(t)
	ann := r.add("ann", RoleViewer)
	here, there := r.browser().enter(ann), r.browser().enter(ann)
	here.enter(must[Operator](t)(r.SetPassword(r.ctx, as(ann), ann.ID, "another password")))
	must[Access](t)(here.access())
	there.out("elsewhere", there.token)
}

// A sign-in with the old password, at the same time as it changes, leaves no session.
func TestSetPasswordAgainstSignIn(t *testing.T) {
	r := newRig(t)
	ann := r.add("ann", RoleViewer)
	signedIn := must[Operator](t)(r.SignIn(r.ctx, "ann", password, ""))
	must[Operator](t)(r.SetPassword(r.ctx, root, ann.ID, "another password"))
	late := r.browser().enter(signedIn)
	late.out("begun with the old password", late.token)

	must[Operator](t)(r.SetPassword(r.ctx, root, ann.ID, password))
	browsers := make([]*browser, 4)
	for i := range browsers {
		browsers[i] = r.browser()
	}
	for _, err := range atOnce(len(browsers)+1, func(i int) error {
		if i == len(browsers) {
			_, err := r.SetPassword(r.ctx, root, ann.ID, "another password")
			return err
		}
		o, err := r.SignIn(r.ctx, "ann", password, "")
		if err != nil {
			return err
		}
		return browsers[i].tryEnter(o)
	}) {
		if err != nil && !errors.Is(err, ErrSignIn) {
			t.Error(err)
		}
	}
	if list := must[[]Session](t)(r.sessions.List(r.ctx, ann.ID)); len(list) != 0 {
		t.Errorf("sessions of the old password: %+v", list)
	}
}

func TestRevokeOthersOnly(t *testing.T) {
	r := newRig(t)
	ann, bob := r.add("ann", RoleViewer), r.add("bob", RoleViewer)
	here, there, bobs := r.browser().enter(ann), r.browser().enter(ann), r.browser().enter(bob)
	session := must[Access](t)(here.access()).Session
	if err := r.sessions.Revoke(r.ctx, ann.ID, must[Access](t)(bobs.access()).Session); !errors.Is(err, ErrUnknown) {
		t.Errorf("Revoke of another's session: %v", err)
	}
	if n := must[int](t)(r.sessions.RevokeAll(r.ctx, ann.ID, session)); n != 1 {
		t.Errorf("RevokeAll = %d", n)
	}
	must[Access](t)(here.access())
	must[Access](t)(bobs.access())
	there.out("revoked", there.token)
}

// A session that only goes on is written once a minute at most.
func TestWritesOnceAMinute(t *testing.T) {
	r := newRig(t)
	b := r.browser().enter(r.add("ann", RoleViewer))
	version := func() (v string) {
		if err := r.pool.QueryRow(r.ctx, `SELECT xmin || ' ' || xmax || ' ' || ctid FROM operator_sessions`).Scan(&v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	before := version()
	for range 3 {
		b.end(b.begin())
		must[Access](t)(b.access())
	}
	if version() != before {
		t.Errorf("the row was touched without need: %s, then %s", before, version())
	}
	r.exec(`UPDATE operator_sessions SET last_seen_at = now() - interval '2 minutes', expires_at = expires_at - interval '2 minutes'`)
	shown := must[[]Session](t)(r.sessions.List(r.ctx, must[Access](t)(b.access()).Operator.ID))[0]
	b.end(b.begin())
	var expires time.Time
	var fresh bool
	if err := r.pool.QueryRow(r.ctx, `SELECT expires_at, last_seen_at > now() - interval '1 minute' FROM operator_sessions`).Scan(&expires, &fresh); err != nil {
		t.Fatal(err)
	}
	if !fresh || !expires.After(shown.ExpiresAt.Add(time.Minute)) {
		t.Errorf("after two minutes: seen %v, expires %s after %s", fresh, expires, shown.ExpiresAt)
	}
	ctx := b.begin()
	b.m.Put(ctx, "note", "saved")
	b.end(ctx)
	if got := b.m.GetString(b.begin(), "note"); got != "saved" {
		t.Errorf("what was put is %q", got)
	}
}

func TestOldSessionsAreClearedAway(t *testing.T) {
	r := newRig(t)
	ann := r.add("ann", RoleViewer)
	r.exec(`INSERT INTO operator_sessions (token, operator_id, epoch, created_at, last_seen_at, address, user_agent, expires_at, data)
		SELECT n, $1, 1, now(), now(), '', '', now() - interval '61 minutes', '' FROM generate_series(1, $2::int) n`, ann.ID, sessionBatch+5)
	r.browser().enter(ann)
	r.browser().enter(ann)
	var left int
	if err := r.pool.QueryRow(r.ctx, `SELECT count(*) FROM operator_sessions`).Scan(&left); err != nil || left != 2 {
		t.Errorf("%d rows are left, %v; want the two that were begun", left, err)
	}
}

func TestSessionsOfNobody(t *testing.T) {
	r := newRig(t)
	b := r.browser()
	ctx := b.begin()
	b.m.Put(ctx, "note", "x")
	if _, _, err := b.m.Commit(ctx); !errors.Is(err, ErrNoOperator) {
		t.Errorf("Commit of nobody's session: %v", err)
	}
	ann := r.add("ann", RoleViewer)
	ctx = b.begin()
	hostile := strings.Repeat("\xffé\x00", 400)
	if err := r.sessions.Start(ctx, b.m, ann, hostile, hostile); err != nil {
		t.Fatal(err)
	}
	b.end(ctx)
	must[Access](t)(b.access())
	b.m.Put(ctx, "number", 1)
	if _, _, err := b.m.Commit(ctx); err == nil || !strings.Contains(err.Error(), "number is a int") {
		t.Errorf("Commit of a number: %v", err)
	}
}

// dump is every row of every table as text.
func (r *rig) dump() string {
	r.t.Helper()
	rows, _ := r.pool.Query(r.ctx, `SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname = 'public'`)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		r.t.Fatal(err)
	}
	var all bytes.Buffer
	for _, table := range tables {
		rows, _ := r.pool.Query(r.ctx, `SELECT x::text FROM `+table+` x`)
		texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			r.t.Fatal(err)
		}
		fmt.Fprintln(&all, table, texts)
	}
	return all.String()
}

// Whoever reads the database cannot sign in with what they find.
func TestTheDatabaseHoldsNoSecret(t *testing.T) {
	r := newRig(t)
	ann := r.add("ann", RoleViewer)
	used, unused := must[string](t)(r.CreateLink(r.ctx, root, ann.ID, time.Hour)), must[string](t)(r.CreateLink(r.ctx, root, ann.ID, time.Hour))
	must[Operator](t)(r.UseLink(r.ctx, used))
	_ = r.fail("a password typed as the name", "192.0.2.1")
	b := r.browser().enter(must[Operator](t)(r.SignIn(r.ctx, "ann", password, "192.0.2.1")))
	b.end(b.begin())
	all := r.dump()
	if !strings.Contains(all, hex.EncodeToString([]byte(ann.ID.String()))) || !strings.Contains(all, "argon2id") {
		t.Fatal("the dump has not what it should have")
	}
	for what, secret := range map[string]string{
		"password": password, "wrong password": "not the password", "password as a name": "a password typed as the name",
		"session's token": b.token, "used link": used, "unused link": unused,
	} {
		if strings.Contains(all, secret) || strings.Contains(all, hex.EncodeToString([]byte(secret))) {
			t.Errorf("the %s stands in the database", what)
		}
	}
}
