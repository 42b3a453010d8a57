package attempts_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"executor/attempts"
	"executor/internal/audit"
)

// onRecord is what the deployment's own chain says, the oldest first.
func onRecord(t *testing.T, pool *pgxpool.Pool) (lines []string) {
	t.Helper()
	report, err := audit.Verify(t.Context(), pool, "")
	if err != nil || !report.Sound() {
		t.Fatal(report, err)
	}
	entries, _, err := audit.List(t.Context(), pool, audit.Filter{Tenant: audit.Deployment})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range slices.Backward(entries) {
		lines = append(lines, fmt.Sprintf("%s, %s, %s", e, e.After, e.Details))
	}
	return lines
}

// TestWhatPeopleDoToTheDeploymentIsOnRecord, and what changes nothing is not.
func TestWhatPeopleDoToTheDeploymentIsOnRecord(t *testing.T) {
	t.Parallel()
	pool := database(t)
	front := startProcess(t, pool, options{idle: true})
	front.apply(t, brief("up", "http://127.0.0.1:1024", ample, ""))
	front.submit(t, order("one", "charge"))
	front.submit(t, order("two", "pay"))
	ctx, own := t.Context(), attempts.OpenDeployment(pool, "test", front.commands, front.ups)
	copied := attempts.OpenDeployment(pool, "copy", front.commands, front.ups)
	by := func(actor, reason string) audit.By { return audit.By{Actor: actor, Reason: reason} }
	var preview attempts.ResumePreview
	for _, do := range []func() (attempts.DeploymentState, error){
		func() (attempts.DeploymentState, error) { return own.Adopt(ctx, by("ann", "again")) },
		func() (attempts.DeploymentState, error) { return own.Resume(ctx, by("ann", "nothing to do")) },
		func() (attempts.DeploymentState, error) { return own.Freeze(ctx, by("ann", "42")) },
		func() (attempts.DeploymentState, error) { return own.Freeze(ctx, by("bert", "43")) },
		func() (attempts.DeploymentState, error) { return own.Resume(ctx, by("bert", "over")) },
		func() (attempts.DeploymentState, error) { return copied.Adopt(ctx, by("eve", "moved")) },
		func() (s attempts.DeploymentState, err error) {
			preview, err = copied.PreviewResume(ctx)
			return s, err
		},
		func() (attempts.DeploymentState, error) { return copied.Resume(ctx, by("eve", "the old one is gone")) },
	} {
		if _, err := do(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := own.Resume(ctx, by("ann", "")); err == nil {
		t.Error("another deployment's data was resumed")
	}
	if want := (attempts.ResumePreview{Doubtful: true, Commands: 2}); preview != want {
		t.Errorf("the preview says %+v, want %+v", preview, want)
	}
	running := `{"id":"%s","frozen":false,"doubtful":false}, %s`
	want := []string{
		"1 deployment.adopt deployment by test: , " + fmt.Sprintf(running, "test", ""),
		`2 deployment.freeze deployment by ann: 42, {"id":"test","frozen":true,"frozen_by":"ann","frozen_reason":"42","doubtful":false}, `,
		"3 deployment.resume deployment by bert: over, " + fmt.Sprintf(running, "test", ""),
		`4 deployment.adopt deployment by eve: moved, {"id":"copy","frozen":true,"frozen_by":"eve","frozen_reason":` +
			`"adopted from deployment test, which may have sent what is unfinished here","doubtful":true}, `,
		"5 deployment.resume deployment by eve: the old one is gone, " + fmt.Sprintf(running, "copy", `{"counted_as_sent":2}`),
	}
	if diff := cmp.Diff(want, onRecord(t, pool)); diff != "" {
		t.Error(diff)
	}
}

// TestManyFreezeAtOnce: one of them does.
func TestManyFreezeAtOnce(t *testing.T) {
	t.Parallel()
	pool := database(t)
	var each sync.WaitGroup
	for i := range 8 {
		each.Go(func() {
			_, err := attempts.NewDeployment(pool, "test", nil).Freeze(t.Context(), audit.By{Actor: fmt.Sprint("actor ", i), Reason: "now"})
			if err != nil {
				t.Error(err)
			}
		})
	}
	each.Wait()
	state, err := attempts.NewDeployment(pool, "test", nil).Show(t.Context())
	got := onRecord(t, pool)
	if err != nil || len(got) != 2 || !strings.Contains(got[1], "by "+state.FrozenBy+": now") {
		t.Errorf("%q, %v; frozen by %s", got, err, state.FrozenBy)
	}
}

// TestAFreezeThatIsNotOnRecordDidNotHappen: it fails, and says so.
func TestAFreezeThatIsNotOnRecordDidNotHappen(t *testing.T) {
	t.Parallel()
	pool := database(t)
	if _, err := pool.Exec(t.Context(), `ALTER TABLE audit ADD CHECK (number < 2)`); err != nil {
		t.Fatal(err)
	}
	own := attempts.NewDeployment(pool, "test", nil)
	if _, err := own.Freeze(t.Context(), audit.By{Actor: "ann", Reason: "42"}); err == nil {
		t.Error("no error")
	}
	if state, err := own.Show(t.Context()); err != nil || state.Frozen() {
		t.Errorf("%+v, %v", state, err)
	}
}

// TestPreviewOfAPlainResume: it adds nothing to any command, unless the database
// has moved since.
func TestPreviewOfAPlainResume(t *testing.T) {
	t.Parallel()
	pool := database(t)
	front := startProcess(t, pool, options{idle: true})
	front.apply(t, brief("up", "http://127.0.0.1:1024", ample, ""))
	front.submit(t, order("one", "charge"))
	own := attempts.OpenDeployment(pool, "test", front.commands, front.ups)
	if _, err := own.Freeze(t.Context(), audit.By{Actor: "ann", Reason: "planned"}); err != nil {
		t.Fatal(err)
	}
	if p, err := own.PreviewResume(t.Context()); err != nil || p != (attempts.ResumePreview{}) {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := pool.Exec(t.Context(), `UPDATE deployment SET timeline = timeline + 1`); err != nil {
		t.Fatal(err)
	}
	if p, err := own.PreviewResume(t.Context()); err != nil || p != (attempts.ResumePreview{Doubtful: true, Commands: 1}) {
		t.Errorf("after a promotion: %+v, %v", p, err)
	}
	if s, err := own.Show(t.Context()); err != nil || !s.Moved || s.Doubtful {
		t.Errorf("%+v, %v", s, err)
	}
}
