package upstreams

import (
	"testing"

	"pgregory.net/rapid"
)

// TestCredentialWords: the words spare the expression, they never overrule it.
func TestCredentialWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(
			rapid.StringMatching(`[A-Za-z-]{0,12}(?i:api|app|access|auth|id|csrf|x)?-?_?(?i:key|token|secret|passwd|password|credential|cookie2?|authorization|authentication)[A-Za-z-]{0,6}`),
			rapid.StringMatching(credentialName.String()),
			rapid.StringMatching(`[A-Za-z-]{1,20}`),
		).Filter(func(name string) bool { return headerToken.MatchString(name) }).Draw(t, "name")
		if got, want := isCredentialName(name), credentialName.MatchString(name); got != want {
			t.Errorf("isCredentialName(%q) = %v, want %v", name, got, want)
		}
	})
}
