package commands

import (
	"time"

	"executor/internal/postgres"
	"executor/outcome"
)

// Tally is a word that is counted, by tenant and upstream. It has two numbers: how
// often it happened, by time, and its stock, which is how many commands there are of
// it now.
type Tally string

const (
	TallyAccepted   Tally = "accepted"   // a command was accepted; the stock is of all commands
	TallySuccess    Tally = "success"    // an outcome was announced; the stock is of the commands in that state
	TallyRejected   Tally = "rejected"   // the same
	TallyUnresolved Tally = "unresolved" // the same; again each time that one becomes unresolved anew, but not after a repeat that only asked
	TallyCancelled  Tally = "cancelled"  // the same
	TallyRetried    Tally = "retried"    // an attempt ended and another will follow; no stock
)

// Tallies lists them.
func Tallies() []Tally {
	return []Tally{TallyAccepted, TallySuccess, TallyRejected, TallyUnresolved, TallyCancelled, TallyRetried}
}

// tallyKey is whose number, and of when.
type tallyKey struct {
	tenant     string
	upstreamID int64
	minute     time.Time
	what       Tally
}

// tallyChange is by how much the two numbers change.
type tallyChange struct {
	tallyKey
	n, stock int32
}

// tallyOf sums up what moves change. A correction takes one from the stock of the
// state that was wrong and adds one to the other's.
func tallyOf(moves []Move) []tallyChange {
	var (
		list   []tallyChange
		places = map[tallyKey]int{}
	)
	for _, m := range moves {
		add := func(what Tally, n, stock int32) {
			key := tallyKey{m.Command.Tenant, m.Command.UpstreamID, m.Command.Now.Truncate(time.Minute), what}
			i, ok := places[key]
			if !ok {
				i = len(list)
				places[key], list = i, append(list, tallyChange{tallyKey: key})
			}
			list[i].n, list[i].stock = list[i].n+n, list[i].stock+stock
		}
		m.tally(add)
	}
	return list
}

func (m Move) tally(add func(what Tally, n, stock int32)) {
	from := m.Command.State
	if from.Final() {
		add(Tally(from), 0, -1)
	}
	switch {
	case m.To.Final() && m.announces():
		add(Tally(m.To), 1, 1)
	case m.To.Final():
		add(Tally(m.To), 0, 1)
	case m.To == outcome.StatePending && (from == outcome.StateExecuting || m.Attempts > m.Command.Attempts):
		add(TallyRetried, 1, 0)
	}
}

// tallyColumns are the six columns of tally_deltas, a slice each.
func tallyColumns(list []tallyChange) []any {
	return []any{
		postgres.Column(list, func(t tallyChange) string { return t.tenant }),
		postgres.Column(list, func(t tallyChange) int64 { return t.upstreamID }),
		postgres.Column(list, func(t tallyChange) time.Time { return t.minute }),
		postgres.Column(list, func(t tallyChange) string { return string(t.what) }),
		postgres.Column(list, func(t tallyChange) int32 { return t.n }),
		postgres.Column(list, func(t tallyChange) int32 { return t.stock }),
	}
}
