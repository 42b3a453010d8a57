//go:build !linux

package hostile

import "testing"

// Run runs a test with traps on loopback: only Linux gives it a network of its own.
func Run(t *testing.T, test func(t *testing.T, traps *Traps)) {
	t.Helper()
	t.Log("traps on loopback only: this system gives a process no network of its own")
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"} {
		t.Setenv(name, "http://127.0.0.1:8080")
	}
	traps := newTraps(t, false)
	if err := traps.check(); err != nil {
		t.Fatal(err)
	}
	test(t, traps)
}

func (t *Traps) opened() int { return 0 }
