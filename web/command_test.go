package web_test

import (
	"net/http"
	"testing"

	"github.com/google/uuid"

	"executor/outcome"
)

// pageOf is the path of a command's page.
func pageOf(id uuid.UUID) string { return "/commands/" + id.String() }

func TestACommandPageSaysWhatIsKnown(t *testing.T) {
	s := newSite(t)
	vera := s.as(t, "vera")
	for _, tt := range []struct {
		key, operation, behavior string
		state                    outcome.State
		says                     []string
	}{
		{"paid", "create_payment", "", outcome.StateSuccess, []string{
			"The upstream did it and confirmed it.", "Nothing about whether it was done.", "Nothing: this is final.", "that would do it a second time"}},
		{"refused", "charge_card", "status=422", outcome.StateRejected, []string{
			"The upstream refused it, and nothing was done.", "An identical command would be refused again"}},
		{"doubt", "charge_card", "commit,drop", outcome.StateUnresolved, []string{
			"No answer came to attempt 1: the upstream may or may not have done it.", "Whether the upstream has done it.",
			"A person decides, because the profile names no way to ask the upstream. Nobody has taken it on yet.", "Settle it here first."}},
		{"asked", "send_transfer", "commit,drop", outcome.StateUnresolved, []string{
			"The upstream is asked what became of it (0 lookups so far), without sending it again. The next time:"}},
	} {
		c := s.ended(t, tt.key, tt.operation, tt.behavior, tt.state)
		p := vera.get(pageOf(c.ID))
		if p.status != http.StatusOK {
			t.Fatalf("%s: %d\n%s", tt.key, p.status, p.body)
		}
		p.has(t, append(tt.says, `data-live-topic="command:`+c.ID.String()+`"`, "Attempt 1", `role="img"`)...)
	}
}
