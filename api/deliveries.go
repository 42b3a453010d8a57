package api

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"executor/webhooks"
)

// TestWebhook sends a test event to a receiver.
func (s *Server) TestWebhook(w http.ResponseWriter, r *http.Request) error {
	return s.sendOwn(w, r, s.webhooks.Test)
}

// ChallengeWebhook asks a receiver once more whether it wants webhooks.
func (s *Server) ChallengeWebhook(w http.ResponseWriter, r *http.Request) error {
	return s.sendOwn(w, r, s.webhooks.Challenge)
}

// sendOwn has an event sent that is about no command.
func (s *Server) sendOwn(w http.ResponseWriter, r *http.Request, send func(context.Context, webhooks.By, uuid.UUID) (webhooks.Delivery, error)) error {
	id, err := pathID(r, "webhook's")
	if err != nil {
		return err
	}
	if err := readNothing(w, r, s.submitBytes); err != nil {
		return err
	}
	d, err := send(r.Context(), by(r), id)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/webhook-deliveries/"+d.ID.String())
	return write(w, http.StatusAccepted, "application/json", view(d, writeDelivery))
}

// RedeliverRange has a range of events delivered once more.
func (s *Server) RedeliverRange(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "webhook's")
	if err != nil {
		return err
	}
	src, err := readBody(w, r, s.submitBytes, "application/json")
	if err != nil {
		return err
	}
	var (
		since, until *time.Time
		states       []string
		who          = by(r)
		part         = webhooks.Range{Endpoint: id}
	)
	err = decodeForm(src,
		required(momentMember("since", &since)),
		momentMember("until", &until),
		wordsMember("states", &states, webhooks.DeliveryStates()...),
		textMember("reason", &who.Reason, maxReason),
	)
	if err != nil {
		return err
	}
	part.Since = *since
	if until != nil {
		part.Until = *until
	}
	for _, state := range states {
		part.States = append(part.States, webhooks.DeliveryState(state))
	}
	done, err := s.webhooks.RedeliverRange(r.Context(), who, part)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusAccepted, "application/json", Redelivered{Count: done.Count, More: done.More})
}

// ListDeliveries reads a page of the delivery log.
func (s *Server) ListDeliveries(w http.ResponseWriter, r *http.Request) (err error) {
	f := webhooks.DeliveryFilter{Tenant: callOf(r).key.Tenant, Type: param(r, "type"), Cursor: param(r, "cursor")}
	if err = notEmpty(r, "type", "cursor", "state"); err != nil {
		return err
	}
	if f.Endpoint, err = queryID(r, "webhook"); err != nil {
		return err
	}
	if f.Command, err = queryID(r, "command"); err != nil {
		return err
	}
	if f.Event, err = queryID(r, "event"); err != nil {
		return err
	}
	if f.Since, err = moment(r, "since"); err != nil {
		return err
	}
	if f.Until, err = moment(r, "until"); err != nil {
		return err
	}
	states, err := wordList(r, "state", webhooks.DeliveryStates())
	if err != nil {
		return err
	}
	f.States = texts(states)
	if f.Limit, err = number(r, "limit", 1, webhooks.MaxPage, 0); err != nil {
		return err
	}
	list, next, err := s.webhooks.Deliveries(r.Context(), f)
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, "application/json", page(list, next, writeDelivery))
}

// GetDelivery reads one delivery with all that is on record of it.
func (s *Server) GetDelivery(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "delivery's")
	if err != nil {
		return err
	}
	account, err := s.webhooks.Delivery(r.Context(), callOf(r).key.Tenant, id)
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, "application/json", view(account, writeAccount))
}

// Redeliver has an event delivered once more.
func (s *Server) Redeliver(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "delivery's")
	if err != nil {
		return err
	}
	if err := readNothing(w, r, s.submitBytes); err != nil {
		return err
	}
	d, err := s.webhooks.Redeliver(r.Context(), by(r), id)
	if err != nil {
		return err
	}
	return write(w, http.StatusAccepted, "application/json", view(d, writeDelivery))
}

func writeDelivery(w *jsonWriter, d webhooks.Delivery) {
	w.begin('{')
	writeDeliveryMembers(w, d)
	w.end('}')
}

// writeDeliveryMembers writes a delivery without its braces.
func writeDeliveryMembers(w *jsonWriter, d webhooks.Delivery) {
	w.text("id", d.ID.String())
	w.text("webhook_id", d.EndpointID.String())
	w.text("event_id", d.EventID.String())
	w.text("type", d.Type)
	w.idOrNull("command_id", d.CommandID)
	w.integer("sequence", int64(d.Sequence))
	w.time("at", d.At)
	w.text("state", string(d.State))
	w.timeOrNull("held_until", d.HeldUntil)
	if d.State == webhooks.DeliveryPending {
		w.time("next_at", d.NextAt)
	} else {
		w.null("next_at")
	}
	w.timeOrNull("ended_at", d.EndedAt)
	w.integer("tries", int64(d.Tries))
	w.integerOrNull("status", int64(d.Status))
	w.optional("failure", string(d.Failure))
	w.optional("detail", d.Detail)
}

// writeAccount adds what was sent and every try.
func writeAccount(w *jsonWriter, a webhooks.Account) {
	w.begin('{')
	writeDeliveryMembers(w, a.Delivery)
	w.raw("payload", a.Payload)
	w.array("log", len(a.Log), func(i int) {
		try := a.Log[i]
		w.begin('{')
		w.integer("number", int64(try.Number))
		w.time("at", try.At)
		w.integer("duration_ms", try.Duration.Milliseconds())
		w.text("instance", try.Instance)
		w.integerOrNull("status", int64(try.Status))
		w.optional("failure", string(try.Failure))
		w.optional("detail", try.Detail)
		w.optional("excerpt", try.Excerpt)
		w.timeOrNull("next_at", try.NextAt)
		w.end('}')
	})
	w.end('}')
}
