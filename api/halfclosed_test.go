package api

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"

	"executor/commands"
	"executor/internal/testkit"
	"executor/reconcile"
)

// halfClosed sends a request and closes its half of the connection behind it, which
// the server takes for a caller who left.
func halfClosed(t *testing.T, g *rig, request string) (int, string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(g.http.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	fmt.Fprint(conn, request)
	resp := testkit.HalfClose(t, conn)
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// What was cut off must not be answered with a 200.
func TestWhatIsCutOffIsNoSuccess(t *testing.T) {
	g := newRig(t)
	g.commands.cancel = func(ctx context.Context, _ string, _ uuid.UUID, _ string) (commands.Command, commands.CancelResult, error) {
		<-ctx.Done()
		return commands.Command{}, "", fmt.Errorf("cancel: %w", ctx.Err())
	}
	status, body := halfClosed(t, g, "POST /v1/commands/"+someID.String()+"/cancel HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer exk_admin\r\nContent-Length: 0\r\n\r\n")
	if status != http.StatusServiceUnavailable || !strings.Contains(body, "unavailable") {
		t.Errorf("the answer is %d: %s", status, body)
	}
	if strings.Contains(g.log.String(), "request failed") {
		t.Errorf("that a caller left is logged as a failure: %s", g.log)
	}
}

// A notice is taken to its end: its sender has said all that it had to say.
func TestNoticesOutliveTheirSenders(t *testing.T) {
	left := make(chan struct{})
	g := newRig(t, func(c *Config) { c.Notices = &patientNotices{fakeNotices: &fakeNotices{}, left: left} })
	routes := g.server.Routes()
	g.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		context.AfterFunc(r.Context(), func() { close(left) })
		routes.ServeHTTP(w, r)
	}))
	t.Cleanup(g.http.Close)
	status, body := halfClosed(t, g, "POST /v1/notices/ledger HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
	if status != http.StatusAccepted {
		t.Errorf("the answer is %d: %s", status, body)
	}
}

// patientNotices takes a notice once its sender seems gone.
type patientNotices struct {
	*fakeNotices
	left chan struct{}
}

func (n *patientNotices) Receive(ctx context.Context, _, _ string, _ http.Header, _ []byte) (reconcile.Received, error) {
	<-n.left
	return reconcile.Received{}, ctx.Err()
}
