package hostile

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Traps notice connections. In a network of the test's own every address of the
// world is this machine, so none is missed; else they see loopback alone.
type Traps struct {
	t       testing.TB
	alone   bool // the network is ours
	mu      sync.Mutex
	caught  []string // destinations of connections
	home    int      // connections to Home, which are right
	handler http.Handler
}

// trapped are ports that traps listen on. In a network of our own connections to
// others are noticed too: the kernel counts what is dialled.
var trapped = []string{"80", "443", "1999", "8080"}

// HomePort is where Home answers.
const HomePort = "1999"

func newTraps(t testing.TB, alone bool) *Traps {
	t.Helper()
	traps := &Traps{t: t, alone: alone}
	hosts := []string{"127.0.0.1", "::1", Home.String()}
	if alone {
		hosts = []string{""}
	}
	listening := 0
	for _, host := range hosts {
		for _, port := range trapped {
			if traps.listen(net.JoinHostPort(host, port)) {
				listening++
			}
		}
	}
	if listening == 0 {
		t.Fatal("no trap can listen")
	}
	return traps
}

func (t *Traps) listen(address string) bool {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.t.Logf("no trap at %s: %v", address, err)
		return false
	}
	server := &http.Server{Handler: http.HandlerFunc(t.serve), ErrorLog: log.New(io.Discard, "", 0)}
	server.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		t.accepted(conn)
		return ctx
	}
	go func() { _ = server.Serve(listener) }()
	t.t.Cleanup(func() { _ = server.Close() })
	return true
}

func (t *Traps) accepted(conn net.Conn) {
	to, _ := netip.ParseAddrPort(conn.LocalAddr().String())
	t.mu.Lock()
	defer t.mu.Unlock()
	if to.Addr().Unmap() == Home {
		t.home++
		return
	}
	t.caught = append(t.caught, to.String())
}

// Answer has Home answer; until then it ends every connection.
func (t *Traps) Answer(h http.HandlerFunc) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.handler = h
}

func (t *Traps) serve(w http.ResponseWriter, r *http.Request) {
	t.mu.Lock()
	h := t.handler
	t.mu.Unlock()
	if h == nil {
		panic(http.ErrAbortHandler)
	}
	h.ServeHTTP(w, r)
}

// Home counts the connections to Home so far.
func (t *Traps) Home() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.home
}

// Watch runs what must dial nothing but Home, and fails the test if it does.
func (t *Traps) Watch(what string, do func()) {
	t.t.Helper()
	if caught := t.during(do); len(caught) > 0 {
		t.t.Errorf("%s: connections to %s", what, strings.Join(caught, ", "))
	}
}

func (t *Traps) during(do func()) []string {
	opened, home := t.opened(), t.Home()
	t.mu.Lock()
	t.caught = nil
	t.mu.Unlock()
	do()
	dialled := t.opened() - opened
	for end := time.Now().Add(time.Second); t.alone && t.seen(home) < dialled && time.Now().Before(end); {
		<-time.After(time.Millisecond)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	caught := slices.Clone(t.caught)
	if t.alone && len(caught)+t.home-home < dialled {
		caught = append(caught, "a port without a trap")
	}
	return caught
}

func (t *Traps) seen(home int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.caught) + t.home - home
}

// check makes sure that the traps notice what is dialled.
func (t *Traps) check() error {
	dial := func(address string) func() {
		return func() {
			if conn, err := net.DialTimeout("tcp", address, time.Second); err == nil {
				_ = conn.Close()
			}
		}
	}
	addresses := []string{"127.0.0.1:8080"}
	if t.alone {
		addresses = append(addresses, "169.254.169.254:80", "10.1.2.3:25", "8.8.8.8:443", "[fd00:ec2::254]:80", "[64:ff9b::1]:443", "[fe80::1%lo]:80")
	}
	for _, address := range addresses {
		if !t.notices(dial(address)) {
			return errors.New("a connection to " + address + " is not noticed")
		}
	}
	return nil
}

func (t *Traps) notices(do func()) bool {
	if t.alone {
		return len(t.during(do)) > 0
	}
	do()
	for end := time.Now().Add(time.Second); time.Now().Before(end); <-time.After(time.Millisecond) {
		if t.seen(t.Home()) > 0 {
			return true
		}
	}
	return false
}
