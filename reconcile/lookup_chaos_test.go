package reconcile_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"executor/outcome"
	"executor/reconcile"
)

// oracle answers by the key: how often it was asked, and whether by two at once.
type oracle struct {
	mu     sync.Mutex
	asking map[string]int
	asked  map[string]int
	twice  int
}

func (o *oracle) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.FormValue("client_reference")
	o.mu.Lock()
	if o.asking[key]++; o.asking[key] > 1 {
		o.twice++
	}
	o.asked[key]++
	n := o.asked[key]
	o.mu.Unlock()
	<-time.After(time.Duration(rand.IntN(60)) * time.Millisecond) // some are cut off here
	o.mu.Lock()
	o.asking[key]--
	o.mu.Unlock()
	switch kind, _, _ := strings.Cut(key, "-"); {
	case kind == "absent":
		answer(w, 200, nothing)
	case n == 1:
		answer(w, 503, `{}`)
	case kind == "refused":
		answer(w, 200, failed)
	default:
		answer(w, 200, done)
	}
}

// TestProcessesThatDieAllTheTime: two processes follow up doubts, and one of them is
// always about to be killed. Everything ends as the upstream says, and nobody is
// asked about one command twice at once.
func TestProcessesThatDieAllTheTime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	o := &oracle{asking: map[string]int{}, asked: map[string]int{}}
	up := newServer(t, o.ServeHTTP)
	source := profileFor(up.URL, byKey(often+"\nabsence: {settles_after: 1s, confirmations: 2, spacing: 200ms}"),
		"limits: {lookups: {max_in_flight: 8, rate: {per_second: 1000, burst: 100}}}")
	r.apply(t, strings.Replace(source, "total: 2s", "total: 500ms", 1))
	want := map[string]outcome.State{
		"applied": outcome.StateSuccess, "refused": outcome.StateRejected, "absent": outcome.StateCancelled,
	}
	ids := map[uuid.UUID]outcome.State{}
	for kind, state := range want {
		for i := range 10 {
			ids[r.unresolved(t, fmt.Sprint(kind, "-", i), lost)] = state
		}
	}
	short := func(c *reconcile.EngineConfig) { c.Margin = 500 * time.Millisecond }
	killed, cancel := context.WithCancel(context.Background())
	cancel()
	open := func() int { return r.count(t, `SELECT count(*) FROM commands WHERE state = 'unresolved'`) }
	engines := []*reconcile.Engine{r.start(t, short), r.start(t, short)}
	for i := 0; open() > 0; i++ {
		questions := len(up.asked(""))
		eventually(t, "more questions, or an end", func() bool { return len(up.asked("")) > questions+5 || open() == 0 })
		engines[i%2].Stop(killed)
		engines[i%2] = r.start(t, short)
	}
	for id, state := range ids {
		if c := r.get(t, id); c.State != state {
			t.Errorf("%s is %s: %s", c.Key, c.State, r.findings(t, id))
		}
	}
	if o.twice > 0 {
		t.Errorf("%d questions were put while the same was under way", o.twice)
	}
	if n := r.count(t, `SELECT count(*) FROM (SELECT FROM lookups WHERE counts GROUP BY command_id HAVING count(*) <> 2) odd`); n > 0 {
		t.Errorf("%d absences were confirmed by another number of lookups than two", n)
	}
}
