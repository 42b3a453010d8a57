package web_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"executor/internal/audit"
	"executor/internal/operators"
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
