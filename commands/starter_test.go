package commands_test

import (
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"executor/commands"
)

// starter stands for the process's engine: it has room for some first attempts.
type starter struct {
	mu       sync.Mutex
	epoch    int64
	room     int
	full     bool // for bodies
	launched []commands.Prepared
	kept     []commands.Prepared
	held     map[uuid.UUID][]byte
	settled  map[uuid.UUID]bool
}

func (s *starter) Claim(int64) (int64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.room == 0 {
		return 0, false
	}
	s.room--
	return s.epoch, true
}

func (s *starter) Launch(c commands.Prepared) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.launched = append(s.launched, c)
}

func (s *starter) Unclaim(int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room++
}

func (s *starter) Hold(id uuid.UUID, _ string, body []byte) (int64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full {
		return 0, false
	}
	if s.held == nil {
		s.held, s.settled = map[uuid.UUID][]byte{}, map[uuid.UUID]bool{}
	}
	s.held[id] = body
	return s.epoch, true
}

func (s *starter) Keep(c commands.Prepared) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = append(s.kept, c)
}

func (s *starter) Settle(id uuid.UUID, accepted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settled[id] = accepted
}

func newStarter(t *testing.T, room int) (*rig, *starter) {
	r := newRig(t)
	s := &starter{epoch: r.lease(t, "live", true), room: room}
	r.store.SetStarter(s)
	return r, s
}

// TestLaunch: a command that this process starts needs no job, and is handed
// over whole.
func TestLaunch(t *testing.T) {
	r, st := newStarter(t, 2)
	s := submission("k", "pay")
	s.Priority = commands.PriorityHigh
	c := r.submit(t, s)
	if len(st.launched) != 1 || st.room != 1 {
		t.Fatalf("%d launched, room for %d", len(st.launched), st.room)
	}
	p := st.launched[0]
	if p.ID != c.ID || p.Tenant != tenant || p.UpstreamID != c.UpstreamID || p.Operation != "pay" || p.ProfileVersion != 1 ||
		p.Priority != commands.PriorityHigh || !p.CreatedAt.Equal(c.CreatedAt) || !p.Deadline.Equal(c.Deadline) || !p.Due.Equal(c.CreatedAt) {
		t.Errorf("launched %+v", p)
	}
	var path string
	var body []byte
	r.scan(t, `SELECT path, body FROM command_requests WHERE command_id = $1`, []any{c.ID}, &path, &body)
	if p.Request.Method != "POST" || p.Request.Path != path || string(p.Request.Body) != string(body) || p.Request.Identity.Key != "k" {
		t.Errorf("request %+v", p.Request)
	}
	if n := r.count(t, `SELECT count(*) FROM river_job`); n != 0 {
		t.Errorf("%d jobs for a claimed command", n)
	}
	due, err := r.store.Claimed(t.Context(), st.epoch)
	if err != nil || len(due) != 1 || due[0].ID != c.ID || due[0].UpstreamID != c.UpstreamID || due[0].Priority != 1 {
		t.Errorf("claimed %+v, %v", due, err)
	}
}

// TestRoomIsGivenBack: by a replay, a mismatch and a refused submission.
func TestRoomIsGivenBack(t *testing.T) {
	r, st := newStarter(t, 2)
	r.submit(t, submission("k", "pay"))
	if a, err := r.store.Submit(t.Context(), submission("k", "pay")); err != nil || !a.Replayed {
		t.Errorf("replay: %+v, %v", a, err)
	}
	other := submission("k", "pay")
	other.Body = []byte(`{}`)
	var m *commands.KeyMismatch
	if _, err := r.store.Submit(t.Context(), other); !errors.As(err, &m) {
		t.Errorf("mismatch: %v", err)
	}
	poison := submission("p", "pay")
	poison.Metadata = map[string]string{"a": "\x00"}
	if _, err := r.store.Submit(t.Context(), poison); !errors.Is(err, commands.ErrUnavailable) {
		t.Errorf("refused by the database: %v", err)
	}
	if len(st.launched) != 1 || st.room != 1 {
		t.Errorf("%d launched, room for %d", len(st.launched), st.room)
	}
}

// TestQueuedForWantOfRoom: without room, and for a moment of its own, a command
// goes to the queue.
func TestQueuedForWantOfRoom(t *testing.T) {
	r, st := newStarter(t, 1)
	first := r.submit(t, submission("first", "pay"))
	second := r.submit(t, submission("second", "pay"))
	st.room = 1
	later := time.Now().Add(time.Hour)
	timed := submission("timed", "pay")
	timed.NotBefore = &later
	third := r.submit(t, timed)
	for c, want := range map[uuid.UUID]bool{first.ID: true, second.ID: false, third.ID: false} {
		var claimed, queued bool
		r.scan(t, `SELECT claimed_by IS NOT NULL, job_id IS NOT NULL FROM commands WHERE id = $1`, []any{c}, &claimed, &queued)
		if claimed != want || queued == want {
			t.Errorf("claimed %v, queued %v, want claimed %v", claimed, queued, want)
		}
	}
	if st.room != 1 {
		t.Errorf("room for %d", st.room)
	}
}

// TestRacingLaunch: of many racing callers with room for all exactly one starts
// the command.
func TestRacingLaunch(t *testing.T) {
	r, st := newStarter(t, 100)
	var racing sync.WaitGroup
	for i := range 40 {
		racing.Go(func() {
			if _, err := r.store.Submit(t.Context(), submission("k"+strconv.Itoa(i%2), "pay")); err != nil {
				t.Error(err)
			}
		})
	}
	racing.Wait()
	if len(st.launched) != 2 || st.room != 98 || st.launched[0].ID == st.launched[1].ID {
		t.Errorf("%d launched, room for %d", len(st.launched), st.room)
	}
}
