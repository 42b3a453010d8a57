package client

import (
	"errors"
	"testing"
)

// TestAnotherServiceAnswers: JSON of a service that is not this one is neither an
// acceptance, nor a command, nor a list that is empty.
func TestAnotherServiceAnswers(t *testing.T) {
	t.Parallel()
	_, c := serve(t, reply200(`{"id":"pay_1","status":"ok"}`))
	accepted, err := c.Submit(t.Context(), Submission{Key: "k", Upstream: "u", Operation: "o"})
	var unknown *Unconfirmed
	if !errors.As(err, &unknown) || !errors.Is(err, errForeign) || unknown.Key != "k" {
		t.Errorf("accepted %+v (%v)", accepted, err)
	}
	if got, err := c.Get(t.Context(), "c1"); !errors.Is(err, errForeign) {
		t.Errorf("a command %+v (%v)", got, err)
	}
	if got, err := c.Webhooks(t.Context()); !errors.Is(err, errForeign) {
		t.Errorf("a list %+v (%v)", got, err)
	}
}
