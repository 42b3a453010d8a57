package operators

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alexedwards/argon2id"
	"github.com/jackc/pgx/v5"
)

// hashed tells how many passwords are hashed by do.
func (r *rig) hashed(do func()) int64 {
	before := r.hasher.done.Load()
	do()
	return r.hasher.done.Load() - before
}

// later lets time pass for failed sign-ins.
func (r *rig) later(d time.Duration) {
	r.t.Helper()
	r.exec(`UPDATE sign_in_failures SET at = at - make_interval(secs => $1), blocked_until = blocked_until - make_interval(secs => $1)`, d.Seconds())
}

// fail signs in with a wrong password.
func (r *rig) fail(name, address string) error {
	_, err := r.SignIn(r.ctx, name, "not the password", address)
	return err
}

func waits(err error) bool {
	var wait *WaitError
	return errors.As(err, &wait) && wait.Wait > 0
}

// Whoever may not enter is told the same, after the same work.
func TestSignInTellsNothing(t *testing.T) {
	r := newRig(t)
	r.add("ann", RoleAdmin)
	gone := r.add("gone", RoleViewer)
	bare := r.add("bare", RoleViewer)
	must[Operator](t)(r.Disable(r.ctx, root, gone.ID))
	must[Operator](t)(r.RemoveRole(r.ctx, root, bare.ID, tenant))
	must[Operator](t)(r.Create(r.ctx, root, New{Name: "nopass", Tenant: tenant, Role: RoleViewer}))
	for name, with := range map[string]string{
		"ann": "not the password", "unknown": password, "gone": password, "bare": password, "nopass": password, "": "", "a\x00\xff": "\x00\xff",
		"Ann": strings.Repeat("x", 10_000),
	} {
		n := r.hashed(func() {
			if o, err := r.SignIn(r.ctx, name, with, ""); err != ErrSignIn || o.Name != "" {
				t.Errorf("SignIn(%q) = %+v, %v", name, o, err)
			}
		})
		if n != 1 {
			t.Errorf("SignIn(%q) hashed %d passwords, want 1", name, n)
		}
	}
	if o := must[Operator](t)(r.SignIn(r.ctx, "ANN", password, "")); o.Name != "ann" || o.Role(tenant) != RoleAdmin {
		t.Errorf("SignIn = %+v", o)
	}
}

func TestRehash(t *testing.T) {
	r := newRig(t)
	r.add("ann", RoleAdmin)
	stored := func() (hash string) {
		if err := r.pool.QueryRow(r.ctx, `SELECT password_hash FROM operators`).Scan(&hash); err != nil {
			t.Fatal(err)
		}
		return hash
	}
	before := stored()
	must[Operator](t)(r.SignIn(r.ctx, "ann", password, ""))
	if stored() != before {
		t.Error("hashed anew without need")
	}
	newer, err := NewStore(Config{Pool: r.pool, Hash: &argon2id.Params{Memory: 16, Iterations: 2, Parallelism: 1, SaltLength: 16, KeyLength: 32}})
	if err != nil {
		t.Fatal(err)
	}
	for i, err := range atOnce(3, func(int) error { _, err := newer.SignIn(r.ctx, "ann", password, ""); return err }) {
		if err != nil {
			t.Errorf("sign-in %d at the change of the parameters: %v", i, err)
		}
	}
	if !strings.Contains(stored(), "$m=16,t=2,p=1$") {
		t.Errorf("not hashed anew: %s", stored())
	}
	must[Operator](t)(newer.SignIn(r.ctx, "ann", password, ""))
}

func TestThrottleByName(t *testing.T) {
	r := newRig(t)
	r.add("ann", RoleAdmin)
	for _, name := range []string{"ann", "unknown"} {
		for i := range nameLimit {
			if err := r.fail(name, ""); err != ErrSignIn {
				t.Fatalf("failure %d of %s: %v", i+1, name, err)
			}
		}
		n := r.hashed(func() {
			if _, err := r.SignIn(r.ctx, strings.ToUpper(name), password, ""); !waits(err) {
				t.Errorf("after %d failures of %s: %v, want a wait", nameLimit, name, err)
			}
		})
		if n != 0 {
			t.Errorf("%d passwords were hashed during the wait", n)
		}
	}
	r.later(firstWait)
	if err := r.fail("ann", ""); err != ErrSignIn {
		t.Fatalf("after the wait: %v", err)
	}
	r.later(firstWait)
	if err := r.fail("ann", ""); !waits(err) {
		t.Errorf("the second wait is no longer than the first: %v", err)
	}
	r.later(firstWait)
	must[Operator](t)(r.SignIn(r.ctx, "ann", password, ""))
	for i := range nameLimit {
		if err := r.fail("ann", ""); err != ErrSignIn {
			t.Errorf("failure %d after a success: %v", i+1, err)
		}
	}
	r.later(forgetAfter + time.Minute)
	for i := range nameLimit {
		if err := r.fail("ann", ""); err != ErrSignIn {
			t.Errorf("failure %d after an hour: %v", i+1, err)
		}
	}
}

func TestThrottleByAddress(t *testing.T) {
	r := newRig(t)
	r.add("ann", RoleAdmin)
	for i := range addressLimit - 1 {
		if err := r.fail(fmt.Sprint("name", i), fmt.Sprintf("2001:db8::%d", i)); err != ErrSignIn {
			t.Fatalf("failure %d: %v", i+1, err)
		}
	}
	// A success neither counts nor forgives what others guessed from there.
	for range 3 {
		must[Operator](t)(r.SignIn(r.ctx, "ann", password, "2001:db8::ffff"))
	}
	if err := r.fail("last", "2001:db8::1"); err != ErrSignIn {
		t.Errorf("the last failure before the wait: %v", err)
	}
	if _, err := r.SignIn(r.ctx, "ann", password, "2001:db8::2"); !waits(err) {
		t.Errorf("after %d failures from a network: %v", addressLimit, err)
	}
	must[Operator](t)(r.SignIn(r.ctx, "ann", password, "192.0.2.1"))
	r.later(firstWait)
	must[Operator](t)(r.SignIn(r.ctx, "ann", password, "2001:db8::2"))
}

// Many tries at once are no more than one after the other, from whatever process.
func TestThrottleAtOnce(t *testing.T) {
	r := newRig(t)
	r.add("ann", RoleAdmin)
	other, err := NewStore(Config{Pool: r.pool, Hash: cheap()})
	if err != nil {
		t.Fatal(err)
	}
	stores := []*Store{r.Store, other}
	errs := atOnce(4*nameLimit, func(i int) error {
		_, err := stores[i%2].SignIn(r.ctx, "ann", "not the password", fmt.Sprintf("192.0.2.%d", i))
		return err
	})
	if looked := countErrors(errs, ErrSignIn); looked != nameLimit {
		t.Errorf("%d of %d tries at once were looked at, want %d", looked, len(errs), nameLimit)
	}
	for _, err := range errs {
		if err != ErrSignIn && !waits(err) {
			t.Error(err)
		}
	}
	if n := r.hasher.done.Load() + other.hasher.done.Load(); n != nameLimit+1 { // and that of ann's password
		t.Errorf("%d passwords were hashed", n)
	}
}

// The right password among many signs in, and those at the same time do not take
// each other's place.
func TestSuccessesAtOnce(t *testing.T) {
	r := newRig(t)
	r.add("ann", RoleAdmin)
	for range 3 {
		if errs := atOnce(nameLimit-1, func(int) error { _, err := r.SignIn(r.ctx, "ann", password, "192.0.2.1"); return err }); countErrors(errs, nil) != len(errs) {
			t.Errorf("successes at once: %v", errs)
		}
	}
	var left int
	if err := r.pool.QueryRow(r.ctx, `SELECT coalesce(sum(failures), 0) FROM sign_in_failures`).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d failures are left, %v", left, err)
	}
}

func TestCrowd(t *testing.T) {
	r := newRig(t)
	for range maxCrowd {
		r.crowd <- struct{}{}
	}
	if _, err := r.SignIn(r.ctx, "ann", password, ""); !waits(err) {
		t.Errorf("in a crowd: %v", err)
	}
}

func TestFailuresAreForgotten(t *testing.T) {
	r := newRig(t)
	r.exec(`INSERT INTO sign_in_failures (subject, failures, blocked_until, at)
		SELECT sha256(n::text::bytea), 9, now() - interval '1 hour', now() - interval '2 hours' FROM generate_series(1, $1::int) n`, forgetAtOnce+5)
	for range 2 {
		_ = r.fail("ann", "192.0.2.1")
	}
	var left int
	if err := r.pool.QueryRow(r.ctx, `SELECT count(*) FROM sign_in_failures`).Scan(&left); err != nil || left != 2 {
		t.Errorf("%d rows are left, %v; want those of the name and the address", left, err)
	}
}

// TestACountThatRunsAgain, after a deadlock, counts nothing twice: a success takes back
// one failure of its address, not those of others.
func TestACountThatRunsAgain(t *testing.T) {
	r := newRig(t)
	name, address := hashOfName("ann"), hashOf("address", "192.0.2.1")
	r.exec(`INSERT INTO sign_in_failures (subject, failures, blocked_until, at) VALUES ($1, 0, now(), now()), ($2, 0, now(), now())`, name, address)
	tx := must[pgx.Tx](t)(r.pool.Begin(r.ctx))
	hold := func(subject []byte) error {
		_, err := tx.Exec(r.ctx, `UPDATE sign_in_failures SET at = at WHERE subject = $1`, subject)
		return err
	}
	if err := hold(name); err != nil {
		t.Fatal(err)
	}
	counted := make(chan []tally, 1)
	go func() {
		tallies, err := r.count(r.ctx, "ann", "192.0.2.1")
		if err != nil {
			t.Error(err)
		}
		counted <- tallies
	}()
	for waiting := false; !waiting; { // it has the address and waits for the name
		if err := r.pool.QueryRow(r.ctx, `
			SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
	if hold(address) == nil { // a deadlock, whose victim is who waited first
		_ = tx.Commit(r.ctx)
	} else {
		_ = tx.Rollback(r.ctx)
	}
	if tallies := <-counted; len(tallies) != 2 {
		t.Errorf("%d tallies, want the address and the name", len(tallies))
	}
}

func TestWaitAfter(t *testing.T) {
	for failures, want := range map[int]time.Duration{
		1: 0, 4: 0, 5: 10 * time.Second, 6: 20 * time.Second, 11: 640 * time.Second, 12: maxWait, 13: maxWait, 1_000_000: maxWait,
	} {
		if got := waitAfter(failures, nameLimit); got != want {
			t.Errorf("waitAfter(%d) = %s, want %s", failures, got, want)
		}
	}
}

// TestSetPassword: the wait of failed sign-ins ends with it, the old one is worth
// nothing.
func TestSetPassword(t *testing.T) {
	r := newRig(t)
	ann := r.add("ann", RoleAdmin)
	for range nameLimit {
		_ = r.fail("ann", "")
	}
	const next = "a longer horse battery"
	must[Operator](t)(r.SetPassword(r.ctx, as(ann), ann.ID, next))
	if _, err := r.SignIn(r.ctx, "ann", password, ""); err != ErrSignIn {
		t.Errorf("with the old password: %v", err)
	}
	must[Operator](t)(r.SignIn(r.ctx, "ann", next, ""))
	if _, err := r.SetPassword(r.ctx, as(ann), ann.ID, "short"); err == nil {
		t.Error("a short password passes")
	}
}
