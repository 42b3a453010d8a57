package simulator

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"
)

// Kind tells the requests apart that a test counts apart.
type Kind string

const (
	KindCommand Kind = "command" // may have an effect
	KindLookup  Kind = "lookup"  // only asks
	KindToken   Kind = "token"   // of /oauth/token
	KindHook    Kind = "hook"    // a webhook that came in; not among the requests, see Deliveries
)

func kindOf(head *http.Request) Kind {
	switch {
	case isDelivery(head):
		return KindHook
	case head.URL.Path == tokenPath:
		return KindToken
	case head.Method == http.MethodGet || head.Method == http.MethodHead:
		return KindLookup
	default:
		return KindCommand
	}
}

// Request is what arrived: everything from which at least one byte was read.
type Request struct {
	Number      int64       `json:"number"`
	Kind        Kind        `json:"kind"`
	Time        time.Time   `json:"time"`
	Connection  int64       `json:"connection"` // counts accepted connections
	Method      string      `json:"method"`
	Path        string      `json:"path"`    // with its query
	Headers     http.Header `json:"headers"` // credentials replaced by [redacted]
	Key         string      `json:"key"`     // Idempotency-Key, without quotes
	Reference   string      `json:"reference"`
	About       []string    `json:"about,omitempty"` // keys, references and ids that a lookup asks for
	Body        Body        `json:"body"`            // its beginning, if it is long
	BodyBytes   int64       `json:"body_bytes"`
	BodySHA256  string      `json:"body_sha256"`        // of what arrived, hexadecimal
	Complete    bool        `json:"complete"`           // head and body arrived whole
	Behavior    string      `json:"behavior"`           // the one in force; empty once its times are over
	Attempt     int         `json:"attempt"`            // how many of this key (or reference, or body) arrived on this path
	Replayed    bool        `json:"replayed"`           // the answer is that of an earlier attempt
	Verified    *bool       `json:"verified,omitempty"` // a webhook's signature, if a secret was set
	Status      int         `json:"status"`             // of the answer; 0: none was sent
	AnswerBytes int64       `json:"answer_bytes"`       // head and body, as far as they were sent
	EndedAt     *time.Time  `json:"ended_at"`           // null while it is in the works
}

// Effect is what happened: money moved, once per entry.
type Effect struct {
	Number     int64     `json:"number"`
	Time       time.Time `json:"time"`
	Key        string    `json:"key"`
	Reference  string    `json:"reference"`
	Path       string    `json:"path"`
	ID         string    `json:"id"` // of the payment, charge or account
	Request    int64     `json:"request"`
	Body       Body      `json:"body"`
	BodySHA256 string    `json:"body_sha256"`
}

// Body shows itself as JSON where it is JSON, else as text, else as base64.
type Body []byte

// MarshalJSON never changes a valid JSON body.
func (b Body) MarshalJSON() ([]byte, error) {
	switch {
	case len(b) == 0:
		return []byte("null"), nil
	case json.Valid(b):
		return b, nil
	case utf8.Valid(b):
		return json.Marshal(string(b))
	default:
		return json.Marshal([]byte(b))
	}
}

// ledger is the memory of one simulator. The simulator's lock guards it.
type ledger struct {
	max      int
	requests []*Request
	hooks    []*Request
	effects  []Effect
	notices  []*SentNotice
	numbers  int64
	dropped  int64         // entries forgotten, because there were too many
	changed  chan struct{} // closed and replaced at every change
}

func newLedger(max int) *ledger {
	return &ledger{max: max, changed: make(chan struct{})}
}

func (l *ledger) notify() {
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *ledger) add(r *Request) {
	l.numbers++
	r.Number = l.numbers
	if r.Kind == KindHook {
		l.hooks = remember(l, l.hooks, r)
	} else {
		l.requests = remember(l, l.requests, r)
	}
}

func (l *ledger) addEffect(e Effect) {
	l.numbers++
	e.Number = l.numbers
	l.effects = remember(l, l.effects, e)
}

// remember appends an entry and forgets the oldest ones beyond the bound.
func remember[T any](l *ledger, list []T, entry T) []T {
	list = append(list, entry)
	if len(list) > l.max {
		list = slices.Delete(list, 0, len(list)-l.max)
		l.dropped++
	}
	l.notify()
	return list
}

// Requests returns what arrived, oldest first. The key is an idempotency key, a
// client reference or a path; the empty key stands for everything.
func (s *Simulator) Requests(key string) []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []Request
	for _, r := range s.ledger.requests {
		if matches(key, r.Key, r.Reference, r.Path) {
			found = append(found, *r)
		}
	}
	return found
}

// Lookups returns the questions about a key, a client reference, an id or a path,
// oldest first; the empty key stands for all of them.
func (s *Simulator) Lookups(key string) []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []Request
	for _, r := range s.ledger.requests {
		if r.Kind == KindLookup && matches(key, append(r.About, r.Path)...) {
			found = append(found, *r)
		}
	}
	return found
}

// Counts is how often something arrived or happened for one key.
type Counts struct {
	Commands int `json:"commands"`
	Replayed int `json:"replayed"` // of the commands: answered as an earlier one
	Lookups  int `json:"lookups"`
	Effects  int `json:"effects"`
}

// Counts counts by the same keys as Requests, Lookups and Effects.
func (s *Simulator) Counts(key string) Counts {
	c := Counts{Lookups: len(s.Lookups(key)), Effects: len(s.Effects(key))}
	for _, r := range s.Requests(key) {
		if r.Kind == KindCommand {
			c.Commands++
		}
		if r.Replayed {
			c.Replayed++
		}
	}
	return c
}

// Effects returns what happened, oldest first, by the same keys as Requests.
func (s *Simulator) Effects(key string) []Effect {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []Effect
	for _, e := range s.ledger.effects {
		if matches(key, e.Key, e.Reference, e.Path) {
			found = append(found, e)
		}
	}
	return found
}

// Wait returns nil once ok does, which is asked now and after every change of
// the ledger, or the error of ctx.
func (s *Simulator) Wait(ctx context.Context, ok func() bool) error {
	for {
		s.mu.Lock()
		changed := s.ledger.changed
		s.mu.Unlock()
		if ok() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func matches(key string, candidates ...string) bool {
	return key == "" || slices.Contains(candidates, key)
}

// credentials are the headers whose values the ledger does not keep.
var credentials = []string{"Authorization", "Proxy-Authorization", "Cookie", "X-Api-Key"}

func withoutCredentials(h http.Header) http.Header {
	h = h.Clone()
	for _, name := range credentials {
		if h.Get(name) != "" {
			h[name] = []string{"[redacted]"}
		}
	}
	return h
}
