package webhooks_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"

	"executor/internal/testkit"
	"executor/outcome"
	"executor/webhooks"
)

// TestStorm: processes lose their database again and again while outcomes come in
// and a receiver answers every third request with a failure. In the end everybody
// was told of every outcome, under one id for each.
func TestStorm(t *testing.T) {
	t.Parallel()
	const rounds, perRound = 6, 8
	database, box := testkit.DatabaseURL(t), newBox(t)
	sameKey := func(c *webhooks.Config) { c.Box = box }
	r := newRigOn(t, testkit.Open(t, database), sameKey)
	good := newReceiver(t, nil)
	moody := newReceiver(t, func(n int, _ got, w http.ResponseWriter, _ *http.Request) {
		if n%3 == 0 {
			w.WriteHeader(http.StatusBadGateway)
		}
	})
	secrets := map[*receiver]string{}
	for _, to := range []*receiver{good, moody} {
		_, secrets[to] = r.endpoint(t, to.URL, func(s *webhooks.Settings) { s.Ordered = true })
	}
	var proxies []*testkit.Proxy
	for range 3 {
		proxy := testkit.NewProxy(t, database)
		proxies = append(proxies, proxy)
		newRigOn(t, testkit.Open(t, proxy.URL), sameKey).engine(t, waits(40, 10*time.Millisecond))
	}
	var ids []uuid.UUID
	for round := range rounds {
		for i := range perRound {
			id := r.submit(t, fmt.Sprint(round, "-", i))
			r.end(t, id, outcome.StateUnresolved)
			r.end(t, id, outcome.StateSuccess)
			ids = append(ids, id)
		}
		proxies[round%3].Cut()
		good.await(t, len(ids)) // others go on
		proxies[round%3].Mend()
		r.lapse(t)
	}
	await(t, "everything is delivered", func() bool {
		r.lapse(t)
		return r.count(t, `SELECT count(*) FROM webhook_deliveries WHERE state = 'delivered'`) == 4*len(ids)
	})
	told := map[string]string{} // id by command and sequence
	for to, secret := range secrets {
		reached := map[string]bool{}
		for _, g := range to.all() {
			outcome := fmt.Sprint(g.message.Data.ID, g.message.Data.Sequence)
			if known, ok := told[outcome]; ok && known != g.id {
				t.Errorf("%s was told under the ids %s and %s", outcome, known, g.id)
			}
			if err := verify(t, g, secret); err != nil {
				t.Error(err)
			}
			told[outcome], reached[outcome] = g.id, true
			if first := fmt.Sprint(g.message.Data.ID, 1); !reached[first] {
				t.Errorf("%s came before the command's first outcome", outcome)
			}
		}
		if len(reached) != 2*len(ids) {
			t.Errorf("%d outcomes reached a receiver, want %d", len(reached), 2*len(ids))
		}
	}
	different := map[string]bool{}
	for _, id := range told {
		different[id] = true
	}
	if len(different) != 2*len(ids) {
		t.Errorf("%d ids for %d outcomes", len(different), 2*len(ids))
	}
}

// lapse lets claims end that have lasted for more than a moment, as if their time
// had passed.
func (r *rig) lapse(t testing.TB) {
	t.Helper()
	r.exec(t, `UPDATE webhook_deliveries SET claimed_until = now() WHERE claimed_until BETWEEN now() AND now() + interval '29 s'`)
}
