package web_test

import (
	"testing"

	"executor/outcome"
)

func TestHomeSaysWhatNeedsAPerson(t *testing.T) {
	s := newSite(t)
	vera := s.as(t, "vera")
	vera.get("/").has(t, "Nothing waits for a decision", "Nothing was submitted yet")
	doubt := s.doubtful(t, "charge-1")
	s.ended(t, "pay-1", "create_payment", "", outcome.StateSuccess)
	p := vera.get("/")
	p.has(t, "1 waits for a decision", "/commands/"+doubt.ID.String(), "charge-1", `href="/search?state=unresolved"><b>1</b>`, `href="/search?state=success"><b>1</b>`)
	p.lacks(t, "Nothing was submitted yet")
}
