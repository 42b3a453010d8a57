package api

import (
	"testing"

	"executor/internal/egress"
)

// TestOurOwnRequestsAreRefused, whatever they ask for but health; those of other
// deployments are not.
func TestOurOwnRequestsAreRefused(t *testing.T) {
	ours, theirs := egress.Hop("production", "1/1"), egress.Hop("production", "2/1")
	g := newRig(t, func(c *Config) { c.Hop = ours })
	for _, path := range []string{"/v1/commands", "/v1/upstreams", "/v1/webhooks"} {
		g.do("GET", path, with(egress.HopHeader, ours)).want(421).problem(ProblemCodeLoopDetected)
		g.do("GET", path, with(egress.HopHeader, theirs), with(egress.HopHeader, ours)).want(421).problem(ProblemCodeLoopDetected)
	}
	g.do("POST", "/v1/notices/ledger", without("Authorization"), with(egress.HopHeader, ours), sending(`{}`)).want(421).problem(ProblemCodeLoopDetected)
	g.do("GET", "/v1/commands", with(egress.HopHeader, theirs)).want(200)
	g.do("GET", "/livez", with(egress.HopHeader, ours)).want(200)
	newRig(t).do("GET", "/v1/commands", with(egress.HopHeader, "")).want(200)
}
