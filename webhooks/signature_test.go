package webhooks_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"executor/outcome"
	"executor/webhooks"
)

// TestRotationBetweenTries: the next try of a delivery is signed anew, with the
// secrets of that moment, under the same id, over the same bytes.
func TestRotationBetweenTries(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	to := newReceiver(t, func(n int, _ got, w http.ResponseWriter, _ *http.Request) {
		if n < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	e, old := r.endpoint(t, to.URL)
	r.engine(t, waits(5, time.Hour))
	id := r.ended(t, "k", outcome.StateSuccess)
	var fresh string
	for n := 1; n <= 2; n++ {
		await(t, "a failed try", func() bool { return r.one(t, id).Tries == n })
		overlap := map[int]time.Duration{1: time.Hour, 2: 0}[n] // the second time it had leaked
		var err error
		if _, fresh, err = r.hooks.RotateSecret(t.Context(), by(tenant), e.ID, 0, overlap); err != nil {
			t.Fatal(err)
		}
		first := to.all()[0].header.Get("webhook-timestamp")
		await(t, "another second", func() bool { return strconv.FormatInt(time.Now().Unix(), 10) > first })
		r.exec(t, `UPDATE webhook_deliveries SET next_at = now()`) // an hour passes
	}
	r.awaitState(t, id, webhooks.DeliveryDelivered)
	list := to.all()
	for i, signed := range []struct{ byOld, byFresh bool }{{true, false}, {true, false}, {false, true}} {
		g := list[i]
		if (verify(t, g, old) == nil) != signed.byOld || (verify(t, g, fresh) == nil) != signed.byFresh {
			t.Errorf("try %d is signed by the old secret: %v, by the newest: %v", i+1, verify(t, g, old), verify(t, g, fresh))
		}
		if g.id != list[0].id || string(g.body) != string(list[0].body) {
			t.Errorf("try %d has another id or other bytes", i+1)
		}
	}
	if a, b := list[0].header.Get("webhook-timestamp"), list[2].header.Get("webhook-timestamp"); a >= b {
		t.Errorf("the first try was signed at %s, the last at %s", a, b)
	}
}
