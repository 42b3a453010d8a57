package attempts_test

import (
	"errors"
	"strings"
	"testing"

	"executor/attempts"
)

// TestWhatWasReadIsOld: a request that was made for the first attempt is not sent as
// the second, without the marks of a repeat, nor is what becomes of it laid over the
// first one.
func TestWhatWasReadIsOld(t *testing.T) {
	t.Parallel()
	up := newLedger(t, always(201, paid))
	p := startProcess(t, database(t), options{})
	p.apply(t, brief("up", up.URL, short, ""))
	p.pause(t, true)
	id := p.submit(t, order("k", "pay")).ID
	if _, err := p.pool.Exec(t.Context(), `UPDATE commands SET attempts = 1`); err != nil {
		t.Fatal(err)
	}
	var refusal *attempts.Refusal
	if err := p.engine.BeginAfter(t.Context(), id, 0); !errors.As(err, &refusal) || refusal.Again <= 0 || !strings.Contains(refusal.Why, "since it was read") {
		t.Errorf("begun by what is old: %v", err)
	}
}
