package attempts

import (
	"context"
	"testing"
	"time"
	"unicode/utf8"

	"executor/internal/testkit/hostile/answers"
	"executor/outcome"
)

// TestHostileAnswersAreBounded in time and memory; none of them proves that nothing
// was sent, and what is said of them is text.
func TestHostileAnswersAreBounded(t *testing.T) {
	s := newSender(t)
	plain := transports(t)[0]
	answers.Bounded(t, 2<<20, func(t *testing.T, answer, address string) {
		target := plain.target(address)
		target.Limits.ResponseBytes, target.Limits.HeaderBytes = 64<<10, 64<<10
		c, _, ok := s.Dial(context.Background(), target)
		if !ok {
			t.Errorf("%s: no connection", answer)
			return
		}
		o := s.Send(context.Background(), c, payment(), open, time.Now().Add(100*time.Millisecond))
		if (o.Evidence == outcome.EvidenceNotSent && answer != "answer before the request") || len(o.Body) > 64<<10 || len(o.Detail) > 1000 || !utf8.ValidString(o.Detail) {
			t.Errorf("%s: %s", answer, describe(o))
		}
	})
}
