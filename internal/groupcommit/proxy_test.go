package groupcommit

import (
	"testing"

	"executor/internal/testkit"
)

// cut is where the connection breaks around a COMMIT.
type cut string

const (
	cutRequest cut = "request" // the server never sees the COMMIT
	cutReply   cut = "reply"   // the server commits, and nobody hears of it
)

// proxyURL returns the database's URL with a proxy in between that breaks each
// connection at its COMMIT.
func proxyURL(t *testing.T, database string, where cut) string {
	t.Helper()
	p := testkit.NewProxy(t, database)
	p.OnCommit(func(testkit.Commit) testkit.Fate {
		return testkit.Fate{LoseRequest: where == cutRequest, LoseReply: where == cutReply}
	})
	return p.URL
}
