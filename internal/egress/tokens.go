package egress

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"
)

// TokenRequest says which access token is wanted and where it comes from.
type TokenRequest struct {
	Key          string // names the credential for Invalidate, such as the upstream's number
	URL          string // token endpoint: https, or http to an address that Allow names
	ClientID     Secret
	ClientSecret Secret
	Scopes       []string
	Allow        []netip.Prefix // as for the upstream itself
	Proxy        string         // the same; "" = none
	TLS          *tls.Config    // nil: the system's roots; the least version is 1.2 in any case
}

// TokenError says why there is no access token. It never holds a credential.
type TokenError struct {
	Status     int    // of the endpoint's answer; 0 if there was none
	RetryAfter string // header of a 429 or 503, as it came
	Detail     string // for people
	cause      error
}

func (e *TokenError) Error() string {
	if e.Status == 0 {
		return "no access token: " + e.Detail
	}
	return fmt.Sprintf("no access token: the token endpoint answered %d: %s", e.Status, e.Detail)
}

// Unwrap gives the cause of a failed connection, such as a *Forbidden.
func (e *TokenError) Unwrap() error { return e.cause }

// TokensConfig needs a Guard; the zero value of the rest takes the defaults.
type TokensConfig struct {
	Guard    *Guard
	Resolver Resolver
	Timeout  time.Duration // of one exchange, connecting included; 10 s
	Margin   time.Duration // a token is not used in the last part of its life; 30 s, at most half of it
	// FailureHold is how long a failure answers for those that come after it, so
	// that a backlog does not flood an endpoint that is down; 1 s. Negative: not.
	FailureHold time.Duration
	Now         func() time.Time
}

// Tokens fetches OAuth 2.0 access tokens by the client credentials grant
// (RFC 6749, section 4.4) and keeps them until shortly before they expire. Many
// that want the same token share one exchange.
type Tokens struct {
	cfg     TokensConfig
	dialer  *Dialer
	mu      sync.Mutex
	entries map[tokenID]*tokenEntry
	inBody  map[string]bool // endpoints that take the credentials in the body only
}

// tokenID keeps credentials of one key apart: commands pinned to an older
// profile may still use an older one.
type tokenID struct {
	key         string
	fingerprint [sha256.Size]byte
}

// tokenEntry is an exchange under way until done is closed, and its result after.
type tokenEntry struct {
	done  chan struct{}
	token Secret
	err   error
	until time.Time // the result counts before this moment
}

// NewTokens makes an empty cache.
func NewTokens(cfg TokensConfig) *Tokens {
	cfg.Timeout = orDefault(cfg.Timeout, 10*time.Second)
	cfg.Margin = orDefault(cfg.Margin, 30*time.Second)
	cfg.FailureHold = orDefault(cfg.FailureHold, time.Second)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Tokens{cfg: cfg, dialer: NewDialer(cfg.Guard, cfg.Resolver), entries: map[tokenID]*tokenEntry{}, inBody: map[string]bool{}}
}

func orDefault(d, standard time.Duration) time.Duration {
	if d == 0 {
		return standard
	}
	return d
}

// Token returns a token that is still good, fetching one if need be. The error is
// a *TokenError, or ctx's: ctx bounds only this caller's wait, the exchange goes
// on for the others.
func (t *Tokens) Token(ctx context.Context, r TokenRequest) (Secret, error) {
	entry := t.entry(r)
	select {
	case <-entry.done:
		return entry.token, entry.err
	case <-ctx.Done():
		return Secret{}, ctx.Err()
	}
}

// Invalidate drops the token of key if it is still the one that was used, so that
// of many refused commands only the first one causes an exchange.
func (t *Tokens) Invalidate(key string, used Secret) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, e := range t.entries {
		if id.key == key && e.finished() && e.err == nil && e.token.Equal(used) {
			delete(t.entries, id)
		}
	}
}

func (t *Tokens) entry(r TokenRequest) *tokenEntry {
	id := identify(r)
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.entries[id]; e != nil && (!e.finished() || t.cfg.Now().Before(e.until)) {
		return e
	}
	t.dropExpired()
	e := &tokenEntry{done: make(chan struct{})}
	t.entries[id] = e
	go t.fetch(r, e)
	return e
}

func (t *Tokens) fetch(r TokenRequest, e *tokenEntry) {
	ctx, cancel := context.WithTimeout(context.Background(), t.cfg.Timeout)
	defer cancel()
	began := t.cfg.Now() // life counts from before the exchange, not from its end
	token, life, err := t.exchange(ctx, r)
	e.token, e.err = token, err
	if err != nil {
		e.until = t.cfg.Now().Add(t.cfg.FailureHold)
		if asked := began.Add(min(askedFor(err), longestHold)); asked.After(e.until) {
			e.until = asked
		}
	} else {
		e.until = began.Add(life - min(t.cfg.Margin, life/2))
	}
	close(e.done)
}

// longestHold is how long a failure answers at most, whatever an endpoint asks for.
const longestHold = time.Minute

// askedFor is for how long a failing endpoint wants to be left alone, if it says so in
// seconds.
func askedFor(err error) time.Duration {
	var refused *TokenError
	if !errors.As(err, &refused) {
		return 0
	}
	seconds, _ := strconv.ParseUint(refused.RetryAfter, 10, 16)
	return time.Duration(seconds) * time.Second
}

// dropExpired keeps the cache as small as what is in use.
func (t *Tokens) dropExpired() {
	for id, e := range t.entries {
		if e.finished() && !t.cfg.Now().Before(e.until) {
			delete(t.entries, id)
		}
	}
}

func (e *tokenEntry) finished() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

func identify(r TokenRequest) tokenID {
	h := sha256.New()
	for _, part := range []string{r.URL, r.ClientID.Reveal(), r.ClientSecret.Reveal(), strings.Join(r.Scopes, " ")} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return tokenID{r.Key, [sha256.Size]byte(h.Sum(nil))}
}

func (t *Tokens) takesBody(endpoint string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.inBody[endpoint]
}

func (t *Tokens) rememberBody(endpoint string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inBody[endpoint] = true
}
