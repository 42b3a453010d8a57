package api

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"executor/commands"
)

// maxWait bounds how long a request may wait for a final state.
const maxWait = 30 * time.Second

// preferredWait reads wait=N of the Prefer headers (RFC 7240). What it does not
// understand it ignores: a preference is never an error.
func preferredWait(h http.Header) (wait time.Duration, asked bool) {
	for _, line := range h["Prefer"] {
		for _, preference := range strings.Split(line, ",") {
			token, _, _ := strings.Cut(preference, ";")
			name, value, _ := strings.Cut(token, "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			seconds, err := strconv.Atoi(strings.Trim(strings.TrimSpace(value), `"`))
			if err != nil || seconds < 0 {
				return 0, false
			}
			return boundedWait(seconds), true // the first one counts
		}
	}
	return 0, false
}

// boundedWait is so many seconds, bounded by maxWait.
func boundedWait(n int) time.Duration {
	return time.Duration(min(n, int(maxWait/time.Second))) * time.Second
}

// notePreference tells the client which wait was honoured.
func notePreference(h http.Header, wait time.Duration) {
	h.Set("Preference-Applied", "wait="+strconv.Itoa(int(wait/time.Second)))
}

// How many requests may wait at once in a process. Who finds no room is answered at
// once: a wait is a wish.
const (
	waitsOfKey = 1000
	waitsOfAll = 2000
)

// await waits for a command to become final, for so long at most, or until the
// server drains.
func (s *Server) await(w http.ResponseWriter, r *http.Request, id uuid.UUID, wait time.Duration) (commands.Command, error) {
	leave, ok := s.waits.Take(sourceOfKey(callOf(r).key))
	if !ok {
		w.Header().Del("Preference-Applied")
		return s.commands.Get(r.Context(), callOf(r).key.Tenant, id)
	}
	defer leave()
	callOf(r).held.release() // what is accepted holds no body any more
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	defer context.AfterFunc(s.draining, cancel)()
	allowLater(w, r, wait)
	return s.commands.Wait(ctx, callOf(r).key.Tenant, id)
}

// allowLater moves the connection's deadlines behind a wait: the server's time
// for reading is over once the body was read, and its time for writing begins
// anew. A server without deadlines has none to move.
func allowLater(w http.ResponseWriter, r *http.Request, wait time.Duration) {
	server, ok := r.Context().Value(http.ServerContextKey).(*http.Server)
	if !ok {
		return
	}
	control := http.NewResponseController(w)
	if server.ReadTimeout > 0 {
		_ = control.SetReadDeadline(time.Time{}) // the server sets it again for the next request
	}
	if server.WriteTimeout > 0 {
		_ = control.SetWriteDeadline(time.Now().Add(wait + server.WriteTimeout))
	}
}
