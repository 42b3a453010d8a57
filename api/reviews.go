package api

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"executor/commands"
	"executor/outcome"
	"executor/reconcile"
)

// Reviews is what the API asks for people who decide.
type Reviews interface {
	Reviews(ctx context.Context, f reconcile.ReviewFilter) (page []reconcile.ReviewItem, next string, err error)
	Resolve(ctx context.Context, a reconcile.Action, to reconcile.Resolution) error
	LookUpNow(ctx context.Context, a reconcile.Action) error
	Resend(ctx context.Context, a reconcile.Action, absent bool) error
	Assign(ctx context.Context, a reconcile.Action, assignee string) error
	Note(ctx context.Context, a reconcile.Action) error
	Correct(ctx context.Context, a reconcile.Action, to reconcile.Resolution) error
	StartBulk(ctx context.Context, b reconcile.BulkRequest) (reconcile.Bulk, error)
	Bulk(ctx context.Context, tenant string, id uuid.UUID) (reconcile.Bulk, error)
}

// ListReviews reads a page of what waits for a person.
func (s *Server) ListReviews(w http.ResponseWriter, r *http.Request) error {
	f, err := reviewFilter(r)
	if err != nil {
		return err
	}
	list, next, err := s.reviews.Reviews(r.Context(), f)
	if err != nil {
		return aboutQuery(err)
	}
	return write(w, http.StatusOK, "application/json", page(list, next, writeReview))
}

// reviewFilter reads what a list of reviews selects.
func reviewFilter(r *http.Request) (f reconcile.ReviewFilter, err error) {
	f = reconcile.ReviewFilter{
		Tenant: callOf(r).key.Tenant, Upstream: param(r, "upstream"), Operation: param(r, "operation"), Cursor: param(r, "cursor"),
		Metadata: family(r, "metadata"), MetadataMin: family(r, "metadata_min"), MetadataMax: family(r, "metadata_max"),
	}
	if given(r, "assignee") {
		assignee := param(r, "assignee") // empty: nobody
		f.Assignee = &assignee
	}
	if err = notEmpty(r, "upstream", "operation", "reason", "cursor"); err != nil {
		return f, err
	}
	if f.Kinds, err = wordList(r, "kind", reconcile.ReviewKinds()); err != nil {
		return f, err
	}
	evidence, err := wordList(r, "evidence", outcome.Evidences())
	if err != nil {
		return f, err
	}
	f.Evidence, f.Reasons = texts(evidence), anyWords(r, "reason")
	if f.OlderThan, err = span(r, "older_than"); err != nil {
		return f, err
	}
	f.Limit, err = number(r, "limit", 1, commands.MaxPage, 0)
	return f, err
}

func writeReview(w *jsonWriter, item reconcile.ReviewItem) {
	w.begin('{')
	w.text("kind", item.Kind)
	w.time("since", item.Since)
	w.optional("assignee", item.Assignee)
	w.optional("handed_reason", item.HandedReason)
	w.optional("evidence", string(item.Evidence))
	w.array("conflicts", len(item.Conflicts), func(i int) { writeConflict(w, item.Conflicts[i]) })
	w.texts("actions", item.Actions)
	w.name("command")
	writeCommand(w, item.Command)
	w.end('}')
}

// writeConflict writes evidence against a settled state.
func writeConflict(w *jsonWriter, c reconcile.Conflict) {
	w.begin('{')
	w.integer("id", c.ID)
	w.time("at", c.At)
	w.text("source", string(c.Source))
	w.optional("finding", string(c.Finding))
	w.optional("answer", string(c.Answer))
	w.integerOrNull("status", int64(c.Status))
	w.optional("reference", c.Reference)
	w.optional("code", c.Code)
	w.optional("message", c.Message)
	w.integerOrNull("attempt", int64(c.Attempt))
	w.end('}')
}
