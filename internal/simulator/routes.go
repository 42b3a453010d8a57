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
	State     string          `json:"state"`  // pending, done
	Account   string          `json:"account,omitempty"`
	Reference string          `json:"client_reference"`
	Amount    json.RawMessage `json:"amount,omitempty"`
	CreatedAt time.Time       `json:"created_at"`

	key       string
	hidden    bool // from searches, for good
	visibleAt time.Time
}

// account is what a PUT has last made of it.
type account struct {
	body []byte
}

// route is what a method and a path are there for.
type route struct {
	run   handler
	keyed bool // an idempotency key makes it happen once
}

// handler does it, under the behaviour, and returns the answer of an upstream
// that works.
type handler func(x *exchange, c claim) answer

const tokenPath = "/oauth/token"

func (x *exchange) route() route {
	path := strings.Split(strings.Trim(x.head.URL.Path, "/"), "/")
	name := "" // the third segment
	if len(path) > 2 && path[0] == "v1" {
		name, path[2] = path[2], "*"
	}
	switch x.head.Method + " /" + strings.Join(path, "/") {
	case "POST /v1/accounts/*/payments":
		return route{create("payment", "pay", name), true}
	case "POST /v1/charges":
		return route{create("charge", "ch", ""), true}
	case "PUT /v1/accounts/*":
		return route{putAccount(name), false}
	case "GET /v1/accounts/*":
		return route{getAccount(name), false}
	case "GET /v1/payments/*", "GET /v1/charges/*":
		return route{getPayment(name), false}
	case "GET /v1/payments":
		return route{search("payment"), false}
	case "GET /v1/charges":
		return route{search("charge"), false}
	case "POST " + tokenPath:
		return route{issueToken, false}
	default:
		return route{notFound, false}
	}
}

func notFound(x *exchange, _ claim) answer {
	return problem(http.StatusNotFound, "not_found", "There is no "+x.head.Method+" "+x.head.URL.Path+" here; GET / tells what there is.")
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
		case b.pending != 0:
			a = x.begin(p, c)
		case b.effectAfter > 0:
			x.sim.later(b.effectAfter, func() { x.commit(p, c, a) })
		default:
			x.commit(p, c, a)
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
		Reference: x.rec.Reference, Amount: x.fields.Amount, CreatedAt: time.Now().UTC(), key: x.rec.Key,
	}
	if p.Reference == "" {
		p.Reference = p.key
	}
	return p
}

// commit makes the effect true. The lock is held.
func (x *exchange) commit(p *payment, c claim, a answer) {
	x.show(p)
	x.addEffect(p.ID)
	if status := x.behavior.status; x.behavior.storeErrors && status >= 400 {
		a = a.as(status)
	}
	c.store(a)
}

// begin answers 202 now and makes the effect true later. The lock is held.
func (x *exchange) begin(p *payment, c claim) answer {
	p.State = "pending"
	x.show(p)
	a := jsonAnswer(http.StatusAccepted, p).with("Location", "/v1/"+p.Object+"s/"+p.ID)
	c.store(a)
	if x.behavior.pending != forever {
		x.sim.later(x.behavior.pending, func() {
			p.State = "done"
			c.store(jsonAnswer(http.StatusCreated, p))
			x.addEffect(p.ID)
		})
	}
	return a
}

// show makes the payment findable, in searches only after the lag.
func (x *exchange) show(p *payment) {
	p.hidden = x.behavior.lag == forever
	p.visibleAt = time.Now().Add(max(x.behavior.lag, 0))
	x.sim.payments.set(p.ID, p)
}

func (x *exchange) addEffect(id string) {
	x.sim.ledger.addEffect(Effect{
		Time: time.Now(), Key: x.rec.Key, Reference: x.rec.Reference, Path: x.rec.Path, ID: id, Request: x.rec.Number,
		Body: x.rec.Body, BodySHA256: hex.EncodeToString(x.sum[:]),
	})
}

// putAccount is idempotent by nature: it makes the account what the body says,
// however often. Each time counts as an effect.
func putAccount(id string) handler {
	return func(x *exchange, _ claim) answer {
		if !x.behavior.commits() && !x.behavior.lies() {
			return x.withoutEffect(claim{})
		}
		x.sim.mu.Lock()
		defer x.sim.mu.Unlock()
		effect := func() {
			x.sim.accounts.set(id, &account{x.rec.Body})
			x.addEffect(id)
		}
		switch {
		case x.behavior.lies():
		case x.behavior.effectAfter > 0:
			x.sim.later(x.behavior.effectAfter, effect)
		default:
			effect()
		}
		return accountAnswer(id, x.body)
	}
}

func accountAnswer(id string, body []byte) answer {
	return jsonAnswer(http.StatusOK, map[string]any{"id": id, "object": "account", "data": Body(body)})
}

func getAccount(id string) handler {
	return func(x *exchange, _ claim) answer {
		x.sim.mu.Lock()
		defer x.sim.mu.Unlock()
		if found, ok := x.sim.accounts.get(id); ok {
			return accountAnswer(id, found.body)
		}
		return problem(http.StatusNotFound, "not_found", "There is no such account.")
	}
}

func getPayment(id string) handler {
	return func(x *exchange, _ claim) answer {
		x.sim.mu.Lock()
		defer x.sim.mu.Unlock()
		if p, ok := x.sim.payments.get(id); ok {
			return jsonAnswer(http.StatusOK, p)
		}
		return problem(http.StatusNotFound, "not_found", "There is no such payment.")
	}
}

// searchLimit is how many payments a search returns at most.
const searchLimit = 100

// search finds payments by client_reference or key, the newest first, once their
// lag is over.
func search(object string) handler {
	return func(x *exchange, _ claim) answer {
		query := x.head.URL.Query()
		x.sim.mu.Lock()
		defer x.sim.mu.Unlock()
		items := []*payment{}
		for p := range x.sim.payments.newest {
			if p.Object == object && p.visible() && matches(query.Get("client_reference"), p.Reference) && matches(query.Get("key"), p.key) && len(items) < searchLimit {
				items = append(items, p)
			}
		}
		return jsonAnswer(http.StatusOK, map[string]any{"items": items})
	}
}

func (p *payment) visible() bool { return !p.hidden && !time.Now().Before(p.visibleAt) }
