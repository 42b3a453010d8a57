package api

import (
	"net/http"
	"strconv"
	"strings"

	"executor/commands"
	"executor/internal/audit"
	"executor/outcome"
)

// GetCommand reads one command, waiting for its end if asked to.
func (s *Server) GetCommand(w http.ResponseWriter, r *http.Request) error {
	h := w.Header()
	h.Set("Vary", "Prefer")
	id, err := commandID(r)
	if err != nil {
		return err
	}
	wait, asked := preferredWait(r.Header)
	if asked {
		notePreference(h, wait)
	}
	if given(r, "wait") {
		seconds, err := number(r, "wait", 0, 1<<31-1, 0)
		if err != nil {
			return err
		}
		wait = boundedWait(seconds)
	}
	var c commands.Command
	if wait > 0 {
		c, err = s.await(w, r, id, wait)
	} else {
		c, err = s.commands.Get(r.Context(), callOf(r).key.Tenant, id)
	}
	if err != nil {
		return err
	}
	h.Set("ETag", etag(c))
	if matches(r.Header, etag(c)) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return write(w, http.StatusOK, "application/json", view(c, writeCommand))
}

// etag is a command's version, quoted.
func etag(c commands.Command) string { return `"` + strconv.Itoa(c.Version) + `"` }

// matches reports whether If-None-Match names the tag. Weak tags count: the
// comparison of RFC 9110 for GET.
func matches(h http.Header, tag string) bool {
	for _, line := range h["If-None-Match"] {
		for _, item := range strings.Split(line, ",") {
			item = strings.TrimPrefix(strings.TrimSpace(item), "W/")
			if item == tag || item == "*" {
				return true
			}
		}
	}
	return false
}

// ListCommands reads a page of commands.
func (s *Server) ListCommands(w http.ResponseWriter, r *http.Request) error {
	f, err := filter(r)
	if err != nil {
		return err
	}
	list, next, err := s.commands.List(r.Context(), f)
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, "application/json", page(list, next, writeCommand))
}

// filter reads what a list selects.
func filter(r *http.Request) (f commands.Filter, err error) {
	f = commands.Filter{
		Tenant: callOf(r).key.Tenant, Upstream: param(r, "upstream"), Operation: param(r, "operation"),
		Key: param(r, "key"), Reference: param(r, "reference"), Cursor: param(r, "cursor"), Metadata: family(r, "metadata"),
	}
	if err = notEmpty(r, "upstream", "operation", "key", "reference", "cursor", "state"); err != nil {
		return f, err
	}
	states, err := wordList(r, "state", outcome.States())
	if err != nil {
		return f, err
	}
	f.States = texts(states)
	if f.Limit, err = number(r, "limit", 1, commands.MaxPage, 0); err != nil {
		return f, err
	}
	if f.CreatedAfter, err = moment(r, "created_after"); err != nil {
		return f, err
	}
	if f.CreatedBefore, err = moment(r, "created_before"); err != nil {
		return f, err
	}
	return f, nil
}

// CancelCommand asks for no further attempt.
func (s *Server) CancelCommand(w http.ResponseWriter, r *http.Request) error {
	id, err := commandID(r)
	if err != nil {
		return err
	}
	reason, err := s.mayReason(w, r)
	if err != nil {
		return err
	}
	caller := callOf(r).key
	c, result, err := s.commands.Cancel(r.Context(), caller.Tenant, id, audit.By{Actor: caller.Name, Reason: reason})
	if err != nil {
		return err
	}
	w.Header().Set("ETag", etag(c))
	return write(w, http.StatusOK, "application/json", view(c, func(w *jsonWriter, c commands.Command) {
		w.begin('{')
		writeCommandMembers(w, c)
		w.text("cancel", string(result))
		w.end('}')
	}))
}

// ListAttempts reads a command's attempts, oldest first.
func (s *Server) ListAttempts(w http.ResponseWriter, r *http.Request) error {
	id, err := commandID(r)
	if err != nil {
		return err
	}
	list, err := s.commands.Attempts(r.Context(), callOf(r).key.Tenant, id)
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, "application/json", page(list, "", writeAttempt))
}
