package web_test

import (
	"testing"

	"executor/outcome"
)

// TestALookupIsAskedForAndSeen: what the upstream can be asked about is asked now,
// and the page shows by itself what it said.
func TestALookupIsAskedForAndSeen(t *testing.T) {
	s := newSite(t)
	c := s.ended(t, "transfer-1", "send_transfer", "commit,drop", outcome.StateUnresolved)
	p := s.enter(t, "otto")
	p.Goto(s.http.URL + pageOf(c.ID))
	p.Follow(`a[href="` + pageOf(c.ID) + `/lookup"]`)
	p.Fill("#reason", "the shop asks")
	p.Submit("main form")
	if p.Count("input[name=confirmed]") > 0 {
		p.Submit("main form")
	}
	p.WaitText("h1", "success")
	p.WaitText("main", "The upstream was asked, and showed that it was done.")
	p.Quiet(t)
}
