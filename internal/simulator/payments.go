package simulator

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// payment is a payment or a charge.
type payment struct {
	ID        string          `json:"id"`
	Object    string          `json:"object"` // payment, charge
	State     string          `json:"state"`  // pending, done, errored
	Account   string          `json:"account,omitempty"`
	Reference string          `json:"client_reference"`
	Amount    json.RawMessage `json:"amount,omitempty"`
	CreatedAt time.Time       `json:"created_at"`
	Link      string          `json:"link,omitempty"`
	Error     *failure        `json:"error,omitempty"` // of an errored one

	key       string
	behavior  Behavior // that it was made under
	hidden    bool     // from searches, for good
	visibleAt time.Time
	found     int    // times that a question found it
	finish    func() // ends the pending state; nil once it has
}

type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// create makes a payment, once per key.
func create(object, prefix, account string) handler {
	return func(x *exchange, c claim) answer {
		if c.replay != nil {
			return c.replay.with("Idempotent-Replayed", "true")
		}
		if !x.behavior.commits() && !x.behavior.lies() {
			return x.withoutEffect(c)
		}
		x.sim.mu.Lock()
		defer x.sim.mu.Unlock()
		p := x.newPayment(object, prefix, account)
		a := jsonAnswer(http.StatusCreated, p).with("Location", "/v1/"+object+"s/"+p.ID)
		switch b := x.behavior; {
		case b.lies():
			c.store(a)
		case b.pends():
			a = x.begin(p, c)
		case b.errored:
			x.fail(p)
			a = jsonAnswer(http.StatusPaymentRequired, p)
			x.after(b.effectAfter, func() { x.commit(p, c, a) })
		default:
			x.after(b.effectAfter, func() { x.commit(p, c, a) })
		}
		return a
	}
}

// withoutEffect answers for a request that is not carried out, as if it might
// have been. Only an error that the upstream stores keeps the key.
func (x *exchange) withoutEffect(c claim) answer {
	a := answer{}.as(cmp.Or(x.behavior.status, http.StatusServiceUnavailable))
	if !x.behavior.storeErrors {
		c.release()
		return a
	}
	x.sim.mu.Lock()
	defer x.sim.mu.Unlock()
	c.store(a)
	return a
}

func (x *exchange) newPayment(object, prefix, account string) *payment {
	x.sim.ids++
	p := &payment{
		ID: fmt.Sprintf("%s_%d", prefix, x.sim.ids), Object: object, State: "done", Account: account,
		Reference: x.rec.Reference, Amount: x.fields.Amount, CreatedAt: time.Now().UTC(), key: x.rec.Key, behavior: x.behavior,
	}
	if p.Reference == "" {
		p.Reference = p.key
	}
	return p
}

// after does it now, or d later. The lock is held.
func (x *exchange) after(d time.Duration, fn func()) {
	if d == 0 {
		fn()
		return
	}
	x.sim.later(d, fn)
}

// fail makes the payment one that moved no money.
func (x *exchange) fail(p *payment) {
	p.State, p.Error = "errored", &failure{"card_declined", "simulated: the card was declined"}
}

// commit makes the payment final, and its effect true unless it failed. The lock
// is held.
func (x *exchange) commit(p *payment, c claim, a answer) {
	x.show(p)
	if status := x.behavior.status; x.behavior.storeErrors && status >= 400 {
		a = a.as(status)
	}
	x.settle(p, c, a)
}

// settle ends what became of the request: its answer is stored under the key.
func (x *exchange) settle(p *payment, c claim, a answer) {
	p.finish = nil
	if p.State == "done" {
		x.addEffect(p.ID)
	}
	c.store(a)
	if x.behavior.notice > 0 {
		x.sim.notifyLater(x.behavior.notice, p)
	}
}

// begin answers 202 now and makes the effect true later. The lock is held.
func (x *exchange) begin(p *payment, c claim) answer {
	p.State = "pending"
	link := x.link(p)
	x.show(p)
	a := jsonAnswer(http.StatusAccepted, p)
	if name := cmp.Or(x.behavior.link, "Location"); name != "none" && name != "body" {
		a = a.with(name, link)
	}
	c.store(a)
	p.finish = func() {
		p.State = "done"
		if x.behavior.errored {
			x.fail(p)
		}
		x.settle(p, c, jsonAnswer(http.StatusCreated, p))
	}
	if x.behavior.pending > 0 {
		x.sim.later(x.behavior.pending, p.finish)
	}
	return a
}

// link is where the state of a payment that was accepted can be seen.
func (x *exchange) link(p *payment) string {
	link := "/v1/" + p.Object + "s/" + p.ID
	if to := x.behavior.linkTo; to != "" {
		link = strings.ReplaceAll(to, "{id}", p.ID)
		x.sim.links.set(link, p)
	}
	if x.behavior.link == "body" {
		p.Link = link
	}
	return link
}

// show makes the payment findable, in searches only after the lag.
func (x *exchange) show(p *payment) {
	p.hidden = x.behavior.lag == forever
	p.visibleAt = time.Now().Add(max(x.behavior.lag, 0))
	x.sim.payments.set(p.ID, p)
	if b := x.behavior.lookup; b != nil {
		x.sim.lookups.set(p.ID, b)
	}
}

func (x *exchange) addEffect(id string) {
	x.sim.ledger.addEffect(Effect{
		Time: time.Now(), Key: x.rec.Key, Reference: x.rec.Reference, Path: x.rec.Path, ID: id, Request: x.rec.Number,
		Body: x.rec.Body, BodySHA256: hex.EncodeToString(x.sum[:]),
	})
}
