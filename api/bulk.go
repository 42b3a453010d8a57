package api

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"executor/outcome"
	"executor/reconcile"
)

// StartBulk does one thing to every review that a filter selects, or counts them.
func (s *Server) StartBulk(w http.ResponseWriter, r *http.Request) error {
	src, err := readBody(w, r, s.submitBytes, "application/json")
	if err != nil {
		return err
	}
	caller := callOf(r).key
	request, err := decodeBulk(src)
	if err != nil {
		return err
	}
	request.Tenant, request.Actor = caller.Tenant, caller.Name
	b, err := s.reviews.StartBulk(r.Context(), request)
	if err != nil {
		return aboutFilter(err)
	}
	status := http.StatusOK
	if b.State == reconcile.BulkStateRunning {
		status = http.StatusAccepted
		w.Header().Set("Location", "/v1/reviews/bulk/"+b.ID.String())
		w.Header().Set("Retry-After", "1")
	}
	return write(w, status, "application/json", view(b, writeBulk))
}

// GetBulk shows how far a bulk action is.
func (s *Server) GetBulk(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "bulk action's")
	if err != nil {
		return err
	}
	b, err := s.reviews.Bulk(r.Context(), callOf(r).key.Tenant, id)
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, "application/json", view(b, writeBulk))
}

// decodeBulk reads a bulk request. What a member of the body means for another
// action than the one asked for is refused with the member's name.
func decodeBulk(src []byte) (reconcile.BulkRequest, error) {
	var b reconcile.BulkRequest
	err := decodeForm(src,
		idMember("id", &b.ID),
		required(wordMember("action", &b.Action, reconcile.BulkActions()...)),
		required(filterMember(&b.Filter)),
		textMember("reason", &b.Reason, maxWhy),
		textMember("evidence_reference", &b.EvidenceReference, maxReference),
		wordMember("state", &b.Resolution.State, settledStates()...),
		textMember("code", &b.Resolution.Code, maxShort),
		textMember("message", &b.Resolution.Message, maxWhy),
		personMember("assignee", &b.Assignee),
		flagMember("absent", &b.Absent),
		flagMember("dry_run", &b.DryRun),
		countMember("expected_count", &b.ExpectedCount),
	)
	if err != nil {
		return b, err
	}
	if b.DryRun && b.Reason == "" {
		b.Reason = "dry run" // of which nothing is kept
	}
	return b, checkBulk(b).err()
}

// checkBulk complains of what does not belong to the action.
func checkBulk(b reconcile.BulkRequest) *complaints {
	c := &complaints{}
	for _, m := range []struct {
		name  string
		wrong bool
	}{
		{"state", b.Resolution.State != "" && b.Action != reconcile.ActionResolve},
		{"code", b.Resolution.Code != "" && b.Resolution.State != outcome.StateRejected},
		{"message", b.Resolution.Message != "" && b.Resolution.State != outcome.StateRejected},
		{"assignee", b.Assignee != "" && b.Action != reconcile.ActionAssign},
		{"absent", b.Absent && b.Action != reconcile.ActionResend},
	} {
		if m.wrong {
			c.add("/"+m.name, "not_applicable", "The field %s does not belong to this action.", m.name)
		}
	}
	if b.ID == uuid.Nil && !b.DryRun {
		c.add("/id", "required", "Choose an id: under it the action is started once, however often you ask.")
	}
	if b.Reason == "" {
		c.add("/reason", "required", "Give a reason: it is kept with your name.")
	}
	return c
}

// filterMember is the filter of a bulk action. The store refuses one that selects
// everything.
func filterMember(f *reconcile.ReviewFilter) member {
	var older *time.Duration
	m := objectMember("filter",
		wordsMember("kind", &f.Kinds, reconcile.ReviewKinds()...),
		textMember("upstream", &f.Upstream, maxName),
		textMember("operation", &f.Operation, maxName),
		namesMember("reason", &f.Reasons),
		wordsMember("evidence", &f.Evidence, outcome.Evidences()...),
		emptyTextMember("assignee", &f.Assignee, maxShort),
		spanMember("older_than", &older),
		labelsMember("metadata", &f.Metadata, false),
		labelsMember("metadata_min", &f.MetadataMin, true),
		labelsMember("metadata_max", &f.MetadataMax, true),
	)
	read := m.read
	m.read = func(at *form) error {
		err := read(at)
		if older != nil {
			f.OlderThan = *older
		}
		return err
	}
	return m
}

func writeBulk(w *jsonWriter, b reconcile.Bulk) {
	w.begin('{')
	if b.ID == uuid.Nil {
		w.null("id")
	} else {
		w.text("id", b.ID.String())
	}
	w.text("action", b.Action)
	w.text("actor", b.Actor)
	w.text("reason", b.Reason)
	if b.CreatedAt.IsZero() {
		w.null("created_at")
	} else {
		w.time("created_at", b.CreatedAt)
	}
	w.text("state", b.State)
	w.integer("count", int64(b.Count))
	w.integer("done", int64(b.Done))
	w.integer("refused", int64(b.Refused))
	w.object("problems", func() {
		for _, problem := range slices.Sorted(maps.Keys(b.Problems)) {
			w.integer(problem, int64(b.Problems[problem]))
		}
	})
	w.array("items", len(b.Items), func(i int) { writeBulkItem(w, b.Items[i]) })
	w.array("sample", len(b.Sample), func(i int) { writeBulkItem(w, b.Sample[i]) })
	w.end('}')
}

func writeBulkItem(w *jsonWriter, item reconcile.BulkItem) {
	w.begin('{')
	w.text("command_id", item.Command.String())
	w.text("result", string(item.Result))
	w.optional("problem", item.Problem)
	w.optional("detail", item.Detail)
	w.end('}')
}
