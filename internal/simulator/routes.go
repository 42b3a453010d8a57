package simulator

import (
	"net/http"
	"strings"
)

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
		return route{x.elsewhere(), false}
	}
}

// elsewhere is a path that is a hook, that a link was given to, or nothing.
func (x *exchange) elsewhere() handler {
	if x.rec.Kind == KindHook {
		return received
	}
	if x.rec.Kind == KindLookup {
		if _, ok := x.linked(); ok {
			return followLink
		}
	}
	return notFound
}

func notFound(x *exchange, _ claim) answer {
	return nothingHere(x.head)
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
