package outcome

import "time"

// t0 is when every test begins.
var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// factsFor are facts under which nothing but the attempts matters: there is
// time, budget and a key that lives. The attempts follow each other by 10 s; the
// decision is made at the end of the last.
func factsFor(k Idempotency, attempts ...Attempt) Facts {
	f := Facts{
		Now:      t0,
		Deadline: t0.Add(time.Hour),
		Operation: Operation{
			Idempotency: k, Retention: 24 * time.Hour, HasLookup: true,
		},
		Retry: Retry{
			MaxAttempts:      25,
			MinAttemptWindow: time.Second,
			Backoff:          Backoff{Initial: time.Second, Max: 30 * time.Second, Jitter: JitterNone},
			WhenBudgetEmpty:  WhenEmptyWait,
		},
		Body:         BodyReplayable,
		BudgetTokens: 10,
	}
	for i, a := range attempts {
		a.StartedAt = t0.Add(time.Duration(i) * 10 * time.Second)
		a.EndedAt = a.StartedAt.Add(5 * time.Second)
		f.Attempts = append(f.Attempts, a)
		f.Now = a.EndedAt
	}
	return f
}

func notSent() Attempt {
	return Attempt{Evidence: EvidenceNotSent, Category: CategoryConnectRefused}
}

func silent() Attempt {
	return Attempt{Evidence: EvidenceSentNoResponse, Category: CategoryHeaderTimeout}
}

func settled(a Attempt) Attempt {
	a.Settled = true
	return a
}

func response(status int) Attempt {
	return Attempt{Evidence: EvidenceResponseReceived, Category: CategoryNone, Status: status}
}

func partial(status int) Attempt {
	return Attempt{Evidence: EvidencePartialResponse, Category: CategoryBodyTruncated, Status: status}
}

// read is a response as the profile reads it.
func read(status int, answer Answer) Attempt {
	a := response(status)
	a.Answer = answer
	return a
}
