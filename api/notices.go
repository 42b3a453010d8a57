package api

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"executor/reconcile"
)

// Notices takes what upstreams tell by themselves.
type Notices interface {
	Receive(ctx context.Context, tenant, upstream string, header http.Header, body []byte) (reconcile.Received, error)
	Notices(ctx context.Context, tenant string, id uuid.UUID) ([]reconcile.Notice, error)
}

// noticeTime bounds how long a notice may take to be durable.
const noticeTime = 20 * time.Second

// defaultTenant is whose upstream a notice is from, unless its address says.
const defaultTenant = "default"

// ReceiveNotice takes a notice. Its signature stands for the API key: without a
// valid one nothing of it is kept, and nobody learns more than that it is so, not
// even whether there is such an upstream. The log has the reason.
func (s *Server) ReceiveNotice(w http.ResponseWriter, r *http.Request) error {
	tenant := defaultTenant
	if given(r, "tenant") {
		tenant = param(r, "tenant")
	}
	if err := notEmpty(r, "tenant"); err != nil {
		return err
	}
	if err := s.strangers.pass(w, r, ""); err != nil {
		return err
	}
	body, err := readBytes(w, r, reconcile.NoticeBytes)
	if err != nil {
		return err
	}
	// A sender may close its half of the connection behind the request, which looks
	// as if it had left.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), noticeTime)
	defer cancel()
	received, err := s.receive(ctx, tenant, pathParam(r, "upstream"), r.Header, body)
	if err != nil {
		if problemFor(err).code == ProblemCodeUnverifiedNotice {
			s.strangers.failed(r, "")
		}
		return err
	}
	return writeJSON(w, http.StatusAccepted, "application/json", AcceptedNotice{Accepted: true, Duplicate: received.Duplicate})
}

// receive passes a notice on if its upstream can be one at all.
func (s *Server) receive(ctx context.Context, tenant, upstream string, header http.Header, body []byte) (reconcile.Received, error) {
	if !isUpstreamName(upstream) || len(tenant) > maxName {
		return reconcile.Received{}, reconcile.ErrNoNotices
	}
	return s.notices.Receive(ctx, tenant, upstream, header, body)
}

// ListNotices reads what the upstream told about a command by itself.
func (s *Server) ListNotices(w http.ResponseWriter, r *http.Request) error {
	id, err := commandID(r)
	if err != nil {
		return err
	}
	tenant := callOf(r).key.Tenant
	if _, err := s.commands.Get(r.Context(), tenant, id); err != nil {
		return err
	}
	list, err := s.notices.Notices(r.Context(), tenant, id)
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, "application/json", page(list, "", writeNotice))
}

func writeNotice(w *jsonWriter, n reconcile.Notice) {
	w.begin('{')
	w.integer("id", n.ID)
	w.text("event_id", n.EventID)
	w.time("received_at", n.ReceivedAt)
	if n.MatchedAt.IsZero() {
		w.null("matched_at")
	} else {
		w.time("matched_at", n.MatchedAt)
	}
	w.integer("profile_version", int64(n.ProfileVersion))
	w.text("named_by", string(n.NamedBy))
	w.text("name", n.Name)
	w.text("weight", n.Weight)
	w.text("finding", string(n.Finding))
	w.optional("reference", n.Reference)
	w.optional("code", n.Code)
	w.optional("message", n.Message)
	w.optional("rule", n.Rule)
	w.text("state", string(n.State))
	w.optional("effect", string(n.Effect))
	writeHeaders(w, n.Headers)
	w.body(n.Body)
	w.hex("sha256", n.BodySHA256)
	w.texts("notes", n.Notes)
	w.end('}')
}
