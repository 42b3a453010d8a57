package simulator

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// about names what a question asks for: the key and reference it searches by, or
// those of the payment that its path leads to. A scan asks for nothing certain.
func (x *exchange) about() []string {
	path, query := x.head.URL.Path, x.head.URL.Query()
	names := []string{query.Get("key"), query.Get("client_reference")}
	x.sim.mu.Lock()
	defer x.sim.mu.Unlock()
	p, ok := x.sim.links.get(x.rec.Path)
	if _, last, found := strings.Cut(strings.TrimPrefix(path, "/v1/"), "/"); !ok && found {
		names = append(names, last)
		p, ok = x.sim.payments.get(last)
	}
	if ok {
		names = append(names, p.ID, p.key, p.Reference)
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
}

// expectQuestions keeps what the questions about this payment shall meet.
func (x *exchange) expectQuestions() {
	b := x.behavior.lookup
	if b == nil {
		return
	}
	x.sim.mu.Lock()
	defer x.sim.mu.Unlock()
	for _, name := range []string{x.rec.Key, x.rec.Reference, accountOf(x.head)} {
		if name != "" {
			x.sim.lookups.set(name, b)
		}
	}
}

// accountOf is the account that a PUT sets, which has no other name.
func accountOf(head *http.Request) string {
	name, ok := strings.CutPrefix(head.URL.Path, "/v1/accounts/")
	if !ok || head.Method != http.MethodPut {
		return ""
	}
	return name
}

// behaviorOfLookup is what a command asked for, for the questions about it.
func (x *exchange) behaviorOfLookup() (Behavior, bool) {
	x.sim.mu.Lock()
	defer x.sim.mu.Unlock()
	for _, name := range x.rec.About {
		if b, ok := x.sim.lookups.get(name); ok {
			return *b, true
		}
	}
	return Behavior{}, false
}

func getPayment(id string) handler {
	return func(x *exchange, _ claim) answer {
		x.sim.mu.Lock()
		defer x.sim.mu.Unlock()
		if p, ok := x.sim.payments.get(id); ok {
			return x.onePayment(p)
		}
		return noPayment()
	}
}

// linked is the payment that a link of the simulator's own leads to.
func (x *exchange) linked() (*payment, bool) {
	x.sim.mu.Lock()
	defer x.sim.mu.Unlock()
	return x.sim.links.get(x.rec.Path)
}

func followLink(x *exchange, _ claim) answer {
	p, ok := x.linked()
	if !ok {
		return noPayment()
	}
	x.sim.mu.Lock()
	defer x.sim.mu.Unlock()
	return x.onePayment(p)
}

// onePayment answers with a payment that may have vanished. The lock is held.
func (x *exchange) onePayment(p *payment) answer {
	seen, ok := p.see(x.behavior)
	if !ok {
		return noPayment()
	}
	return jsonAnswer(http.StatusOK, seen)
}

func noPayment() answer {
	return problem(http.StatusNotFound, "not_found", "There is no such payment.")
}

// see is what a question finds of the payment, if it still does. Being found may
// end the pending state, unless the question's own behaviour hides the answer. The
// lock is held.
func (p *payment) see(asking Behavior) (payment, bool) {
	if asking.hides() {
		return *p, true
	}
	b := p.behavior
	if b.vanish > 0 && p.found >= b.vanish {
		return payment{}, false
	}
	if p.finish != nil && b.pendingTimes > 0 && p.found >= b.pendingTimes {
		p.finish()
	}
	p.found++
	seen := *p
	if b.amount != "" {
		seen.Amount = json.RawMessage(b.amount)
	}
	return seen, true
}

// searchLimit is how many payments a search returns at most.
const searchLimit = 100

// search finds payments by client_reference, key, account, or when they were made,
// the newest first, once their lag is over.
func search(object string) handler {
	return func(x *exchange, _ claim) answer {
		asked, err := parseQuestion(x.head)
		if err != nil {
			return problem(http.StatusBadRequest, "invalid_search", err.Error())
		}
		x.sim.mu.Lock()
		defer x.sim.mu.Unlock()
		items := []payment{}
		for p := range x.sim.payments.newest {
			if p.Object == object && p.visible() && asked.matches(p) && len(items) < searchLimit {
				items = append(items, p.copies(x.behavior)...)
			}
		}
		return jsonAnswer(http.StatusOK, map[string]any{"items": items})
	}
}

// question is what a search asks for; what is left out matches everything.
type question struct {
	reference, key, account string
	after, before           time.Time
}

func parseQuestion(head *http.Request) (q question, err error) {
	query := head.URL.Query()
	q = question{reference: query.Get("client_reference"), key: query.Get("key"), account: query.Get("account")}
	for name, at := range map[string]*time.Time{"created_after": &q.after, "created_before": &q.before} {
		if text := query.Get(name); text != "" {
			if *at, err = time.Parse(time.RFC3339, text); err != nil {
				return q, fmt.Errorf("%s %q is not a time such as 2026-01-02T15:04:05Z", name, text)
			}
		}
	}
	return q, nil
}

func (q question) matches(p *payment) bool {
	return matches(q.reference, p.Reference) && matches(q.key, p.key) && matches(q.account, p.Account) &&
		(q.after.IsZero() || !p.CreatedAt.Before(q.after)) && (q.before.IsZero() || p.CreatedAt.Before(q.before))
}

func (p *payment) visible() bool { return !p.hidden && !time.Now().Before(p.visibleAt) }

// copies is what a search shows of the payment: nothing, it, or too many. The lock
// is held.
func (p *payment) copies(asking Behavior) []payment {
	seen, ok := p.see(asking)
	if !ok {
		return nil
	}
	list := []payment{seen}
	for n := 2; n <= p.behavior.copies; n++ {
		again := seen
		again.ID = fmt.Sprintf("%s_%d", p.ID, n)
		list = append(list, again)
	}
	return list
}
