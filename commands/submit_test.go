package commands_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"executor/commands"
	"executor/internal/audit"
	"executor/internal/testkit"
	"executor/outcome"
)

// TestAccepted: what Submit returns is what stands in the database, and the
// command has a job.
func TestAccepted(t *testing.T) {
	r := newRig(t)
	s := submission("k", "pay")
	s.Metadata = map[string]string{"order": "42"}
	got := r.submit(t, s)
	want := r.get(t, got.ID)
	if got.ID != want.ID || got.Key != "k" || got.Version != 1 || got.State != outcome.StatePending || got.Attempts != 0 ||
		!got.CreatedAt.Equal(want.CreatedAt) || !got.Deadline.Equal(want.Deadline) || !got.NextAttemptAt.Equal(*want.NextAttemptAt) ||
		got.Upstream != want.Upstream || got.UpstreamID != want.UpstreamID || got.Operation != want.Operation ||
		got.ProfileVersion != want.ProfileVersion || got.Priority != want.Priority || got.Record != want.Record ||
		want.Metadata["order"] != "42" || want.Version != 1 {
		t.Errorf("accepted as\n%+v\nbut stored as\n%+v", got, want)
	}
	if d := want.Deadline.Sub(want.CreatedAt); d != 10*time.Minute {
		t.Errorf("deadline %s after acceptance, want the profile's 10m", d)
	}
	if id := want.Record.Identity; id.In != "header" || id.Name != "Idempotency-Key" || id.Key != "k" {
		t.Errorf("identity %+v", id)
	}
	var state, queue string
	r.scan(t, `SELECT j.state::text, j.queue FROM river_job j JOIN commands c ON c.job_id = j.id WHERE c.id = $1`, []any{got.ID}, &state, &queue)
	if state != "available" || queue != commands.QueueFor(got.UpstreamID) {
		t.Errorf("job is %s in queue %s", state, queue)
	}
}

// differences change one field of a submission each.
var differences = []struct {
	name   string
	change func(*commands.Submission)
}{
	{"upstream", func(s *commands.Submission) { s.Upstream = "other" }},
	{"operation", func(s *commands.Submission) { s.Operation = "pay2" }},
	{"params", func(s *commands.Submission) { s.Params = map[string]string{"account": "a2"} }},
	{"query", func(s *commands.Submission) { s.Query = map[string]string{"mode": "fast"} }},
	{"headers", func(s *commands.Submission) { s.Headers = map[string]string{"X-Trace": "t1"} }},
	{"content_type", func(s *commands.Submission) { s.ContentType = "application/json; charset=utf-8" }},
	{"body", func(s *commands.Submission) { s.Body = []byte(`{"amount":100 }`) }},
}

func TestMismatchNamesTheField(t *testing.T) {
	r := newRig(t)
	pay2 := strings.Replace(profile, "  charge:", "  pay2: {method: POST, path: \"/accounts/{account}/p2\", body: json}\n  charge:", 1)
	r.apply(t, pay2)
	r.apply(t, strings.Replace(profile, "upstream: up", "upstream: other", 1))
	bound := r.submit(t, submission("k", "pay"))
	for _, d := range differences {
		t.Run(d.name, func(t *testing.T) {
			s := submission("k", "pay")
			d.change(&s)
			_, err := r.store.Submit(t.Context(), s)
			var m *commands.KeyMismatch
			if !errors.As(err, &m) || m.CommandID != bound.ID || !slices.Equal(m.Differs, []string{d.name}) {
				t.Errorf("got %v, want a mismatch in %s", err, d.name)
			}
		})
	}
	t.Run("all", func(t *testing.T) {
		s := submission("k", "pay")
		var want []string
		for _, d := range differences {
			d.change(&s)
			want = append(want, d.name)
		}
		_, err := r.store.Submit(t.Context(), s)
		var m *commands.KeyMismatch
		if !errors.As(err, &m) || !slices.Equal(m.Differs, want) {
			t.Errorf("got %v, want a mismatch in %v", err, want)
		}
	})
}

// TestReplay: what does not belong to the request, and what changed around it,
// does not keep a repeated key from its command.
func TestReplay(t *testing.T) {
	soon, never := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	tests := []struct {
		name   string
		change func(*commands.Submission)
		before func(t *testing.T, r *rig, id uuid.UUID)
	}{
		{"the same", func(*commands.Submission) {}, nil},
		{"other deadline", func(s *commands.Submission) { s.Deadline = &soon }, nil},
		{"other timeout", func(s *commands.Submission) { s.Timeout = time.Minute }, nil},
		{"other not_before", func(s *commands.Submission) { s.NotBefore = &soon }, nil},
		{"other priority", func(s *commands.Submission) { s.Priority = commands.PriorityHigh }, nil},
		{"other metadata", func(s *commands.Submission) { s.Metadata = map[string]string{"a": "b"} }, nil},
		{"other actor", func(s *commands.Submission) { s.Actor = "somebody else" }, nil},
		{"empty maps", func(s *commands.Submission) { s.Query, s.Headers = map[string]string{}, map[string]string{} }, nil},
		{"deadline passed", func(s *commands.Submission) { s.Deadline = &never }, nil},
		{"bad priority", func(s *commands.Submission) { s.Priority = "urgent" }, nil},
		{"final", func(*commands.Submission) {}, func(t *testing.T, r *rig, id uuid.UUID) {
			r.attempt(t, id, applied, outcome.StateSuccess)
		}},
		{"profile changed", func(*commands.Submission) {}, func(t *testing.T, r *rig, _ uuid.UUID) {
			r.apply(t, strings.Replace(profile, "/accounts/{account}/payments", "/v3/{account}/payments", 1))
		}},
		{"a parameter more is needed now", func(*commands.Submission) {}, func(t *testing.T, r *rig, _ uuid.UUID) {
			r.apply(t, strings.Replace(profile, "/accounts/{account}/payments", "/{region}/{account}/payments", 1))
		}},
		{"operation gone", func(*commands.Submission) {}, func(t *testing.T, r *rig, _ uuid.UUID) {
			r.apply(t, strings.Replace(profile, "  pay:", "  renamed:", 1))
		}},
		{"upstream paused", func(*commands.Submission) {}, func(t *testing.T, r *rig, _ uuid.UUID) {
			if _, err := r.ups.Pause(t.Context(), tenant, "up", audit.By{Actor: "test", Reason: "maintenance"}); err != nil {
				t.Fatal(err)
			}
		}},
	}
	r := newRig(t)
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r.apply(t, profile)
			s := submission("k"+strconv.Itoa(i), "pay")
			first := r.submit(t, s)
			if tt.before != nil {
				tt.before(t, r, first.ID)
			}
			now := r.get(t, first.ID)
			tt.change(&s)
			a, err := r.store.Submit(t.Context(), s)
			if err != nil || !a.Replayed || a.Command.ID != first.ID {
				t.Fatalf("not replayed: %+v, %v", a, err)
			}
			if a.Command.State != now.State || a.Command.Version != now.Version || !a.Command.Deadline.Equal(first.Deadline) {
				t.Errorf("replayed as %s, version %d; it is %s, version %d", a.Command.State, a.Command.Version, now.State, now.Version)
			}
		})
	}
	if n := r.count(t, `SELECT count(*) FROM commands`); n != len(tests) {
		t.Errorf("%d commands, want %d", n, len(tests))
	}
}

// TestReplayOfWhatIsNoLongerValid: a key that is bound to another request says
// so, even where the new request could not be accepted either.
func TestReplayOfWhatIsNoLongerValid(t *testing.T) {
	r := newRig(t)
	bound := r.submit(t, submission("k", "pay"))
	s := submission("k", "vanished")
	_, err := r.store.Submit(t.Context(), s)
	var m *commands.KeyMismatch
	if !errors.As(err, &m) || m.CommandID != bound.ID {
		t.Errorf("got %v, want a mismatch", err)
	}
}

// TestRacingSubmits: forty callers in two processes, one key, one request.
func TestRacingSubmits(t *testing.T) {
	pool := testkit.Database(t)
	rigs := []*rig{newRigOn(t, pool), newRigOn(t, pool)}
	var (
		racing sync.WaitGroup
		got    [40]commands.Accepted
	)
	for i := range got {
		racing.Go(func() {
			var err error
			if got[i], err = rigs[i%2].store.Submit(t.Context(), submission("k", "pay")); err != nil {
				t.Error(err)
			}
		})
	}
	racing.Wait()
	fresh := 0
	for _, a := range got {
		if a.Command.ID != got[0].Command.ID {
			t.Fatalf("two commands: %s and %s", a.Command.ID, got[0].Command.ID)
		}
		if !a.Replayed {
			fresh++
		}
	}
	if fresh != 1 {
		t.Errorf("%d callers were told that their submission was the first", fresh)
	}
	if n := rigs[0].count(t, `SELECT count(*) FROM river_job`); n != 1 {
		t.Errorf("%d jobs for one command", n)
	}
}

// TestRacingBodies: of two requests under one key one wins, and everybody else
// learns which.
func TestRacingBodies(t *testing.T) {
	pool := testkit.Database(t)
	rigs := []*rig{newRigOn(t, pool), newRigOn(t, pool)}
	bodies := []string{`{"amount":100}`, `{"amount":101}`}
	var (
		racing sync.WaitGroup
		got    [40]commands.Accepted
		errs   [40]error
	)
	for i := range got {
		racing.Go(func() {
			s := submission("k", "pay")
			s.Body = []byte(bodies[i/2%2])
			got[i], errs[i] = rigs[i%2].store.Submit(t.Context(), s)
		})
	}
	racing.Wait()
	var id uuid.UUID
	var winner []byte
	rigs[0].scan(t, `SELECT command_id, body FROM command_requests`, nil, &id, &winner)
	for i := range got {
		var m *commands.KeyMismatch
		switch {
		case bodies[i/2%2] == string(winner):
			if errs[i] != nil || got[i].Command.ID != id {
				t.Errorf("caller %d sent what won: %v", i, errs[i])
			}
		case !errors.As(errs[i], &m) || m.CommandID != id || !slices.Equal(m.Differs, []string{"body"}):
			t.Errorf("caller %d sent what lost: %v", i, errs[i])
		}
	}
}

// TestBatch: each item on its own, duplicates inside the batch included.
func TestBatch(t *testing.T) {
	r := newRig(t)
	bound := r.submit(t, submission("bound", "pay"))
	badBody := submission("bad body", "pay")
	badBody.Body = []byte(`{"amount":`)
	batch := []commands.Submission{
		submission("a", "pay"), submission("a", "pay"), submission("bound", "pay"), submission("bound", "charge"),
		badBody, submission("b", "nonsense"), submission("c", "charge"),
	}
	results := r.store.SubmitBatch(t.Context(), batch)
	if len(results) != len(batch) {
		t.Fatalf("%d results for %d items", len(results), len(batch))
	}
	a, twin := results[0], results[1]
	if a.Err != nil || twin.Err != nil || a.Accepted.Command.ID != twin.Accepted.Command.ID || a.Accepted.Replayed == twin.Accepted.Replayed {
		t.Errorf("twins: %+v and %+v", a, twin)
	}
	if b := results[2]; b.Err != nil || !b.Accepted.Replayed || b.Accepted.Command.ID != bound.ID {
		t.Errorf("bound: %+v", b)
	}
	var m *commands.KeyMismatch
	if !errors.As(results[3].Err, &m) || m.CommandID != bound.ID {
		t.Errorf("reused: %v", results[3].Err)
	}
	for i, pointer := range map[int]string{4: "/body", 5: "/operation"} {
		var bad *commands.Invalid
		if !errors.As(results[i].Err, &bad) || bad.Fields[0].Pointer != pointer || results[i].Accepted != nil {
			t.Errorf("item %d: %+v", i, results[i])
		}
	}
	if c := results[6]; c.Err != nil || c.Accepted.Replayed {
		t.Errorf("last: %+v", c)
	}
	if n := r.count(t, `SELECT count(*) FROM commands`); n != 3 {
		t.Errorf("%d commands, want 3", n)
	}
}

// TestLargeBatch: more than share one commit, in each of two processes at once,
// in opposite orders.
func TestLargeBatch(t *testing.T) {
	pool := testkit.Database(t)
	rigs := []*rig{newRigOn(t, pool), newRigOn(t, pool)}
	const n = 300
	forth, back := make([]commands.Submission, n), make([]commands.Submission, n)
	for i := range n {
		forth[i] = submission("k"+strconv.Itoa(i), "pay")
		back[n-1-i] = forth[i]
	}
	var both sync.WaitGroup
	for i, batch := range [][]commands.Submission{forth, back} {
		both.Go(func() {
			for _, res := range rigs[i].store.SubmitBatch(t.Context(), batch) {
				if res.Err != nil {
					t.Error(res.Err)
				}
			}
		})
	}
	both.Wait()
	if got := rigs[0].count(t, `SELECT count(*) FROM commands c JOIN river_job j ON j.id = c.job_id`); got != n {
		t.Errorf("%d commands with a job, want %d", got, n)
	}
}

// TestPoisonousItem: text that the database refuses spoils its own item only.
func TestPoisonousItem(t *testing.T) {
	r := newRig(t)
	var batch []commands.Submission
	for i := range 20 {
		batch = append(batch, submission("k"+strconv.Itoa(i), "pay"))
	}
	batch[7].Metadata = map[string]string{"a": "\x00"}
	for i, res := range r.store.SubmitBatch(t.Context(), batch) {
		if (res.Err != nil) != (i == 7) {
			t.Errorf("item %d: %v", i, res.Err)
		}
	}
}

func TestInvalidSubmissions(t *testing.T) {
	now := time.Now()
	at := func(d time.Duration) *time.Time { return new(now.Add(d)) }
	tests := []struct {
		name, pointer, code string
		change              func(*commands.Submission)
	}{
		{"upstream", "/upstream", "unknown_upstream", func(s *commands.Submission) { s.Upstream = "nobody" }},
		{"operation", "/operation", "unknown_operation", func(s *commands.Submission) { s.Operation = "nothing" }},
		{"priority", "/priority", "unknown_priority", func(s *commands.Submission) { s.Priority = "urgent" }},
		{"both", "/timeout", "both_given", func(s *commands.Submission) { s.Deadline, s.Timeout = at(time.Hour), time.Hour }},
		{"deadline over", "/deadline", "no_room", func(s *commands.Submission) { s.Deadline = at(-time.Hour) }},
		{"deadline too near", "/deadline", "no_room", func(s *commands.Submission) { s.Deadline = at(500 * time.Millisecond) }},
		{"deadline before not_before", "/deadline", "no_room", func(s *commands.Submission) { s.Deadline, s.NotBefore = at(time.Hour), at(2*time.Hour) }},
		{"deadline just after not_before", "/deadline", "no_room", func(s *commands.Submission) {
			s.Deadline, s.NotBefore = at(time.Hour), at(time.Hour-500*time.Millisecond)
		}},
		{"deadline that cannot be written", "/deadline", "out_of_range", func(s *commands.Submission) {
			s.Deadline = new(time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -3600)))
		}},
		{"start that cannot be written", "/not_before", "out_of_range", func(s *commands.Submission) {
			s.NotBefore = new(time.Date(1, 1, 1, 0, 30, 0, 0, time.FixedZone("", 3600)))
		}},
		{"start whose deadline cannot be written", "/not_before", "out_of_range", func(s *commands.Submission) {
			s.NotBefore = new(time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC))
		}},
		{"timeout too short", "/timeout", "no_room", func(s *commands.Submission) { s.Timeout = 999 * time.Millisecond }},
		{"timeout negative", "/timeout", "no_room", func(s *commands.Submission) { s.Timeout = -time.Hour }},
		{"no body", "/body", "required", func(s *commands.Submission) { s.Body, s.HasBody = nil, false }},
		{"empty body", "/body", "invalid", func(s *commands.Submission) { s.Body = nil }},
		{"body is no JSON", "/body", "invalid", func(s *commands.Submission) { s.Body = []byte(`{"amount":`) }},
		{"body is no UTF-8", "/body", "invalid", func(s *commands.Submission) { s.Body = []byte("{\"a\":\"\xff\"}") }},
		{"body names a member twice", "/body", "invalid", func(s *commands.Submission) { s.Body = []byte(`{"amount":1,"amount":2}`) }},
		{"body is too deep", "/body", "invalid", func(s *commands.Submission) {
			s.Body = []byte(strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000))
		}},
		{"body is of another kind", "/content_type", "invalid", func(s *commands.Submission) { s.ContentType = "text/plain" }},
		{"no key", "/idempotency_key", "required", func(s *commands.Submission) { s.Key = "" }},
		{"key too long for the upstream", "/idempotency_key", "too_long", func(s *commands.Submission) { s.Key = strings.Repeat("k", 41) }},
		{"parameter missing", "/params/account", "required", func(s *commands.Submission) { s.Params = nil }},
		{"parameter climbs", "/params/account", "invalid", func(s *commands.Submission) { s.Params["account"] = ".." }},
		{"header not open to callers", "/headers/X-Other", "forbidden", func(s *commands.Submission) { s.Headers = map[string]string{"X-Other": "1"} }},
	}
	r := newRig(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := submission("k", "pay")
			tt.change(&s)
			for what, call := range map[string]func() error{
				"submit":  func() error { _, err := r.store.Submit(t.Context(), s); return err },
				"dry run": func() error { _, err := r.store.DryRun(t.Context(), s); return err },
			} {
				var bad *commands.Invalid
				err := call()
				if !errors.As(err, &bad) || len(bad.Fields) != 1 || bad.Fields[0].Pointer != tt.pointer || bad.Fields[0].Code != tt.code {
					t.Errorf("%s: got %#v, want %s at %s", what, err, tt.code, tt.pointer)
				}
			}
		})
	}
	if n := r.count(t, `SELECT count(*) FROM commands`); n != 0 {
		t.Errorf("%d commands were accepted", n)
	}
}

// TestTimes: the deadline counts from the later of acceptance and not_before.
func TestTimes(t *testing.T) {
	r := newRig(t)
	later := time.Now().Add(time.Hour).Truncate(time.Microsecond)
	past := time.Now().Add(-time.Hour).Truncate(time.Microsecond)
	deadline := later.Add(time.Minute)
	tests := []struct {
		name     string
		change   func(*commands.Submission)
		deadline func(c commands.Command) time.Time
		due      func(c commands.Command) time.Time
	}{
		{"timeout", func(s *commands.Submission) { s.Timeout = time.Minute },
			func(c commands.Command) time.Time { return c.CreatedAt.Add(time.Minute) }, created},
		{"deadline", func(s *commands.Submission) { s.Deadline = &deadline },
			func(commands.Command) time.Time { return deadline }, created},
		{"not_before", func(s *commands.Submission) { s.NotBefore = &later },
			func(commands.Command) time.Time { return later.Add(10 * time.Minute) }, func(commands.Command) time.Time { return later }},
		{"not_before and timeout", func(s *commands.Submission) { s.NotBefore, s.Timeout = &later, time.Second },
			func(commands.Command) time.Time { return later.Add(time.Second) }, func(commands.Command) time.Time { return later }},
		{"not_before and deadline", func(s *commands.Submission) { s.NotBefore, s.Deadline = &later, &deadline },
			func(commands.Command) time.Time { return deadline }, func(commands.Command) time.Time { return later }},
		{"not_before in the past", func(s *commands.Submission) { s.NotBefore, s.Timeout = &past, time.Minute },
			func(c commands.Command) time.Time { return c.CreatedAt.Add(time.Minute) }, created},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := submission("k"+strconv.Itoa(i), "pay")
			tt.change(&s)
			said := r.submit(t, s)
			c := r.get(t, said.ID)
			if !c.Deadline.Equal(tt.deadline(c)) || !said.Deadline.Equal(c.Deadline) {
				t.Errorf("deadline %s, told %s, want %s", c.Deadline, said.Deadline, tt.deadline(c))
			}
			if !c.NextAttemptAt.Equal(tt.due(c)) {
				t.Errorf("due %s, want %s", c.NextAttemptAt, tt.due(c))
			}
			if (c.NotBefore == nil) != (s.NotBefore == nil) || (c.NotBefore != nil && !c.NotBefore.Equal(*s.NotBefore)) {
				t.Errorf("not_before %v, want %v", c.NotBefore, s.NotBefore)
			}
			waits := c.NextAttemptAt.After(c.CreatedAt)
			if got := said.Waiting; waits != (got != nil && got.For == commands.WaitNotBefore && got.Until.Equal(*c.NextAttemptAt)) {
				t.Errorf("told to wait for %+v", got)
			}
			var state string
			r.scan(t, `SELECT j.state::text FROM river_job j JOIN commands c ON c.job_id = j.id WHERE c.id = $1`, []any{c.ID}, &state)
			if (state == "scheduled") != waits {
				t.Errorf("the job is %s", state)
			}
		})
	}
}

func created(c commands.Command) time.Time { return c.CreatedAt }

// TestAcceptedWhilePaused: the caller is told at once that nothing is sent.
func TestAcceptedWhilePaused(t *testing.T) {
	r := newRig(t)
	if _, err := r.ups.Pause(t.Context(), tenant, "up", audit.By{Actor: "test", Reason: "maintenance"}); err != nil {
		t.Fatal(err)
	}
	if c := r.submit(t, submission("k", "pay")); c.Waiting == nil || c.Waiting.For != commands.WaitPaused {
		t.Errorf("waits for %+v", c.Waiting)
	}
}

func TestPriorities(t *testing.T) {
	r := newRig(t)
	for given, want := range map[commands.Priority]commands.Priority{
		"": commands.PriorityNormal, "high": commands.PriorityHigh, "normal": commands.PriorityNormal, "low": commands.PriorityLow,
	} {
		s := submission("p"+string(given), "pay")
		s.Priority = given
		said := r.submit(t, s)
		var job int
		r.scan(t, `SELECT j.priority FROM river_job j JOIN commands c ON c.job_id = j.id WHERE c.id = $1`, []any{said.ID}, &job)
		if c := r.get(t, said.ID); c.Priority != want || said.Priority != want || job != want.Number() {
			t.Errorf("priority %q became %q, told %q, job %d", given, c.Priority, said.Priority, job)
		}
	}
}
