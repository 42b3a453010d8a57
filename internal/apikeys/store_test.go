package apikeys

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"executor/internal/audit"
	"executor/internal/testkit"
)

// ann is who makes and revokes keys.
var ann = audit.By{Actor: "ann", Reason: "she left"}

// testClock is a clock that a test moves.
type testClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *testClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *testClock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func newStore(t *testing.T) (*Store, *testClock) {
	t.Helper()
	clock := &testClock{now: time.Now()}
	s := NewStore(testkit.Database(t), slog.New(slog.NewTextHandler(t.Output(), nil)))
	s.now = clock.Now
	t.Cleanup(s.Close)
	return s, clock
}

func TestCreateKey(t *testing.T) {
	s, _ := newStore(t)
	key, secret, err := s.Create(t.Context(), "acme", "billing", []string{"commands:write", "commands:read", "commands:write"}, ann)
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^exk_[0-9A-Za-z]{43}$`).MatchString(secret) || !strings.HasPrefix(secret, key.Prefix) || len(key.Prefix) > 12 {
		t.Errorf("the secret is %s, its prefix %s", secret, key.Prefix)
	}
	if !slices.Equal(key.Scopes, []string{"commands:read", "commands:write"}) {
		t.Errorf("scopes: %v", key.Scopes)
	}
	var row string
	if err := s.pool.QueryRow(t.Context(), `SELECT api_keys::text FROM api_keys`).Scan(&row); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(row, secret[len(key.Prefix):]) {
		t.Errorf("the secret is in the row: %s", row)
	}
	var hash []byte
	if err := s.pool.QueryRow(t.Context(), `SELECT hash FROM api_keys`).Scan(&hash); err != nil {
		t.Fatal(err)
	}
	if want := sha256.Sum256([]byte(secret)); !bytes.Equal(hash, want[:]) {
		t.Error("the hash is not the secret's SHA-256")
	}
	got, err := s.Authenticate(t.Context(), secret)
	if err != nil || got.ID != key.ID || got.Tenant != "acme" || got.Name != "billing" {
		t.Errorf("authenticated as %+v, %v", got, err)
	}
}

func TestCreateKeyRefuses(t *testing.T) {
	s, _ := newStore(t)
	for _, tt := range []struct {
		tenant, name string
		scopes       []string
	}{
		{"", "a", []string{"admin"}}, {"a\tb", "a", []string{"admin"}}, {strings.Repeat("t", 64), "a", []string{"admin"}}, {audit.Deployment, "a", []string{"admin"}}, {"t", "", []string{"admin"}}, {"t", "a\nb", []string{"admin"}}, {"t", "a", nil}, {"t", "a", []string{"root"}},
		{"t", strings.Repeat("x", 101), []string{"admin"}},
	} {
		if _, _, err := s.Create(t.Context(), tt.tenant, tt.name, tt.scopes, ann); err == nil {
			t.Errorf("%+v was created", tt)
		}
	}
	create := func(tenant string) error {
		_, _, err := s.Create(t.Context(), tenant, "same", []string{"admin"}, ann)
		return err
	}
	if err := errors.Join(create("a"), create("b")); err != nil {
		t.Fatal(err)
	}
	if err := create("a"); !errors.Is(err, ErrExists) {
		t.Errorf("the same name again: %v", err)
	}
	if _, err := s.Revoke(t.Context(), "a", "same", ann); err != nil {
		t.Fatal(err)
	}
	if err := create("a"); err != nil {
		t.Errorf("the name of a revoked key: %v", err)
	}
}

func TestAPrefixThatIsAnothersName(t *testing.T) {
	s, _ := newStore(t)
	key, secret, err := s.Create(t.Context(), "t", "one", []string{"admin"}, ann)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Create(t.Context(), "t", key.Prefix, []string{"admin"}, ann); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Revoke(t.Context(), "t", key.Prefix, ann); !errors.Is(err, ErrSeveral) {
		t.Errorf("one of two was revoked: %v", err)
	}
	if _, err := s.Authenticate(t.Context(), secret); err != nil {
		t.Errorf("it is refused: %v", err)
	}
}

func TestAuthenticateUnknown(t *testing.T) {
	s, _ := newStore(t)
	for _, secret := range []string{"", "exk_", "exk_" + strings.Repeat("0", digits), "abc_" + strings.Repeat("0", digits), strings.Repeat("x", 10_000)} {
		if _, err := s.Authenticate(t.Context(), secret); !errors.Is(err, ErrUnknown) {
			t.Errorf("%.60q: %v", secret, err)
		}
	}
}

func TestRevokedKeyStopsWithinSeconds(t *testing.T) {
	here, clock := newStore(t)
	elsewhere := NewStore(here.pool, here.log)
	elsewhere.now = clock.Now
	t.Cleanup(elsewhere.Close)
	key, secret, err := here.Create(t.Context(), "t", "gone", []string{"admin"}, ann)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Store{here, elsewhere} {
		if _, err := s.Authenticate(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
	}
	for _, which := range []string{"other", strings.ToUpper(key.Name)} {
		if _, err := here.Revoke(t.Context(), "t", which, ann); !errors.Is(err, ErrUnknown) {
			t.Errorf("revoking %q: %v", which, err)
		}
	}
	if _, err := here.Revoke(t.Context(), "elsewhere", key.ID.String(), ann); !errors.Is(err, ErrUnknown) {
		t.Errorf("another tenant revoked it: %v", err)
	}
	if revoked, err := here.Revoke(t.Context(), "t", key.ID.String(), ann); err != nil || revoked.RevokedAt == nil {
		t.Fatalf("%+v, %v", revoked, err)
	}
	if _, err := here.Authenticate(t.Context(), secret); !errors.Is(err, ErrUnknown) {
		t.Errorf("the revoking process still takes it: %v", err)
	}
	if _, err := elsewhere.Authenticate(t.Context(), secret); err != nil {
		t.Errorf("remembered keys cost a query each: %v", err)
	}
	clock.add(freshness)
	if _, err := elsewhere.Authenticate(t.Context(), secret); !errors.Is(err, ErrUnknown) {
		t.Errorf("another process still takes it after %s: %v", freshness, err)
	}
	list, err := here.List(t.Context(), "t")
	if err != nil || len(list) != 1 || list[0].RevokedAt == nil {
		t.Errorf("the list is %+v, %v", list, err)
	}
}

func TestKeysAreRememberedAndTheirUseNoted(t *testing.T) {
	s, clock := newStore(t)
	_, secret, err := s.Create(t.Context(), "t", "used", []string{"commands:read"}, ann)
	if err != nil {
		t.Fatal(err)
	}
	lastUse := func() *time.Time {
		s.Close() // waits for the note
		list, err := s.List(t.Context(), "t")
		if err != nil {
			t.Fatal(err)
		}
		return list[0].LastUsedAt
	}
	if lastUse() != nil {
		t.Error("used before its first use")
	}
	var each sync.WaitGroup
	for range 50 {
		each.Go(func() {
			if _, err := s.Authenticate(t.Context(), secret); err != nil {
				t.Error(err)
			}
		})
	}
	each.Wait()
	first := lastUse()
	if first == nil {
		t.Fatal("its use was not noted")
	}
	clock.add(freshness)
	if _, err := s.Authenticate(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if again := lastUse(); !again.Equal(*first) {
		t.Error("its use was noted twice within a minute")
	}
	s.pool.Close() // what is remembered needs no database
	if _, err := s.Authenticate(t.Context(), secret); err != nil {
		t.Error(err)
	}
	clock.add(freshness)
	if _, err := s.Authenticate(t.Context(), secret); err == nil || errors.Is(err, ErrUnknown) {
		t.Errorf("without the database an old memory gave %v", err)
	}
}

func TestAuthenticateGivesUpWithItsCaller(t *testing.T) {
	s, _ := newStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Authenticate(ctx, "exk_"+strings.Repeat("0", digits)); err == nil {
		t.Error("no error")
	}
}
