package simulator

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// maxHooks is how many hooks' settings are remembered.
const maxHooks = 1000

const hooksPath = "/_hooks/"

// hook is a receiver of webhooks. One that was never set works.
type hook struct {
	behavior Behavior
	secret   string // Standard Webhooks; "" = signatures are not looked at
}

// isDelivery says whether a request is a webhook that comes in.
func isDelivery(head *http.Request) bool {
	return head.Method == http.MethodPost && strings.HasPrefix(head.URL.Path, hooksPath) && nameOfHook(head.URL.Path) != ""
}

func nameOfHook(path string) string { return strings.TrimPrefix(path, hooksPath) }

func (x *exchange) hookName() string { return nameOfHook(x.head.URL.Path) }

func (s *Simulator) behaviorOfHook(name string) Behavior {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, _ := s.hooks.get(name)
	return h.behavior
}

// received answers a webhook as a receiver that works.
func received(x *exchange, _ claim) answer {
	s := x.sim
	s.mu.Lock()
	defer s.mu.Unlock()
	if h, _ := s.hooks.get(x.hookName()); h.secret != "" {
		ok := verifyStandard(h.secret, x.head.Header, x.body, time.Now())
		x.rec.Verified = &ok
	}
	if asked := challengeIn(x.body); asked != "" {
		return jsonAnswer(http.StatusOK, map[string]string{"challenge": asked})
	}
	return jsonAnswer(http.StatusOK, map[string]bool{"received": true})
}

// challengeIn is what a webhook.challenge asks to be answered; "" for another event.
func challengeIn(body []byte) string {
	var m struct {
		Type string
		Data struct{ Challenge string }
	}
	if json.Unmarshal(body, &m) != nil || m.Type != "webhook.challenge" {
		return ""
	}
	return m.Data.Challenge
}

// SetHook says how the receiver of webhooks at /_hooks/{name} answers, and with
// which secret (Standard Webhooks) it checks signatures, if any.
func (s *Simulator) SetHook(name, behavior, secret string) error {
	b, err := ParseBehavior(behavior)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks.set(name, hook{b, secret})
	return nil
}

// Deliveries returns the webhooks that came to /_hooks/{name}, oldest first; the
// empty name stands for every hook. Their Key is the webhook-id.
func (s *Simulator) Deliveries(name string) []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []Request
	for _, r := range s.ledger.hooks {
		path, _, _ := strings.Cut(r.Path, "?")
		if matches(name, nameOfHook(path)) {
			found = append(found, *r)
		}
	}
	return found
}

func (s *Simulator) adminHook(head *http.Request, body []byte) answer {
	name := nameOfHook(head.URL.Path)
	switch head.Method {
	case http.MethodGet:
		data := append([]Request{}, s.Deliveries(name)...)
		return listing(head, data, s.droppedEntries())
	case http.MethodPut:
		return s.putHook(name, body)
	case http.MethodDelete:
		s.forgetHook(name)
		return answer{status: http.StatusNoContent}
	default:
		return nothingHere(head)
	}
}

func (s *Simulator) putHook(name string, body []byte) answer {
	var set struct {
		Behavior string `json:"behavior"`
		Secret   string `json:"secret"`
	}
	if err := json.Unmarshal(body, &set); err != nil || name == "" {
		return problem(http.StatusBadRequest, "malformed", `The body must be an object such as {"behavior": "times=2;status=503", "secret": "whsec_…"}, and the hook have a name.`)
	}
	if err := s.SetHook(name, set.Behavior, set.Secret); err != nil {
		return problem(http.StatusBadRequest, "unknown_behavior", err.Error())
	}
	return jsonAnswer(http.StatusOK, map[string]any{"name": name, "behavior": set.Behavior, "verifies": set.Secret != ""})
}

// forgetHook forgets how it answers, what came to it, and how often.
func (s *Simulator) forgetHook(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks.delete(name)
	var rest []*Request
	for _, r := range s.ledger.hooks {
		if path, _, _ := strings.Cut(r.Path, "?"); nameOfHook(path) != name {
			rest = append(rest, r)
		}
	}
	s.ledger.hooks = rest
	s.ledger.notify()
}
