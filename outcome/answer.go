package outcome

// Answer is what the upstream's response says it did, read through the
// profile or else by DefaultAnswer. The zero value means that there is none.
type Answer string

const (
	AnswerNone     Answer = ""         // no response, no answer
	AnswerApplied  Answer = "applied"  // done, confirmed
	AnswerPending  Answer = "pending"  // accepted, not finished
	AnswerRefused  Answer = "refused"  // no, and nothing was done; asking again is pointless
	AnswerDeclined Answer = "declined" // not now, and nothing was done
	AnswerUnclear  Answer = "unclear"  // answered, but not whether it happened
)

// Answers lists every answer that a response can give.
func Answers() []Answer {
	return []Answer{AnswerApplied, AnswerPending, AnswerRefused, AnswerDeclined, AnswerUnclear}
}

// DefaultAnswer reads a status for which the profile has no rule. A number that
// is no final HTTP status is unclear.
func DefaultAnswer(status int) Answer {
	switch {
	case status == 202:
		return AnswerPending
	case status >= 200 && status <= 299:
		return AnswerApplied
	case throttles(status):
		return AnswerDeclined
	case status >= 400 && status <= 499:
		return AnswerRefused
	default: // 3xx, 5xx, and what is no status
		return AnswerUnclear
	}
}

// throttles reports whether a status says "not now": request timeout, too
// early, too many requests.
func throttles(status int) bool { return status == 408 || status == 425 || status == 429 }
