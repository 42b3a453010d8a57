package attempts_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/commands"
	"executor/internal/testkit"
)

// TestChaos: three processes lose their database, their commits and the queue's
// rows over and over, and the upstream loses answers, stalls and throttles. In
// the end every command is final and everything that must hold does.
func TestChaos(t *testing.T) {
	t.Parallel()
	pool := database(t)
	up := newLedger(t, moody)
	var crew []*mortal
	for range 3 {
		crew = append(crew, startMortal(t, pool, options{}))
	}
	crew[0].apply(t, brief("up", up.URL, short, "limits: {max_in_flight: 12}"))
	calm := make(chan struct{})
	var storm sync.WaitGroup
	ends := sync.OnceFunc(func() { close(calm); storm.Wait() })
	defer ends()
	for _, m := range crew {
		m.proxy.OnCommit(sometimesLost(calm))
		storm.Go(func() { m.outages(calm) })
	}
	storm.Go(func() { breakQueue(t, pool, calm) })

	ids := submitAll(t, crew, 120)
	eventually(t, "a third of the commands' ends", func() bool {
		return count(t, pool, `SELECT count(*) AS n FROM commands WHERE finalized_at IS NOT NULL`) >= len(ids)/3
	})
	ends()
	for _, id := range ids {
		crew[0].final(t, id)
	}
	for _, m := range crew {
		m.stop()
	}
	up.verify(t, pool)
	for _, met := range query[struct {
		What string
		N    int
	}](t, pool, `
		SELECT evidence || ' ' || category || ' ' || split_part(detail, ':', 1) AS what, count(*) AS n FROM attempts WHERE category <> 'none' OR detail <> '' GROUP BY 1
		UNION ALL SELECT 'late evidence ' || effect, count(*) FROM findings GROUP BY 1
		UNION ALL SELECT 'ended ' || state, count(*) FROM commands GROUP BY 1 ORDER BY 1`) {
		t.Logf("%4d %s", met.N, met.What)
	}
}

// moody answers most requests and does anything to the rest, less often to later
// ones.
func moody(w http.ResponseWriter, r *http.Request, _ string, n int) {
	switch rand.IntN(14 * n) {
	case 0:
		drop(w)
	case 1:
		hang(r, nil)
	case 2:
		reply(w, 503, `{}`)
	case 3:
		w.Header().Set("Retry-After", "1")
		reply(w, 429, `{}`)
	case 4:
		reply(w, 422, `{"code":"no"}`)
	default:
		reply(w, 201, paid)
	}
}

func sometimesLost(calm <-chan struct{}) func(testkit.Commit) testkit.Fate {
	return func(testkit.Commit) testkit.Fate {
		select {
		case <-calm:
			return testkit.Fate{}
		default:
			return testkit.Fate{LoseRequest: rand.IntN(40) == 0, LoseReply: rand.IntN(40) == 0}
		}
	}
}

// outages cuts the process off now and then, briefly or until others have taken
// its work over.
func (m *mortal) outages(calm <-chan struct{}) {
	defer m.proxy.Mend()
	for {
		for _, step := range []func(){m.proxy.Cut, m.proxy.Mend} {
			select {
			case <-calm:
				return
			case <-time.After(rand.N(2 * shortLease)):
				step()
			}
		}
	}
}

func breakQueue(t *testing.T, pool *pgxpool.Pool, calm <-chan struct{}) {
	for {
		select {
		case <-calm:
			return
		case <-time.After(rand.N(time.Second)):
			if _, err := pool.Exec(context.Background(), `DELETE FROM river_job WHERE random() < 0.3`); err != nil {
				t.Error(err)
			}
		}
	}
}

// submitAll submits through whichever process takes it.
func submitAll(t *testing.T, crew []*mortal, n int) []uuid.UUID {
	t.Helper()
	ids := make([]uuid.UUID, n)
	var callers sync.WaitGroup
	for i := range ids {
		callers.Go(func() {
			s := order(fmt.Sprintf("k%d", i), []string{"pay", "charge"}[i%2])
			for try := i; ; try++ {
				a, err := crew[try%len(crew)].commands.Submit(context.Background(), s)
				if err == nil {
					ids[i] = a.Command.ID
					return
				}
				if !errors.Is(err, commands.ErrUnavailable) {
					t.Errorf("submit: %v", err)
					return
				}
				<-time.After(20 * time.Millisecond) // a caller does not ask as fast as it can
			}
		})
	}
	callers.Wait()
	return ids
}
