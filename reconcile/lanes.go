package reconcile

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"executor/upstreams"
)

// lanes are the upstreams as this process asks them: each with its own permits and
// its own rate, beside those of attempts.
type lanes struct {
	mu   sync.Mutex
	byID map[int64]*lane
	read time.Time // when they were
}

type lane struct {
	upstream upstreams.Upstream
	permits  int
	limiter  *rate.Limiter
}

// defaultLimits are used where the newest profile cannot be read.
var defaultLimits = upstreams.LookupLimits{MaxInFlight: 4, Rate: &upstreams.Rate{PerSecond: 10, Burst: 10}}

// lanesAge is how old the limits may be that a process works by.
const lanesAge = time.Second

// refreshLanes reads the newest profiles, and by how many processes their limits
// are shared.
func (e *Engine) refreshLanes(ctx context.Context) error {
	if e.lanes.fresh() {
		return nil
	}
	list, err := e.store.upstreams.All(ctx)
	if err != nil {
		return err
	}
	var lives int
	err = e.store.pool.QueryRow(ctx, `SELECT count(*) FROM leases WHERE ended_at IS NULL AND expires_at > clock_timestamp()`).Scan(&lives)
	if err != nil {
		return fmt.Errorf("count leases: %w", err)
	}
	e.lanes.set(list, max(1, lives))
	return nil
}

func (l *lanes) fresh() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.read) < lanesAge
}

func (l *lanes) set(list []upstreams.Upstream, lives int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, u := range list {
		limits := u.Profile.Limits.Lookups
		if u.Unreadable != nil {
			limits = defaultLimits
		}
		if l.byID[u.ID] == nil {
			l.byID[u.ID] = &lane{limiter: rate.NewLimiter(rate.Inf, 1)}
		}
		at := l.byID[u.ID]
		at.upstream, at.permits = u, share(limits.MaxInFlight, lives)
		at.limit(limits.Rate, lives)
	}
	l.read = time.Now()
}

// limit sets the rate, where it is another than before: to set it anew would fill
// the bucket.
func (l *lane) limit(r *upstreams.Rate, lives int) {
	limit, burst := rate.Inf, 1
	if r != nil {
		limit, burst = rate.Limit(r.PerSecond/float64(lives)), share(r.Burst, lives)
	}
	if l.limiter.Limit() != limit || l.limiter.Burst() != burst {
		l.limiter = rate.NewLimiter(limit, burst)
	}
}

// share is one process's part of a limit that holds for the deployment.
func share(limit, lives int) int { return max(1, limit/lives) }

// rooms says how many rounds may be begun at each upstream. The first in the list
// is another one each time, for when there is not room for all.
func (l *lanes) rooms(busy map[int64]int, limit int) []room {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []room
	for id, at := range l.byID {
		free := at.permits - busy[id]
		if at.limiter.Limit() != rate.Inf {
			free = min(free, int(at.limiter.Tokens()))
		}
		if free > 0 {
			list = append(list, room{id, free})
		}
	}
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	for i := range list {
		list[i].rounds = min(list[i].rounds, limit)
		if limit -= list[i].rounds; limit == 0 {
			return list[:i+1]
		}
	}
	return list
}

// turn takes the place of one request in the upstream's rate and says how long it
// has to wait.
func (l *lanes) turn(upstreamID int64) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := l.byID[upstreamID]; at != nil {
		return at.limiter.Reserve().Delay()
	}
	return 0
}

// newest is the upstream as it was read last.
func (l *lanes) newest(upstreamID int64) upstreams.Upstream {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := l.byID[upstreamID]; at != nil {
		return at.upstream
	}
	return upstreams.Upstream{}
}
