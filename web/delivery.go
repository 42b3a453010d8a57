package web

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"executor/commands"
	"executor/internal/operators"
	"executor/webhooks"
)

// deliveryPage is one delivery with all that is on record of it.
type deliveryPage struct {
	webhooks.Account
	Hook       *webhooks.Endpoint // nil: deleted
	HookName   string
	CommandKey string
	Operator   bool
	Reason     string
	Problem    string
}

// Summary says in words where the delivery stands and what happens next.
func (p *deliveryPage) Summary() string {
	tries := plural(p.Tries, "try", "tries")
	switch p.State {
	case webhooks.DeliveryDelivered:
		return "The receiver took it: it answered " + strconv.Itoa(p.Status) + " at the last of " + tries + "."
	case webhooks.DeliveryFailed:
		return "Given up after " + tries + ". Nothing more happens by itself; it can be sent again by hand."
	case webhooks.DeliveryDropped:
		return p.dropped()
	default:
		return p.waiting(time.Now())
	}
}

func (p *deliveryPage) dropped() string {
	if p.Hook == nil {
		return "Dropped, as its webhook was deleted."
	}
	if p.Type == webhooks.TypeChallenge {
		return "Dropped: it is not needed any more, or a new challenge takes its place."
	}
	return "Dropped before it was sent: a later outcome of the same command came first, and nobody needs to hear of this one any more."
}

func (p *deliveryPage) waiting(now time.Time) string {
	switch {
	case p.Hook == nil:
		return "Its webhook is deleted: it is about to be dropped."
	case p.Hook.VerifiedAt == nil && p.Type != webhooks.TypeChallenge:
		return "It waits: its webhook's receiver has not answered a challenge yet. It follows when it has."
	case p.Hook.DisabledAt != nil:
		return "It waits: its webhook is disabled. It follows when somebody enables that."
	case p.HeldUntil != nil && p.HeldUntil.After(now):
		return "Held back on purpose: if the command is settled before, nobody is told that it was unresolved."
	case p.NextAt.After(now):
		return "The last try did not work. The next one follows at the time below."
	default:
		return "It is due: it is being sent, or waits for its turn."
	}
}

func (s *Server) deliveryShow(v *visit) error {
	p, err := s.deliveryPage(v)
	if err != nil {
		return err
	}
	return v.render("delivery.html", "Delivery of "+p.Type, p)
}

func (s *Server) deliveryPage(v *visit) (*deliveryPage, error) {
	id, err := v.id()
	if err != nil {
		return nil, err
	}
	ctx := v.r.Context()
	p := &deliveryPage{Operator: v.may(operators.RoleOperator), HookName: "deleted"}
	if p.Account, err = s.hooks.Delivery(ctx, v.tenant, id); err != nil {
		return nil, err
	}
	e, err := s.hooks.Get(ctx, v.tenant, p.EndpointID)
	switch {
	case err == nil:
		p.Hook, p.HookName = &e, hookName(e)
	case !errors.Is(err, webhooks.ErrNotFound):
		return nil, err
	}
	if p.CommandID != nil {
		p.CommandKey, err = s.commandKey(v, *p.CommandID)
	}
	return p, err
}

// commandKey is the key of a command, or its id where the command is gone.
func (s *Server) commandKey(v *visit, id uuid.UUID) (string, error) {
	c, err := s.commands.Get(v.r.Context(), v.tenant, id)
	if errors.Is(err, commands.ErrNotFound) {
		return id.String(), nil
	}
	return c.Key, err
}

// deliverAgain sends an event once more. What was tried since the page was opened
// is looked at first.
func (s *Server) deliverAgain(v *visit) error {
	p, err := s.deliveryPage(v)
	if err != nil {
		return err
	}
	p.Reason = v.form("reason")
	switch {
	case v.form("tries") != strconv.Itoa(p.Tries) || v.form("state") != string(p.State):
		p.Problem = "It was tried after you opened the page, and it is " + string(p.State) + " now. Nothing more was done: look again."
		return v.renderStatus(http.StatusConflict, "delivery.html", "Delivery of "+p.Type, p)
	case p.Reason == "":
		p.Problem = errNoReason.Detail
		return v.renderStatus(http.StatusUnprocessableEntity, "delivery.html", "Delivery of "+p.Type, p)
	}
	_, err = s.hooks.Redeliver(v.r.Context(), v.hookBy(p.Reason), p.ID)
	var (
		refused *webhooks.Refused
		busy    *webhooks.Busy
	)
	switch {
	case errors.As(err, &refused):
		p.Problem = refused.Detail
		return v.renderStatus(http.StatusConflict, "delivery.html", "Delivery of "+p.Type, p)
	case errors.As(err, &busy):
		p.Problem = sentence(busy.Error()) + "."
		return v.renderStatus(http.StatusTooManyRequests, "delivery.html", "Delivery of "+p.Type, p)
	}
	v.tellIf(err, "It is due once more, under the same event id.")
	if err != nil {
		return err
	}
	return v.redirect("/deliveries/" + p.ID.String())
}

// tryView is a try in words.
type tryView struct {
	webhooks.Try
	Words string
}

// Tries are the tries, the newest first.
func (p *deliveryPage) TryList() []tryView {
	list := make([]tryView, 0, len(p.Log))
	for i := len(p.Log) - 1; i >= 0; i-- {
		list = append(list, tryView{p.Log[i], tryWords(p.Log[i])})
	}
	return list
}

// tryWords says what a try shows, and what it does not.
func tryWords(t webhooks.Try) string {
	if words, ok := failureWords[t.Failure]; ok {
		return words
	}
	return "It did not work: " + string(t.Failure) + "."
}

var failureWords = map[webhooks.Failure]string{
	webhooks.FailureNone:             "Taken.",
	webhooks.FailureUnreachable:      "Not sent: nothing could be connected to.",
	webhooks.FailureUnproven:         "Taken, but the answer does not hold the challenge.",
	webhooks.FailureTLS:              "Not sent: no secure connection came about.",
	webhooks.FailureTimeout:          "No answer in time. The receiver may have it all the same.",
	webhooks.FailureConnectionLost:   "The connection ended before an answer. The receiver may have it all the same.",
	webhooks.FailureResponseInvalid:  "What came back is no HTTP answer.",
	webhooks.FailureRedirect:         "Answered with a redirect, which is not followed.",
	webhooks.FailureGone:             "Answered 410: the receiver wants no more, and the webhook was disabled.",
	webhooks.FailureRefused:          "Not taken: only a 2xx is a yes.",
	webhooks.FailureInterrupted:      "Our process stopped meanwhile. The try does not count, and another follows.",
	webhooks.FailureSecretUnreadable: "Not sent: this process cannot read the webhook's secret. EXECUTOR_ENCRYPTION_KEY is missing there, or another one.",
}
