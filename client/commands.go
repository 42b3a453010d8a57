package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Get reads one command.
func (c *Client) Get(ctx context.Context, id string) (Command, error) {
	return c.get(ctx, id, 0)
}

func (c *Client) get(ctx context.Context, id string, wait time.Duration) (Command, error) {
	r := call{method: http.MethodGet, path: path("commands", id), repeat: true, wait: wait}
	if wait > 0 {
		r.query = url.Values{"wait": {strconv.Itoa(seconds(wait))}}
	}
	cmd, _, err := read[Command](ctx, c, r)
	return cmd, err
}

const (
	longestPoll  = 30 * time.Second // the service waits no longer
	shortestPoll = 200 * time.Millisecond
)

// Wait returns once the command is final. While the service is away it keeps
// asking, until ctx ends: then the error is ctx's, and the command is as it was
// last seen, which may be not at all.
func (c *Client) Wait(ctx context.Context, id string) (Command, error) {
	var last Command
	for n, wait := 1, time.Duration(0); ; wait = longestPoll {
		began := time.Now()
		cmd, err := c.get(ctx, id, within(ctx, wait))
		switch {
		case err == nil:
			last, n = cmd, 1
			if cmd.Final {
				return cmd, nil
			}
		case ctx.Err() != nil:
			return last, ctx.Err()
		case !passing(err):
			return last, err
		default:
			n++
		}
		pause := time.Duration(0)
		if err != nil {
			pause = c.backoff(n, askedWait(err))
		} else if wait > 0 {
			pause = shortestPoll - time.Since(began) // for a service that does not wait
		}
		if pause > 0 && sleep(ctx, pause) != nil {
			<-ctx.Done() // too soon for another try; the end is near
			return last, ctx.Err()
		}
	}
}

// within shortens a poll to what ctx has left, in whole seconds, so that its
// answer comes in time to be seen.
func within(ctx context.Context, wait time.Duration) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok || wait == 0 {
		return wait
	}
	return min(wait, max(time.Until(deadline).Truncate(time.Second), time.Second))
}

// Cancellation is what a cancel achieved, and the command as it is after it.
type Cancellation struct {
	Command Command
	Result  CancelResult
}

// Cancel asks for no further attempt. A request on the wire is not cut off: its
// evidence decides. Repeating it is safe. A reason is kept in the audit, as that of
// the first cancel.
func (c *Client) Cancel(ctx context.Context, id string, reason ...string) (Cancellation, error) {
	cmd, res, err := read[Command](ctx, c, call{method: http.MethodPost, path: path("commands", id, "cancel"), body: why(reason), repeat: true})
	if err != nil {
		return Cancellation{}, err
	}
	var d struct {
		Cancel CancelResult `json:"cancel"`
	}
	if err := json.Unmarshal(res.body, &d); err != nil {
		return Cancellation{}, err
	}
	return Cancellation{cmd, d.Cancel}, nil
}

// Filter selects commands; its zero value selects all.
type Filter struct {
	States        []State
	Upstream      string
	Operation     string
	Key           string
	Reference     string // the upstream's name for what was done
	Metadata      map[string]string
	CreatedAfter  time.Time // exclusive
	CreatedBefore time.Time // exclusive
	Cursor        string    // of the page to begin with
	Limit         int       // commands per page, up to 100; 50
}

// Page is one page of commands, the newest first.
type Page = PageOf[Command]

// ListPage reads one page.
func (c *Client) ListPage(ctx context.Context, f Filter) (Page, error) {
	return page[Command](ctx, c, path("commands"), f.query())
}

// List yields the commands of all pages, the newest first. It ends after the
// first error.
func (c *Client) List(ctx context.Context, f Filter) iter.Seq2[Command, error] {
	return pages(f.Cursor, func(cursor string) (Page, error) {
		f.Cursor = cursor
		return c.ListPage(ctx, f)
	})
}

func (f Filter) query() url.Values {
	q := query(map[string]string{
		"upstream": f.Upstream, "operation": f.Operation, "key": f.Key, "reference": f.Reference, "cursor": f.Cursor,
		"created_after": moment(f.CreatedAfter), "created_before": moment(f.CreatedBefore), "limit": number(f.Limit),
	})
	for _, s := range f.States {
		q.Add("state", string(s))
	}
	named(q, "metadata", f.Metadata)
	return q
}
