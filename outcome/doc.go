// Package outcome decides what may be said of a command and what may be done
// next. It takes facts and returns conclusions: no clock, no I/O, no context, no
// randomness but what the caller injects, and nothing outside the standard
// library.
//
// Two things are observed of an attempt and kept apart: the evidence (what was
// seen of sending and receiving) and the answer (what the response, read through
// the upstream's profile, says was done). Together they give the boundary: could
// the side effect have happened? From there
//
//   - Decide says what follows an attempt, by nine rules in a fixed order,
//   - MayStart says whether the next attempt may still begin,
//   - Close says how a command ends that is sent no more,
//   - Transitions holds every legal move between the states.
//
// Whatever nobody thought of counts as doubt: that costs a question to the
// upstream, the opposite a second payment.
package outcome

import (
	"fmt"
	"slices"
)

// parse finds a word in the list of an enum. The zero value is in no list.
func parse[T ~string](what, word string, list []T) (T, error) {
	if v := T(word); slices.Contains(list, v) {
		return v, nil
	}
	return "", fmt.Errorf("unknown %s %q", what, word)
}
