package api

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"executor/webhooks"
)

// Webhooks is what the API asks of receivers and what is delivered to them.
type Webhooks interface {
	Create(ctx context.Context, by webhooks.By, set webhooks.Settings) (e webhooks.Endpoint, secret string, err error)
	Get(ctx context.Context, tenant string, id uuid.UUID) (webhooks.Endpoint, error)
	List(ctx context.Context, tenant string) ([]webhooks.Endpoint, error)
	Update(ctx context.Context, by webhooks.By, id uuid.UUID, version int, c webhooks.Changes) (webhooks.Endpoint, error)
	Delete(ctx context.Context, by webhooks.By, id uuid.UUID, version int) error
	RotateSecret(ctx context.Context, by webhooks.By, id uuid.UUID, version int, overlap time.Duration) (e webhooks.Endpoint, secret string, err error)
	Test(ctx context.Context, by webhooks.By, id uuid.UUID) (webhooks.Delivery, error)
	Challenge(ctx context.Context, by webhooks.By, id uuid.UUID) (webhooks.Delivery, error)
	Deliveries(ctx context.Context, f webhooks.DeliveryFilter) (page []webhooks.Delivery, next string, err error)
	Delivery(ctx context.Context, tenant string, id uuid.UUID) (webhooks.Account, error)
	Redeliver(ctx context.Context, by webhooks.By, id uuid.UUID) (webhooks.Delivery, error)
	RedeliverRange(ctx context.Context, by webhooks.By, r webhooks.Range) (webhooks.Redelivered, error)
}

// defaultOverlap is how long an old secret still signs unless somebody says
// otherwise: time enough for a receiver to learn the new one.
const defaultOverlap = 24 * time.Hour

func by(r *http.Request) webhooks.By {
	key := callOf(r).key
	return webhooks.By{Tenant: key.Tenant, Actor: key.Name}
}

// CreateWebhook makes a receiver and shows its secret.
func (s *Server) CreateWebhook(w http.ResponseWriter, r *http.Request) error {
	src, err := readBody(w, r, s.submitBytes, "application/json")
	if err != nil {
		return err
	}
	var set webhooks.Settings
	who := by(r)
	err = decodeForm(src,
		required(textMember("url", &set.URL, maxText)),
		textMember("description", &set.Description, maxReference),
		wordsMember("events", &set.Events, webhooks.EventTypes()...),
		namesMember("upstreams", &set.Upstreams),
		flagMember("ordered", &set.Ordered),
		textMember("reason", &who.Reason, maxReason),
	)
	if err != nil {
		return err
	}
	e, secret, err := s.webhooks.Create(r.Context(), who, set)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/webhooks/"+e.ID.String())
	return answerEndpoint(w, http.StatusCreated, e, secret)
}

// ListWebhooks reads every receiver of the tenant.
func (s *Server) ListWebhooks(w http.ResponseWriter, r *http.Request) error {
	list, err := s.webhooks.List(r.Context(), callOf(r).key.Tenant)
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, "application/json", page(list, "", func(w *jsonWriter, e webhooks.Endpoint) {
		w.begin('{')
		writeEndpointMembers(w, e)
		w.end('}')
	}))
}

// GetWebhook reads one receiver.
func (s *Server) GetWebhook(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "webhook's")
	if err != nil {
		return err
	}
	e, err := s.webhooks.Get(r.Context(), callOf(r).key.Tenant, id)
	if err != nil {
		return err
	}
	return answerEndpoint(w, http.StatusOK, e, "")
}

// UpdateWebhook changes a receiver.
func (s *Server) UpdateWebhook(w http.ResponseWriter, r *http.Request) error {
	id, version, err := versionedWebhook(r)
	if err != nil {
		return err
	}
	src, err := readBody(w, r, s.submitBytes, "application/json")
	if err != nil {
		return err
	}
	who := by(r)
	changes, err := decodeChanges(src, &who.Reason)
	if err != nil {
		return err
	}
	e, err := s.webhooks.Update(r.Context(), who, id, version, changes)
	if err != nil {
		return err
	}
	return answerEndpoint(w, http.StatusOK, e, "")
}

func decodeChanges(src []byte, reason *string) (webhooks.Changes, error) {
	var (
		c                 webhooks.Changes
		url               string
		events, upstreams []string
	)
	err := decodeForm(src,
		textMember("url", &url, maxText),
		emptyTextMember("description", &c.Description, maxReference),
		wordsMember("events", &events, webhooks.EventTypes()...),
		namesMember("upstreams", &upstreams),
		optionalFlagMember("ordered", &c.Ordered),
		optionalFlagMember("disabled", &c.Disabled),
		textMember("reason", reason, maxReason),
	)
	if url != "" {
		c.URL = &url
	}
	if events != nil {
		c.Events = &events
	}
	if upstreams != nil {
		c.Upstreams = &upstreams
	}
	if err == nil && c == (webhooks.Changes{}) {
		err = invalidRequest([]FieldProblem{{Code: "required", Detail: "The request changes nothing: name what is to be another."}})
	}
	return c, err
}

// versionedWebhook reads the webhook's id and, if the caller names one, the
// version that the change is meant for; 0 for any.
func versionedWebhook(r *http.Request) (id uuid.UUID, version int, err error) {
	if id, err = pathID(r, "webhook's"); err != nil {
		return id, 0, err
	}
	if len(r.Header[versionHeader]) > 0 {
		version, err = expectedVersion(r.Header)
	}
	return id, version, err
}

// DeleteWebhook ends a receiver.
func (s *Server) DeleteWebhook(w http.ResponseWriter, r *http.Request) error {
	id, version, err := versionedWebhook(r)
	if err != nil {
		return err
	}
	if err := readNothing(w, r, s.submitBytes); err != nil {
		return err
	}
	if err := s.webhooks.Delete(r.Context(), by(r), id, version); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// RotateWebhookSecret makes a new secret and shows it.
func (s *Server) RotateWebhookSecret(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "webhook's")
	if err != nil {
		return err
	}
	src, err := readBody(w, r, s.submitBytes, "application/json")
	if err != nil {
		return err
	}
	overlap, who := new(defaultOverlap), by(r)
	if err := decodeForm(src, spanMember("overlap", &overlap), textMember("reason", &who.Reason, maxReason)); err != nil {
		return err
	}
	e, secret, err := s.webhooks.RotateSecret(r.Context(), who, id, 0, *overlap)
	if err != nil {
		return err
	}
	return answerEndpoint(w, http.StatusOK, e, secret)
}

// answerEndpoint answers with a receiver, and with its secret where that is new.
func answerEndpoint(w http.ResponseWriter, status int, e webhooks.Endpoint, secret string) error {
	w.Header().Set("ETag", strconv.Quote(strconv.Itoa(e.Version)))
	return write(w, status, "application/json", view(e, func(w *jsonWriter, e webhooks.Endpoint) {
		w.begin('{')
		writeEndpointMembers(w, e)
		if secret != "" {
			w.text("secret", secret)
		}
		w.end('}')
	}))
}

// writeEndpointMembers writes a receiver without its braces.
func writeEndpointMembers(w *jsonWriter, e webhooks.Endpoint) {
	w.text("id", e.ID.String())
	w.text("url", e.URL)
	w.text("description", e.Description)
	w.texts("events", e.Events)
	w.texts("upstreams", e.Upstreams)
	w.flag("ordered", e.Ordered)
	w.integer("version", int64(e.Version))
	if e.DisabledAt == nil {
		w.null("disabled")
	} else {
		w.object("disabled", func() {
			w.time("at", *e.DisabledAt)
			w.text("by", string(e.DisabledBy))
			w.text("reason", e.DisabledReason)
		})
	}
	w.timeOrNull("failing_since", e.FailingSince)
	if e.VerifiedAt == nil {
		w.null("verified")
	} else {
		w.object("verified", func() {
			w.time("at", *e.VerifiedAt)
			w.text("by", string(e.VerifiedBy))
		})
	}
	w.array("secrets", len(e.Secrets), func(i int) {
		w.begin('{')
		w.text("id", e.Secrets[i].ID.String())
		w.time("created_at", e.Secrets[i].CreatedAt)
		w.timeOrNull("expires_at", e.Secrets[i].ExpiresAt)
		w.end('}')
	})
	w.time("created_at", e.CreatedAt)
	w.time("updated_at", e.UpdatedAt)
}
