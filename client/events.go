package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"time"
)

// Event is something that happened to a command.
type Event struct {
	ID       string          `json:"id"`
	Number   int             `json:"number"` // its place in the account
	Type     string          `json:"type"`
	At       time.Time       `json:"at"`
	Sequence int             `json:"sequence"` // of the outcome; 0 for events that are none
	Actor    string          `json:"actor"`    // empty: the service itself
	Data     json.RawMessage `json:"data"`
}

// Events reads what happened to a command, the oldest first.
func (c *Client) Events(ctx context.Context, id string) ([]Event, error) {
	return list[Event](ctx, c, path("commands", id, "events"))
}

const (
	eventBytes = 16 << 20 // longest event
	// silence is how long a stream may say nothing, heartbeats included, before it
	// counts as dead.
	silence = time.Minute
)

// Follow yields what happened to a command and then what happens next, until ctx
// ends. A broken stream is taken up again behind the last event. The error, if
// any, comes last; ctx's own is none.
func (c *Client) Follow(ctx context.Context, id string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		last := ""
		for n := 1; ctx.Err() == nil; n++ {
			more, err := c.stream(ctx, id, last, func(e Event) bool {
				last, n = e.ID, 1
				return yield(e, nil)
			})
			if !more || ctx.Err() != nil {
				return
			}
			if err != nil && !passing(err) {
				yield(Event{}, err)
				return
			}
			if sleep(ctx, c.backoff(n, askedWait(err))) != nil {
				return
			}
		}
	}
}

// stream reads one stream to its end. more is false once each wants no more.
func (c *Client) stream(ctx context.Context, id, last string, each func(Event) bool) (more bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	alive := time.AfterFunc(silence, cancel)
	defer alive.Stop()
	r := call{method: http.MethodGet, path: path("commands", id, "events"), accept: "text/event-stream", headers: map[string]string{}}
	if last != "" {
		r.headers["Last-Event-ID"] = last
	}
	res, err := c.send(ctx, r)
	if err != nil {
		return true, plain(err)
	}
	defer res.Body.Close()
	if res.StatusCode >= 300 {
		body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
		if err != nil {
			return true, err
		}
		return true, problemOf(res, body)
	}
	if err := r.accepts(res); err != nil {
		return true, err
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, eventBytes)
	for lines.Scan() {
		alive.Reset(silence)
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if !ok {
			continue // ids and types stand in the data too
		}
		var e Event
		if err := json.Unmarshal(data, &e); err != nil {
			return true, &foreignAnswer{fmt.Sprintf("read an event: %v", err)}
		}
		if !each(e) {
			return false, nil
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return true, &foreignAnswer{"an event is too long"}
	}
	return true, nil
}
