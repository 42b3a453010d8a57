package attempts_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"executor/internal/audit"
	"executor/outcome"
	"executor/upstreams"
)

// TestACredentialStaysAtItsOrigin: a version that moves the base URL alone is not
// applied; commands under an older version go where they were accepted for.
func TestACredentialStaysAtItsOrigin(t *testing.T) {
	t.Parallel()
	answer := func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(http.StatusCreated) }
	old, moved := newUpstream(t, answer), newUpstream(t, answer)
	p := startProcess(t, database(t), options{getenv: func(string) string { return "the-credential" }})
	p.apply(t, profileOf("up", old.URL, "auth: {type: bearer, token: env:EXECUTOR_SECRET_BANK}"))

	trap, err := upstreams.Parse("test.yaml", []byte(profileOf("up", moved.URL, "auth: {type: bearer, token: env:EXECUTOR_SECRET_BANK}")))
	if err != nil {
		t.Fatal(err)
	}
	var elsewhere *upstreams.CredentialError
	if _, _, err := p.ups.Apply(t.Context(), trap, audit.By{Actor: "test"}); !errors.As(err, &elsewhere) {
		t.Fatalf("the moved profile: %v", err)
	}
	if c := p.final(t, p.submit(t, submission("k1", "pay")).ID); c.State != outcome.StateSuccess {
		t.Errorf("command %s is %s", c.Key, c.State)
	}

	// A command that waits under the old version keeps its origin.
	if _, err := p.ups.Pause(context.Background(), "default", "up", audit.By{Actor: "test", Reason: "moving"}); err != nil {
		t.Fatal(err)
	}
	waiting := p.submit(t, submission("k2", "pay"))
	p.apply(t, profileOf("up", moved.URL, "auth: {type: bearer, token: env:EXECUTOR_SECRET_BANK, origins: ['"+moved.URL+"']}"))
	if _, err := p.ups.Resume(context.Background(), "default", "up", audit.By{Actor: "test"}); err != nil {
		t.Fatal(err)
	}
	p.final(t, waiting.ID)
	p.final(t, p.submit(t, submission("k3", "pay")).ID)

	if at := old.all(); len(at) != 2 || len(old.of("k1")) != 1 || len(old.of("k2")) != 1 || at[1].Authorization != "Bearer the-credential" {
		t.Errorf("the old origin saw %+v", at)
	}
	if at := moved.all(); len(at) != 1 || len(moved.of("k3")) != 1 {
		t.Errorf("the new origin saw %+v", at)
	}
}
