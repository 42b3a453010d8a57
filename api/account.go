package api

import (
	"context"

	"github.com/google/uuid"
)

// CommandJSON is everything on record about a command of the tenant, each part as
// the API's own call shows it: for who wants to keep it, or read it without a key.
func (s *Server) CommandJSON(ctx context.Context, tenant string, id uuid.UUID) ([]byte, error) {
	c, err := s.commands.Get(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	attempts, err := s.commands.Attempts(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	lookups, err := s.lookups.Lookups(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	notices, err := s.notices.Notices(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	events, err := s.commands.Events(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	w := &jsonWriter{buf: make([]byte, 0, 8192)}
	w.begin('{')
	w.name("command")
	writeCommand(w, c)
	w.array("attempts", len(attempts), func(i int) { writeAttempt(w, attempts[i]) })
	w.array("lookups", len(lookups), func(i int) { writeLookup(w, lookups[i]) })
	w.array("notices", len(notices), func(i int) { writeNotice(w, notices[i]) })
	w.array("events", len(events), func(i int) { writeEvent(w, events[i]) })
	w.end('}')
	return append(w.buf, '\n'), nil
}
