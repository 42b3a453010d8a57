package api

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"executor/outcome"
	"executor/reconcile"
)

// Lookups is what the API asks of what upstreams were asked.
type Lookups interface {
	Lookups(ctx context.Context, tenant string, id uuid.UUID) ([]reconcile.Lookup, error)
}

// ListLookups reads the questions to the upstream about a command, oldest first.
func (s *Server) ListLookups(w http.ResponseWriter, r *http.Request) error {
	id, err := commandID(r)
	if err != nil {
		return err
	}
	list, err := s.lookups.Lookups(r.Context(), callOf(r).key.Tenant, id)
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, "application/json", page(list, "", writeLookup))
}

func writeLookup(w *jsonWriter, l reconcile.Lookup) {
	w.begin('{')
	w.integer("id", l.ID)
	w.integer("round", int64(l.Round))
	w.integer("question", int64(l.Question))
	w.time("started_at", l.StartedAt)
	w.time("ended_at", l.EndedAt)
	w.text("instance", l.Instance)
	w.integer("profile_version", int64(l.ProfileVersion))
	w.object("request", func() {
		w.text("method", l.Request.Method)
		w.text("url", l.Request.URL)
		writeSentHeaders(w, l.Request.Headers)
	})
	w.integerOrNull("status", int64(l.Status))
	if l.Category == outcome.CategoryNone {
		w.null("category")
	} else {
		w.optional("category", string(l.Category))
	}
	w.optional("detail", l.Detail)
	w.text("finding", string(l.Finding))
	w.flag("counts", l.Counts)
	w.optional("rule", l.Rule)
	w.optional("reference", l.Reference)
	w.optional("code", l.Code)
	w.optional("message", l.Message)
	writeLookupResponse(w, l)
	w.texts("notes", l.Notes)
	w.end('}')
}

// writeLookupResponse writes null where no final headers came.
func writeLookupResponse(w *jsonWriter, l reconcile.Lookup) {
	if l.Status == 0 {
		w.null("response")
		return
	}
	w.object("response", func() {
		writeHeaders(w, l.ResponseHeaders)
		w.body(l.ResponseBody)
		w.flag("truncated", l.Truncated)
	})
}
