package egress

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
)

// HopHeader goes with every request to upstreams and receivers of webhooks, and
// names the deployment that sends it. A deployment refuses what carries its own
// name: whatever way it took, a command or an event would cause the next for ever.
const HopHeader = "X-Executor-Hop"

// Hop is the name that a deployment goes by in HopHeader: of its id and of the
// database that it lives in, neither of which can be read from it.
func Hop(deployment, database string) string {
	sum := sha256.Sum256([]byte("executor hop\x00" + deployment + "\x00" + database))
	return hex.EncodeToString(sum[:12])
}

// Looped says whether a request came from the deployment of that hop itself.
func Looped(h http.Header, hop string) bool {
	return hop != "" && slices.Contains(h.Values(HopHeader), hop)
}
