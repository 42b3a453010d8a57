package outcome

import "time"

// Finding is what an answer to a lookup, a notice, a report or a person says
// became of a command as a whole.
type Finding string

const (
	FindingApplied Finding = "applied" // it was done
	FindingRefused Finding = "refused" // it was not done and will not be
	FindingPending Finding = "pending" // it is there and not finished
	FindingAbsent  Finding = "absent"  // nothing of it is there; proves something only by Settle
	FindingUnknown Finding = "unknown" // no evidence either way
)

// Findings lists every finding.
func Findings() []Finding {
	return []Finding{FindingApplied, FindingRefused, FindingPending, FindingAbsent, FindingUnknown}
}

// FindingOf is the finding that leads to a settled state.
func FindingOf(s State) Finding {
	switch s {
	case StateSuccess:
		return FindingApplied
	case StateRejected:
		return FindingRefused
	case StateCancelled:
		return FindingAbsent
	default:
		return FindingUnknown
	}
}

// Then is what follows a confirmed absence.
type Then string

const (
	ThenCancel Then = "cancel" // the command is cancelled
	ThenResend Then = "resend" // one more attempt, if deadline and attempts allow, else cancel
	ThenReview Then = "review" // a person decides
)

// Thens lists what may follow.
func Thens() []Then { return []Then{ThenCancel, ThenResend, ThenReview} }

// Absence says when "not found" proves that nothing arrived.
type Absence struct {
	SettlesAfter  time.Duration // from the last moment an attempt could be under way; 0 = it never proves anything
	Confirmations int           // absents needed in a row
	Spacing       time.Duration // between two that count
	Then          Then
}

// Search is what the lookups of one command have found so far.
type Search struct {
	Seen         bool      // it was there once
	Absents      int       // in a row, of those that count
	LastAbsentAt time.Time // when the last one that counts was asked for
}

// Settlement is what a finding amounts to.
type Settlement struct {
	Search    Search
	Verdict   SettlementVerdict
	NotBefore time.Time // open after an absent: when the next absent counts; zero if none ever does
}

// SettlementVerdict is what becomes of the doubt.
type SettlementVerdict string

const (
	SettlementOpen     SettlementVerdict = "open"     // the doubt stands
	SettlementApplied  SettlementVerdict = "applied"  // it was done
	SettlementRefused  SettlementVerdict = "refused"  // it was not done
	SettlementAbsent   SettlementVerdict = "absent"   // confirmed: it never arrived
	SettlementVanished SettlementVerdict = "vanished" // it was there and is not any more: a person decides
)

// Settle weighs one finding, asked for at the moment asked. possibleUntil is the
// last moment at which any attempt could still have been sent or under way. An
// absent counts only from SettlesAfter later on, so that neither a late arrival
// nor a lagging index is taken for nothing. A pending starts the count anew, and so
// does an attempt that moves possibleUntil behind what was counted; what was seen once and is surely gone then is a contradiction and no absence.
func Settle(f Finding, s Search, a Absence, possibleUntil, asked time.Time) Settlement {
	open := Settlement{Search: s, Verdict: SettlementOpen}
	switch f {
	case FindingApplied:
		return Settlement{Search: s, Verdict: SettlementApplied}
	case FindingRefused:
		return Settlement{Search: s, Verdict: SettlementRefused}
	case FindingPending:
		open.Search = Search{Seen: true}
		return open
	case FindingAbsent:
		return settleAbsent(open, a, possibleUntil, asked)
	default:
		return open
	}
}

func settleAbsent(open Settlement, a Absence, possibleUntil, asked time.Time) Settlement {
	s := open.Search
	if a.SettlesAfter <= 0 {
		return open
	}
	counts := possibleUntil.Add(a.SettlesAfter)
	if s.LastAbsentAt.Before(counts) { // those so far say nothing of an attempt that came after them
		s.Absents = 0
		open.Search.Absents = 0
	}
	if spaced := s.LastAbsentAt.Add(a.Spacing); s.Absents > 0 && spaced.After(counts) {
		counts = spaced
	}
	if asked.Before(counts) {
		open.NotBefore = counts
		return open
	}
	s = Search{Seen: s.Seen, Absents: s.Absents + 1, LastAbsentAt: asked}
	switch {
	case s.Absents < a.Confirmations:
	case s.Seen:
		return Settlement{Search: s, Verdict: SettlementVanished}
	default:
		return Settlement{Search: s, Verdict: SettlementAbsent}
	}
	return Settlement{Search: s, Verdict: SettlementOpen, NotBefore: asked.Add(a.Spacing)}
}

// Schedule is when lookups are made.
type Schedule struct {
	FirstAfter  time.Duration // from the moment the command became unresolved
	Factor      float64       // by which the interval grows
	MaxInterval time.Duration
	GiveUpAfter time.Duration // from the moment the command became unresolved
}

// Next is when to ask again after the given number of rounds, the last of them
// at the moment asked. notBefore, where set, is when an absence counts next: it
// is asked for then, not an interval later.
func (s Schedule) Next(rounds int, asked, notBefore time.Time) time.Time {
	interval := max(s.FirstAfter, time.Second)
	for range rounds {
		if interval >= s.MaxInterval {
			break
		}
		interval = time.Duration(float64(interval) * s.Factor)
	}
	next := asked.Add(min(interval, s.MaxInterval))
	if !notBefore.IsZero() && notBefore.Before(next) {
		return notBefore
	}
	return next
}
