package attempts_test

import (
	"testing"

	"executor/attempts"
)

// TestAFreezeNamesNoOtherTenant: everybody sees that and why, and nobody of another
// tenant who.
func TestAFreezeNamesNoOtherTenant(t *testing.T) {
	for by, want := range map[string]string{
		"acme/ann": "acme/ann", "globex/bob": "an operator of the deployment", "root@db-1": "root@db-1", "": "",
	} {
		if got := (attempts.DeploymentState{FrozenBy: by, FrozenReason: "drill"}).SeenBy("acme"); got.FrozenBy != want || got.FrozenReason != "drill" {
			t.Errorf("%q is seen as %+v", by, got)
		}
	}
}
