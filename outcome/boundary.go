package outcome

// Idempotency is what the upstream promises about the same request sent twice.
type Idempotency string

const (
	IdempotencyNone    Idempotency = "none"    // nothing: a repeat may act again
	IdempotencySafe    Idempotency = "safe"    // a read, which changes nothing
	IdempotencyNatural Idempotency = "natural" // repeating it leaves the same state
	IdempotencyKeyed   Idempotency = "keyed"   // a repeat under the same key acts once, while the key lives
)

// Idempotencies lists every kind of idempotency.
func Idempotencies() []Idempotency {
	return []Idempotency{IdempotencyNone, IdempotencySafe, IdempotencyNatural, IdempotencyKeyed}
}

// Boundary is the conclusion from evidence and answer: could the side effect
// have happened?
type Boundary string

const (
	BoundaryNotCrossed      Boundary = "not_crossed"      // known: it did not
	BoundaryPossiblyCrossed Boundary = "possibly_crossed" // not known
	BoundaryCrossed         Boundary = "crossed"          // known: it did, or it is on its way
)

// Boundaries lists every boundary, the weakest first.
func Boundaries() []Boundary {
	return []Boundary{BoundaryNotCrossed, BoundaryPossiblyCrossed, BoundaryCrossed}
}

// BoundaryOf joins both axes. A case that nobody thought of counts as
// possibly crossed: that costs a lookup, the opposite a second payment.
func BoundaryOf(k Idempotency, e Evidence, a Answer) Boundary {
	switch {
	case k == IdempotencySafe, // a read has no effect to cross
		e == EvidenceNotSent, a == AnswerRefused, a == AnswerDeclined:
		return BoundaryNotCrossed
	case a == AnswerApplied, a == AnswerPending:
		return BoundaryCrossed
	default:
		return BoundaryPossiblyCrossed
	}
}

// BoundaryOver is the boundary of a whole command: crossed if any attempt
// crossed, else possibly crossed if any may have. A settled attempt counts as not
// crossed.
func BoundaryOver(k Idempotency, attempts []Attempt) Boundary {
	over := BoundaryNotCrossed
	for _, a := range attempts {
		switch a.boundary(k) {
		case BoundaryCrossed:
			return BoundaryCrossed
		case BoundaryPossiblyCrossed:
			over = BoundaryPossiblyCrossed
		}
	}
	return over
}
