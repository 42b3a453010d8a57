package web_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"executor/internal/audit"
	"executor/internal/operators"
	"executor/web"
)

// stream is a live page's stream, read by lines.
type stream struct {
	*bufio.Scanner
	body io.Closer
}

func (b *browse) stream(path string) stream {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	b.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.site.http.URL+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Cookie", b.cookie)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		b.t.Fatalf("%s answers %d %s", path, resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	return stream{bufio.NewScanner(resp.Body), resp.Body}
}

// until reads up to the line; false is the end of the stream.
func (s stream) until(line string) bool {
	for s.Scan() {
		if s.Text() == line {
			return true
		}
	}
	return false
}

func TestALiveCommandTellsOfChanges(t *testing.T) {
	s := newSite(t)
	c := s.doubtful(t, "charge-1")
	live := s.as(t, "vera").stream("/live?topic=command:" + c.ID.String() + "&seen=" + strconv.Itoa(c.Version))
	if !live.until(":") {
		t.Fatal("the stream ended without a change")
	}
	if _, _, err := s.commands.Cancel(t.Context(), tenant, c.ID, audit.By{Actor: "test"}); err != nil {
		t.Fatal(err)
	}
	if !live.until("event: changed") {
		t.Error("the stream ended before the change")
	}
	s.server.Drain()
	if live.until("never") {
		t.Error("the stream goes on although the server stops")
	}
}

func TestALiveStreamEndsWithItsSession(t *testing.T) {
	s := newSite(t)
	otto := s.as(t, "otto")
	live := otto.stream("/live?topic=lists")
	if !live.until(":") {
		t.Fatal("the stream ended at once")
	}
	o, err := s.operators.ByName(t.Context(), "otto")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.operators.Disable(t.Context(), operators.By{Actor: "test"}, o.ID); err != nil {
		t.Fatal(err)
	}
	if live.until("never") {
		t.Error("the stream goes on")
	}
}

// TestLivePagesOfAPersonAreBounded: one person's browser leaves room for the others.
func TestLivePagesOfAPersonAreBounded(t *testing.T) {
	s := newSite(t)
	otto := s.as(t, "otto")
	var streams []stream
	for range web.MaxLiveOfOne {
		streams = append(streams, otto.stream("/live?topic=lists"))
	}
	p, _ := otto.once(http.MethodGet, "/live?topic=lists", nil)
	if p.status != http.StatusServiceUnavailable || p.header.Get("Retry-After") == "" {
		t.Errorf("one more answers %d", p.status)
	}
	s.as(t, "vera").stream("/live?topic=lists")
	streams[0].body.Close()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if p, _ := otto.glance("/live?topic=lists"); p == http.StatusOK {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("a page that was closed still counts")
		}
	}
}

// glance asks for a stream and leaves at once.
func (b *browse) glance(path string) (status int, err error) {
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.site.http.URL+path, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Cookie", b.cookie)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

func TestNobodyWatchesWhatIsNotTheirs(t *testing.T) {
	s := newSite(t)
	c := s.doubtful(t, "charge-1")
	s.addOperator(t, "olga", "other", operators.RoleAdmin)
	olga := s.as(t, "olga")
	if live := olga.stream("/live?topic=command:" + c.ID.String()); live.until("event: changed") {
		t.Error("another tenant's command is watched")
	}
	if p := olga.get("/live?topic=everything"); p.status != http.StatusBadRequest {
		t.Errorf("an unknown topic answers %d", p.status)
	}
	if p, _ := s.visitor(t).once(http.MethodGet, "/live?topic=lists", nil); p.status != http.StatusUnauthorized || strings.Contains(p.body, "html") {
		t.Errorf("a stranger's stream answers %d", p.status)
	}
}
