package simulator

import (
	"net/http"
	"time"
)

// keyRecord is what an upstream knows of an idempotency key.
type keyRecord struct {
	digest  string  // path and body of the first request; "" if it was answered unread
	answer  *answer // nil while the first request is in the works
	expires time.Time
}

// claim is a request's hold on its key. The zero claim holds none.
type claim struct {
	sim    *Simulator
	key    string
	record *keyRecord
	replay *answer // what an earlier request with this key was answered
}

// claim takes the key for this request, finds the answer of an earlier one, or
// refuses: a key belongs to one request, and one of its kind at a time.
func (x *exchange) claim(r route) (claim, *answer) {
	if !r.keyed || x.rec.Key == "" || x.behavior.noReplay {
		return claim{}, nil
	}
	s := x.sim
	s.mu.Lock()
	defer s.mu.Unlock()
	digest := ""
	if !x.behavior.early {
		digest = x.rec.Path + " " + string(x.sum[:])
	}
	known, ok := s.keys.get(x.rec.Key)
	switch {
	case !ok || time.Now().After(known.expires):
		s.keys.delete(x.rec.Key)
		fresh := &keyRecord{digest: digest, expires: time.Now().Add(x.retention())}
		s.keys.set(x.rec.Key, fresh)
		return claim{sim: s, key: x.rec.Key, record: fresh}, nil
	case known.digest != digest && known.digest != "" && digest != "":
		a := problem(http.StatusUnprocessableEntity, "idempotency_key_reused", "This key was used with another request.")
		return claim{}, &a
	case known.answer == nil:
		a := problem(http.StatusConflict, "in_progress", "A request with this key is in progress.").with("Retry-After", "1")
		return claim{}, &a
	default:
		x.rec.Replayed = true
		return claim{replay: known.answer}, nil
	}
}

func (x *exchange) retention() time.Duration {
	if x.behavior.retention > 0 {
		return x.behavior.retention
	}
	return x.sim.cfg.Retention
}

// store keeps the answer for those who come with the same key. The simulator's
// lock is held.
func (c claim) store(a answer) {
	if c.record != nil {
		c.record.answer = &a
	}
}

// release forgets the key again, if nothing was stored under it.
func (c claim) release() {
	if c.record == nil {
		return
	}
	c.sim.mu.Lock()
	defer c.sim.mu.Unlock()
	if known, _ := c.sim.keys.get(c.key); known == c.record && known.answer == nil {
		c.sim.keys.delete(c.key)
	}
}
