package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// screen is an output that a test reads while it is written.
type screen struct {
	mu      sync.Mutex
	text    bytes.Buffer
	written chan struct{} // holds a token after every write
}

func newScreen() *screen { return &screen{written: make(chan struct{}, 1)} }

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.written <- struct{}{}:
	default:
	}
	return s.text.Write(p)
}

// await returns the first match of pattern's group.
func (s *screen) await(t *testing.T, pattern string) string {
	t.Helper()
	limit := time.After(patience)
	for re := regexp.MustCompile(pattern); ; {
		s.mu.Lock()
		match := re.FindStringSubmatch(s.text.String())
		s.mu.Unlock()
		if match != nil {
			return match[1]
		}
		select {
		case <-s.written:
		case <-limit:
			t.Fatalf("nothing like %s in\n%s", pattern, s.text.String())
		}
	}
}

func TestSimulatorServesUntilItIsStopped(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	cmd, out := newSimulatorCommand(), newScreen()
	cmd.SetArgs([]string{"--listen", "127.0.0.1:0"})
	cmd.SetOut(out)
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()

	url := out.await(t, `listening on (http://\S+)`)
	res, err := http.Post(url+"/v1/charges", "application/json", strings.NewReader(`{"sim":"status=418"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusTeapot {
		t.Errorf("answered %d %s, %v", res.StatusCode, body, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}

func TestSimulatorSaysThatItsAddressIsTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cmd := newSimulatorCommand()
	cmd.SetArgs([]string{"--listen", l.Addr().String()})
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetOut(io.Discard)
	if err := cmd.ExecuteContext(context.Background()); err == nil || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("got %v", err)
	}
}
