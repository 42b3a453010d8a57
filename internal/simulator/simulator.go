package simulator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Config has a useful zero value.
type Config struct {
	// Retention is how long an idempotency key is remembered; 24 h.
	Retention time.Duration
	// TokenLife is how long a token of /oauth/token is good, as it says itself; 1 h.
	TokenLife time.Duration
	// MaxEntries bounds the ledger's requests, its effects, the payments, keys and
	// accounts that are remembered, each; 10,000. The oldest go first.
	MaxEntries int
	// BodyBytes is how much of each body the ledger keeps; 64 KiB.
	BodyBytes int
}

// Simulator is an upstream. Its methods may be called while it serves.
type Simulator struct {
	cfg  Config
	done chan struct{}
	all  sync.WaitGroup

	mu          sync.Mutex
	closed      bool
	listeners   map[net.Listener]bool
	connections map[net.Conn]bool
	accepted    int64
	behaviors   map[string]Behavior // by prefix of the path, or method and prefix
	hooks       *bounded[hook]      // by name
	receiver    Receiver            // of the notices that the step asks for
	*state
}

// state is what Reset clears.
type state struct {
	ledger   *ledger
	payments *bounded[*payment]
	accounts *bounded[*account]
	keys     *bounded[*keyRecord]
	attempts *bounded[int]
	tokens   *bounded[bool]      // issued ones; false: revoked
	links    *bounded[*payment]  // by path and query, of link_to
	lookups  *bounded[*Behavior] // by key, reference or id of a command
	ids      int64
}

// New makes a simulator that works until it is asked otherwise.
func New(cfg Config) *Simulator {
	if cfg.Retention == 0 {
		cfg.Retention = 24 * time.Hour
	}
	if cfg.TokenLife == 0 {
		cfg.TokenLife = time.Hour
	}
	if cfg.MaxEntries == 0 {
		cfg.MaxEntries = 10_000
	}
	if cfg.BodyBytes == 0 {
		cfg.BodyBytes = 64 << 10
	}
	return &Simulator{
		cfg: cfg, done: make(chan struct{}), state: newState(cfg.MaxEntries),
		listeners: map[net.Listener]bool{}, connections: map[net.Conn]bool{}, behaviors: map[string]Behavior{},
		hooks: newBounded[hook](maxHooks),
	}
}

func newState(max int) *state {
	return &state{
		ledger: newLedger(max), payments: newBounded[*payment](max), accounts: newBounded[*account](max),
		keys: newBounded[*keyRecord](max), attempts: newBounded[int](max), tokens: newBounded[bool](max),
		links: newBounded[*payment](max), lookups: newBounded[*Behavior](3 * max),
	}
}

// ErrClosed is returned by Serve and Listen of a simulator that was closed.
var ErrClosed = errors.New("simulator is closed")

// Serve accepts connections, plain or TLS, until the listener or the simulator
// is closed. After Close it returns nil.
func (s *Simulator) Serve(l net.Listener) error {
	if !s.listen(l) {
		_ = l.Close()
		return ErrClosed
	}
	for {
		c, err := l.Accept()
		switch {
		case err == nil:
			s.start(c)
		case s.isClosed():
			return nil
		default:
			return err
		}
	}
}

// Listen serves on an address, such as 127.0.0.1:0, in the background and
// returns the base URL.
func (s *Simulator) Listen(address string) (string, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return "", err
	}
	if s.isClosed() {
		_ = l.Close()
		return "", ErrClosed
	}
	go func() { _ = s.Serve(l) }()
	return "http://" + l.Addr().String(), nil
}

// ServeHTTP lets an http.Server accept for the simulator: it takes the connection
// over, with this request, and never gives it back. HTTP/1.1 only.
func (s *Simulator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	hijacked, buffer, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, "the simulator speaks HTTP/1.1 only", http.StatusHTTPVersionNotSupported)
		return
	}
	unread := io.LimitReader(buffer.Reader, int64(buffer.Reader.Buffered()))
	c, ok := s.adopt(hijacked, io.MultiReader(headOf(r), unread))
	if !ok {
		_ = hijacked.Close()
		return
	}
	defer s.release(c)
	c.serve()
}

// headOf writes the head anew that the server has taken off the connection.
func headOf(r *http.Request) io.Reader {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", r.Method, r.RequestURI, r.Host)
	_ = r.Header.Write(&b)
	if len(r.TransferEncoding) > 0 {
		fmt.Fprintf(&b, "Transfer-Encoding: %s\r\n", strings.Join(r.TransferEncoding, ", "))
	} else if r.ContentLength > 0 {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", r.ContentLength)
	}
	b.WriteString("\r\n")
	return &b
}

// Close ends every connection at once and waits for their handlers. Effects that
// were still to come do not come.
func (s *Simulator) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.done)
	}
	for l := range s.listeners {
		_ = l.Close()
	}
	for c := range s.connections {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.all.Wait()
	return nil
}

// Reset forgets all requests, effects, payments, accounts, keys, tokens, notices
// and webhooks, and the effects and notices that were still to come. Behaviours of
// paths and hooks stay, and so does the receiver of notices.
func (s *Simulator) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger.notify()
	s.state = newState(s.cfg.MaxEntries)
}

// Behave sets what every request meets whose path begins with prefix and that
// asks for nothing itself. The longest prefix counts. A method may stand in front,
// as in "GET /v1/charges".
func (s *Simulator) Behave(prefix, behavior string) error {
	return s.setBehaviors(map[string]string{prefix: behavior}, false)
}

func (s *Simulator) setBehaviors(texts map[string]string, replace bool) error {
	parsed := map[string]Behavior{}
	for prefix, text := range texts {
		if _, path := splitPrefix(prefix); !strings.HasPrefix(path, "/") {
			return fmt.Errorf("prefix %q does not begin with / or a method", prefix)
		}
		b, err := ParseBehavior(text)
		if err != nil {
			return fmt.Errorf("%s: %w", prefix, err)
		}
		parsed[prefix] = b
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if replace {
		s.behaviors = map[string]Behavior{}
	}
	for prefix, b := range parsed {
		s.behaviors[prefix] = b
	}
	return nil
}

// splitPrefix takes the method off, if there is one.
func splitPrefix(prefix string) (method, path string) {
	if method, path, ok := strings.Cut(prefix, " "); ok {
		return method, path
	}
	return "", prefix
}

// behaviorOf is the behaviour set for a path.
func (s *Simulator) behaviorOf(method, path string) Behavior {
	s.mu.Lock()
	defer s.mu.Unlock()
	best, found := -1, Behavior{}
	for prefix, b := range s.behaviors {
		only, start := splitPrefix(prefix)
		weight := 2 * len(start)
		if only == method {
			weight++
		}
		if strings.HasPrefix(path, start) && (only == "" || only == method) && weight > best {
			best, found = weight, b
		}
	}
	return found
}

func (s *Simulator) listen(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.listeners[l] = true
	}
	return !s.closed
}

func (s *Simulator) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

func (s *Simulator) start(raw net.Conn) {
	c, ok := s.adopt(raw, strings.NewReader(""))
	if !ok {
		_ = raw.Close()
		return
	}
	go func() {
		defer s.release(c)
		c.serve()
	}()
}

func (s *Simulator) adopt(raw net.Conn, unread io.Reader) (*conn, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, false
	}
	s.accepted++
	s.connections[raw] = true
	s.all.Add(1)
	return s.newConn(raw, unread, s.accepted), true
}

func (s *Simulator) release(c *conn) {
	s.mu.Lock()
	delete(s.connections, c.Conn)
	s.mu.Unlock()
	s.all.Done()
}

// later runs fn after d under the lock, unless the simulator is closed or reset
// before that.
func (s *Simulator) later(d time.Duration, fn func()) {
	generation := s.state
	time.AfterFunc(d, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.closed && s.state == generation {
			fn()
		}
	})
}

func (s *Simulator) record(r *Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger.add(r)
}

// update changes a request in the ledger and tells those who wait.
func (s *Simulator) update(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
	s.ledger.notify()
}

// pause waits for d, or forever, and returns false if the simulator is closed or
// ctx ends before.
func (s *Simulator) pause(ctx context.Context, d time.Duration) bool {
	var over <-chan time.Time
	if d != forever {
		timer := time.NewTimer(d)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-over:
		return true
	case <-ctx.Done():
		return false
	case <-s.done:
		return false
	}
}
