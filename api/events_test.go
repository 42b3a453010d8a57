package api

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"executor/commands"
)

// someEvents are n events with ids that tell their number.
func someEvents(n int) []commands.Event {
	var list []commands.Event
	for i := range n {
		list = append(list, commands.Event{ID: uuid.UUID{15: byte(i + 1)}, Number: i + 1, Type: "attempt.ended", At: someTime, Actor: "host", Data: []byte("{\"a\":\n 1}")})
	}
	return list
}

func TestListEvents(t *testing.T) {
	g := newRig(t)
	g.commands.events = func(context.Context, string, uuid.UUID) ([]commands.Event, error) { return someEvents(2), nil }
	var page EventList
	if g.do("GET", "/v1/commands/"+someID.String()+"/events").want(200).decode(&page); len(page.Data) != 2 || page.Data[1].Number != 2 {
		t.Errorf("the page is %+v", page)
	}
}

// openStream asks for a stream of events.
func (g *rig) openStream(options ...askOption) *bufio.Scanner {
	g.t.Helper()
	a := &ask{header: http.Header{"Authorization": {"Bearer exk_read"}, "Accept": {"text/event-stream"}}}
	for _, option := range options {
		option(a)
	}
	req, _ := http.NewRequestWithContext(g.t.Context(), "GET", g.http.URL+"/v1/commands/"+someID.String()+"/events", nil)
	req.Header = a.header
	resp, err := g.http.Client().Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != eventStream {
		body, _ := io.ReadAll(resp.Body)
		g.t.Fatalf("the stream is %d %s %s", resp.StatusCode, resp.Header, body)
	}
	return bufio.NewScanner(resp.Body)
}

// nextID reads a stream up to the next event and returns its id; "" at the end.
func nextID(t *testing.T, lines *bufio.Scanner) string {
	t.Helper()
	id := ""
	for lines.Scan() {
		line := lines.Text()
		if after, ok := strings.CutPrefix(line, "id: "); ok {
			id = after
		}
		if after, ok := strings.CutPrefix(line, "data: "); ok && !strings.HasPrefix(after, `{"id":"`+id+`"`) {
			t.Errorf("the data is %s", line)
		}
		if line == "" && id != "" {
			return id
		}
	}
	return id
}

func TestStreamEvents(t *testing.T) {
	g := newRig(t)
	more := make(chan int, 1)
	known := 2
	g.commands.events = func(context.Context, string, uuid.UUID) ([]commands.Event, error) {
		select {
		case known = <-more:
		default:
		}
		return someEvents(known), nil
	}
	all := someEvents(4)
	lines := g.openStream()
	for i := range 2 {
		if id := nextID(t, lines); id != all[i].ID.String() {
			t.Fatalf("event %d has id %s", i, id)
		}
	}
	more <- 4
	for i := range 2 {
		if id := nextID(t, lines); id != all[2+i].ID.String() {
			t.Fatalf("event %d has id %s", 2+i, id)
		}
	}
	g.server.Drain()
	if id := nextID(t, lines); id != "" {
		t.Errorf("after the drain came %s", id)
	}
}

func TestStreamResumes(t *testing.T) {
	g := newRig(t)
	g.commands.events = func(context.Context, string, uuid.UUID) ([]commands.Event, error) { return someEvents(3), nil }
	all := someEvents(3)
	if id := nextID(t, g.openStream(with("Last-Event-ID", all[1].ID.String()))); id != all[2].ID.String() {
		t.Errorf("resumed at %s", id)
	}
	if id := nextID(t, g.openStream(with("Last-Event-ID", "unknown"))); id != all[0].ID.String() {
		t.Errorf("resumed at %s", id)
	}
}

func TestStreamBeats(t *testing.T) {
	g := newRig(t)
	g.server.heartbeat = time.Millisecond
	g.commands.events = func(context.Context, string, uuid.UUID) ([]commands.Event, error) { return someEvents(1), nil }
	lines := g.openStream()
	for lines.Scan() {
		if lines.Text() == ": still here" {
			return
		}
	}
	t.Error("the stream ended without a heartbeat")
}
