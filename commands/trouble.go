package commands

import (
	"fmt"
	"time"

	"executor/upstreams"
)

// Trouble is why an upstream needs a look, in one word for programs and one sentence
// for people.
type Trouble struct {
	Code   string
	Reason string
}

// Codes of troubles, the one that holds longest first.
const (
	TroubleProfile    = "profile_unreadable"
	TroublePaused     = "paused"
	TroubleCredential = "credential_missing"
	TroubleFile       = "file_unavailable"
	TroubleThrottled  = "throttled"
	TroubleBudget     = "budget_empty"
	TroubleFailing    = "failing"
)

const (
	// failingWithin is how many minutes back failures count as recent.
	failingWithin = 15
	// failingLeast is how many of them there have to be to say anything.
	failingLeast = 5
)

// trouble names the first reason there is. What it asks is known already: it reads
// nothing.
func (u UpstreamStatus) trouble(now time.Time) *Trouble {
	failures, others := u.lately()
	switch {
	case u.Profile == nil:
		return &Trouble{TroubleProfile, "Its newest profile can no longer be read: nothing new is accepted."}
	case u.PausedAt != nil:
		return &Trouble{TroublePaused, fmt.Sprintf("Paused by %s: %s", u.PausedBy, u.PausedReason)}
	case u.Waits[WaitCredential] > 0:
		return &Trouble{TroubleCredential, "A secret that its profile names is missing: commands wait for it until their deadline."}
	case u.Waits[WaitFile] > 0:
		return &Trouble{TroubleFile, "A file of a body cannot be read: its volume is not there, or does not answer. Commands wait for it until their deadline; the log says why."}
	case u.ThrottledUntil != nil && u.ThrottledUntil.After(now):
		return &Trouble{TroubleThrottled, fmt.Sprintf("It asked for a pause until %s: nothing is sent before.", u.ThrottledUntil.UTC().Format("2006-01-02 15:04:05 UTC"))}
	case u.Budget.Burst > 0 && u.BudgetTokens < 1:
		return &Trouble{TroubleBudget, "The retry budget is empty: what failed is not tried again before tokens come in." + u.whenEmpty()}
	case failures >= failingLeast && failures >= others:
		return &Trouble{TroubleFailing, fmt.Sprintf("Of the last %d minutes: attempts that failed or ended in doubt %d, commands that got an answer %d.", failingWithin, failures, others)}
	default:
		return nil
	}
}

func (u UpstreamStatus) whenEmpty() string {
	if n := u.Waits[WaitRetryToken]; n > 0 {
		return fmt.Sprintf(" Commands that wait for one: %d.", n)
	}
	return ""
}

// lately is what the last minutes brought: attempts without a usable answer, and
// commands with one. A deadline or a cancel that ended a command says nothing of its
// upstream.
func (u UpstreamStatus) lately() (failures, answers int64) {
	sum := func(what Tally) int64 { return u.Rates.Sum(what, failingWithin) }
	return sum(TallyRetried) + sum(TallyUnresolved), sum(TallySuccess) + sum(TallyRejected)
}

// tokensAt is the retry budget with what its floor brought since.
func tokensAt(tokens float64, at, now time.Time, b upstreams.Budget) float64 {
	tokens += max(0, now.Sub(at).Seconds()) * b.FloorPerSecond
	return max(0, min(tokens, max(float64(b.Burst), 1)))
}
