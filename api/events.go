package api

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"executor/commands"
	"executor/internal/apikeys"
)

// eventStream is the media type of server-sent events.
const eventStream = "text/event-stream"

// ListEvents reads what happened to a command, once or as a stream.
func (s *Server) ListEvents(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Vary", "Accept")
	id, err := commandID(r)
	if err != nil {
		return err
	}
	list, err := s.commands.Events(r.Context(), callOf(r).key.Tenant, id)
	if err != nil {
		return err
	}
	if accepts(r, eventStream) && r.Method == http.MethodGet {
		return s.streamEvents(w, r, id, list)
	}
	return write(w, http.StatusOK, "application/json", page(list, "", writeEvent))
}

// How many streams there may be at once in a process; each asks the database every
// second.
const (
	streamsOfKey = 32
	streamsOfAll = 1024
)

// streamEvents writes events as they come, until the client leaves or the
// server drains. Once it has begun, an error can only end it; the client comes
// back with the last id it saw.
func (s *Server) streamEvents(w http.ResponseWriter, r *http.Request, id uuid.UUID, list []commands.Event) error {
	leave, ok := s.streams.Take(sourceOfKey(callOf(r).key))
	if !ok {
		return &failure{code: ProblemCodeRateLimited, headers: map[string]string{"Retry-After": "60"},
			detail: "This process has as many event streams open as it may have for one API key, or for all. Close one, or read the events without a stream."}
	}
	defer leave()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.draining, cancel)()

	w.Header().Set("Content-Type", eventStream)
	w.Header().Set("X-Accel-Buffering", "no") // proxies must pass each event on at once
	out := &stream{w: w, r: r, control: http.NewResponseController(w), seen: seenUpTo(list, r.Header.Get("Last-Event-ID"))}
	if err := out.begin(); err != nil {
		return nil
	}
	poll, heartbeat := time.NewTicker(s.poll), time.NewTicker(s.heartbeat)
	defer poll.Stop()
	defer heartbeat.Stop()
	for {
		if err := out.events(list); err != nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-heartbeat.C:
			if s.revoked(ctx, r) {
				return nil
			}
			if err := out.comment("still here"); err != nil {
				return nil
			}
		case <-poll.C:
			next, err := s.commands.Events(ctx, callOf(r).key.Tenant, id)
			if err != nil && ctx.Err() == nil {
				s.log.Warn("event stream ended", "request_id", callOf(r).requestID, "command_id", id, "error", err)
			}
			if err != nil {
				return nil
			}
			list = next
		}
	}
}

// revoked reports whether the key of a stream was good when it began and is no more.
func (s *Server) revoked(ctx context.Context, r *http.Request) bool {
	secret, _ := bearer(r.Header)
	_, err := s.keys.Authenticate(ctx, secret)
	return errors.Is(err, apikeys.ErrUnknown)
}

// seenUpTo is the set of the events up to the last one that a client saw; empty
// if it is not among them.
func seenUpTo(list []commands.Event, last string) map[uuid.UUID]bool {
	seen := make(map[uuid.UUID]bool)
	for i, e := range list {
		if e.ID.String() != last {
			continue
		}
		for _, e := range list[:i+1] {
			seen[e.ID] = true
		}
	}
	return seen
}

// stream writes server-sent events.
type stream struct {
	w       http.ResponseWriter
	r       *http.Request
	control *http.ResponseController
	seen    map[uuid.UUID]bool
}

func (o *stream) begin() error {
	o.w.WriteHeader(http.StatusOK)
	return o.comment("events of one command")
}

// events writes those that were not written yet.
func (o *stream) events(list []commands.Event) error {
	var b bytes.Buffer
	for _, e := range list {
		if o.seen[e.ID] {
			continue
		}
		o.seen[e.ID] = true
		b.WriteString("id: " + e.ID.String() + "\nevent: " + e.Type + "\ndata: ")
		b.Write(oneLine(view(e, writeEvent)))
		b.WriteString("\n\n")
	}
	return o.write(b.Bytes())
}

func (o *stream) comment(text string) error { return o.write([]byte(": " + text + "\n\n")) }

func (o *stream) write(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	allowLater(o.w, o.r, 0)
	if _, err := o.w.Write(b); err != nil {
		return err
	}
	return o.control.Flush()
}

// oneLine makes JSON fit a data line: line breaks in JSON are only ever spaces
// between its tokens.
func oneLine(json []byte) []byte {
	return bytes.Map(func(c rune) rune {
		if c == '\n' || c == '\r' {
			return ' '
		}
		return c
	}, bytes.TrimSpace(json))
}
