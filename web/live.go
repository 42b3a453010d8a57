package web

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"executor/internal/operators"
)

func liveRoutes() []route {
	return []route{{method: http.MethodGet, pattern: "/live", role: operators.RoleViewer, serve: (*Server).live}}
}

// Topics of live pages: what they show, and how the server finds out that it
// changed.
const (
	topicCommand = "command:" // with its id: by the command's version
	topicLists   = "lists"    // fetched again every few seconds
)

const (
	listTicks = 3                // looks between two refreshes of lists
	liveBound = 10 * time.Minute // a stream's life: then the browser connects anew, and is admitted anew
	maxLive   = 256              // streams of a process at a time; each asks the database every tick

	maxLiveOfOne = 16 // of them for one person: so many pages may be open in one browser
)

// live is a stream of server-sent events (WHATWG HTML, 9.2). It says that
// something changed and never what: the page fetches itself, with the rights of
// that moment.
func (s *Server) live(v *visit) error {
	look, err := s.watch(v)
	if err != nil {
		return err
	}
	leave, ok := s.streams.Take(v.operator.ID.String())
	if !ok {
		v.w.Header().Set("Retry-After", "60")
		return &failure{http.StatusServiceUnavailable, "Too many live pages", "This process keeps no more pages live, for you or for everybody. Reload the page to see what is new."}
	}
	defer leave()
	stream := http.NewResponseController(v.w)
	_ = stream.SetWriteDeadline(time.Now().Add(liveBound + time.Minute))
	v.w.Header().Set("Content-Type", "text/event-stream")
	v.w.Header().Set("X-Accel-Buffering", "no")
	fmt.Fprint(v.w, "retry: 3000\n\n")
	if err := stream.Flush(); err != nil {
		return nil // gone
	}
	ctx, cancel := context.WithTimeout(v.r.Context(), liveBound)
	defer cancel()
	ticker := time.NewTicker(s.tick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.draining.Done():
			return nil
		case <-ticker.C:
		}
		event, err := look(ctx)
		if err != nil || !s.stillAllowed(ctx, v) {
			return nil // the browser connects again and learns why not
		}
		if event == "" {
			event = ":"
		} else {
			event = "event: " + event + "\ndata:"
		}
		if _, err := fmt.Fprint(v.w, event, "\n\n"); err != nil || stream.Flush() != nil {
			return nil
		}
	}
}

// stillAllowed ends the stream of a session that was revoked.
func (s *Server) stillAllowed(ctx context.Context, v *visit) bool {
	access, err := s.sessions.Authorize(ctx, s.cookies.Token(v.r.Context()), v.tenant)
	return err == nil && access.Role.Allows(operators.RoleViewer)
}

// watch returns what looks for a change: the event to send, or "".
func (s *Server) watch(v *visit) (func(context.Context) (string, error), error) {
	topic := v.query("topic")
	if topic == topicLists {
		n := 0
		return func(context.Context) (string, error) {
			if n++; n%listTicks != 0 {
				return "", nil
			}
			return "changed", nil
		}, nil
	}
	id, err := uuid.Parse(strings.TrimPrefix(topic, topicCommand))
	if err != nil || !strings.HasPrefix(topic, topicCommand) {
		return nil, badRequest("There is nothing to watch by that name.")
	}
	seen, _ := strconv.Atoi(v.query("seen"))
	return func(ctx context.Context) (string, error) {
		version, err := s.commands.Version(ctx, v.tenant, id)
		if err != nil || version == seen {
			return "", err
		}
		seen = version
		return "changed", nil
	}, nil
}
