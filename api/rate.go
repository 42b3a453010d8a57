package api

import (
	"crypto/sha256"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-chi/httprate"

	"executor/internal/apikeys"
	"executor/internal/clientaddr"
)

const (
	keyWindow     = time.Second
	addressWindow = time.Minute
	maxFamiliar   = 10_000 // keys that are remembered as good
)

// meter counts requests of many sources, each up to a limit in a sliding window. It
// counts in this process only, and keeps a number for each source of the last two
// windows.
type meter struct {
	name   string // of the policy
	limit  int
	window time.Duration
	mu     sync.Mutex // between the look and the count
	rates  *httprate.RateLimiter
}

// newMeter builds a meter; nil, which lets everything pass, without a limit.
func newMeter(name string, limit int, window time.Duration) *meter {
	if limit <= 0 {
		return nil
	}
	counter := httprate.NewLocalLimitCounter(window)
	return &meter{name: name, limit: limit, window: window, rates: httprate.NewRateLimiter(limit, window, httprate.WithLimitCounter(counter))}
}

// left is how many requests of the source may follow now. The caller holds mu.
func (m *meter) left(source string) int {
	_, rate, _ := m.rates.Status(source) // counters in memory do not fail
	return m.limit - int(math.Round(rate))
}

// full reports whether the source has used up its limit.
func (m *meter) full(source string) bool {
	if m == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.left(source) <= 0
}

// take counts one request, unless the limit is used up. What is refused does not
// count.
func (m *meter) take(source string) (left int, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if left = m.left(source); left <= 0 {
		return 0, false
	}
	_ = m.rates.Counter().IncrementBy(source, time.Now().UTC().Truncate(m.window), 1)
	return left - 1, true
}

// show tells the caller what is left (draft-ietf-httpapi-ratelimit-headers-10).
func (m *meter) show(h http.Header, left int) {
	seconds := strconv.Itoa(int(m.window / time.Second))
	h.Set("RateLimit-Policy", fmt.Sprintf(`"%s";q=%d;w=%s`, m.name, m.limit, seconds))
	h.Set("RateLimit", fmt.Sprintf(`"%s";r=%d;t=%s`, m.name, left, seconds))
}

// refusal is the problem of a limit that is used up.
func (m *meter) refusal(h http.Header, detail string) error {
	m.show(h, 0)
	return &failure{code: ProblemCodeRateLimited, detail: detail,
		headers: map[string]string{"Retry-After": strconv.Itoa(int(m.window / time.Second))}}
}

// sourceOfKey tells keys apart, of whatever tenant.
func sourceOfKey(key apikeys.Key) string { return key.Tenant + "\x00" + key.Name }

// ofKey counts a request of an API key.
func (m *meter) ofKey(w http.ResponseWriter, key apikeys.Key) error {
	if m == nil {
		return nil
	}
	left, ok := m.take(sourceOfKey(key))
	if !ok {
		return m.refusal(w.Header(), fmt.Sprintf("The API key %q may make %d requests a second to this process.", key.Name, m.limit))
	}
	m.show(w.Header(), left)
	return nil
}

// strangers slows down those who come without a valid key, by their address. Keys
// that were good are looked up all the same, so that who guesses from an address
// does not shut out those who share it.
type strangers struct {
	meter    *meter
	mu       sync.Mutex
	familiar map[[sha256.Size]byte]struct{}
}

func newStrangers(limit int) *strangers {
	return &strangers{meter: newMeter("address", limit, addressWindow), familiar: make(map[[sha256.Size]byte]struct{})}
}

// pass refuses before anything is looked up.
func (s *strangers) pass(w http.ResponseWriter, r *http.Request, secret string) error {
	if !s.meter.full(sourceOf(r)) || s.knows(secret) {
		return nil
	}
	return s.meter.refusal(w.Header(), "Too many requests without a valid API key or signature came from this address.")
}

// failed counts a request that had no valid key.
func (s *strangers) failed(r *http.Request, secret string) {
	if s.meter == nil {
		return
	}
	s.meter.take(sourceOf(r))
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.familiar, sha256.Sum256([]byte(secret)))
}

// welcome remembers a key that was good.
func (s *strangers) welcome(secret string) {
	if s.meter == nil {
		return
	}
	hash := sha256.Sum256([]byte(secret))
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.familiar[hash]; known {
		return
	}
	if len(s.familiar) >= maxFamiliar {
		clear(s.familiar)
	}
	s.familiar[hash] = struct{}{}
}

func (s *strangers) knows(secret string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.familiar[sha256.Sum256([]byte(secret))]
	return known
}

// sourceOf is what one stranger has of addresses.
func sourceOf(r *http.Request) string { return clientaddr.Network(clientaddr.Of(r)) }
