package attempts_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"executor/commands"
	"executor/internal/audit"
	"executor/internal/bodyfiles"
	"executor/outcome"
	"executor/upstreams"
)

const secretBody = `{"pin":"canary-4711"}`

func oneShot(key, operation string) commands.Submission {
	s := submission(key, operation)
	s.Body, s.OneShot = []byte(secretBody), true
	return s
}

// pause stops or resumes the upstream, as this process knows at once: nothing is on
// its way any more that could begin after a resume.
func (p *process) pause(t *testing.T, paused bool) {
	t.Helper()
	change := p.ups.Resume
	if paused {
		change = p.ups.Pause
	}
	if _, err := change(t.Context(), "default", "up", audit.By{Actor: "test"}); err != nil {
		t.Fatal(err)
	}
	if err := p.engine.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestOneShotIsSentOnce: whatever comes of the attempt, there is no second one, not
// even where a stored body would be sent again without harm.
func TestOneShotIsSentOnce(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		switch r.Header.Get("Idempotency-Key") {
		case "done":
			w.WriteHeader(http.StatusCreated)
		case "declined":
			w.WriteHeader(http.StatusTooManyRequests)
		case "silent":
			drop(w)
		}
	})
	p := startProcess(t, database(t), options{})
	p.apply(t, profileOf("up", up.URL, ""))
	for key, want := range map[string]outcome.State{
		"done": outcome.StateSuccess, "declined": outcome.StateCancelled, "silent": outcome.StateUnresolved,
	} {
		c := p.final(t, p.submit(t, oneShot(key, "pay")).ID)
		sent := up.of(key)
		if c.State != want || len(sent) != 1 || sent[0].Body != secretBody {
			t.Errorf("%s: %s %+v after %d requests", key, c.State, c.Outcome, len(sent))
		}
		if list := p.attempts(t, c.ID); len(list) != 1 || len(list[0].BodySHA256) != 0 {
			t.Errorf("%s: attempts %+v", key, list)
		}
	}
	var found int
	err := p.pool.QueryRow(t.Context(), `
		SELECT count(*) FROM command_requests r JOIN attempts a USING (command_id) WHERE r::text || a::text LIKE '%canary%' OR octet_length(r.body) > 0`).Scan(&found)
	if err != nil || found != 0 {
		t.Errorf("%d rows hold the body, %v", found, err)
	}
}

// TestOneShotNeverSent: an attempt that did not get there ends the command too, as
// what was never sent.
func TestOneShotNeverSent(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, func(http.ResponseWriter, *http.Request, int) {})
	up.Close() // nothing listens there any more
	p := startProcess(t, database(t), options{})
	p.apply(t, profileOf("up", up.URL, ""))
	c := p.final(t, p.submit(t, oneShot("k", "pay")).ID)
	if c.State != outcome.StateCancelled || c.Outcome.Reason != outcome.OutcomeReasonNeverSent || c.Outcome.StoppedBy != outcome.ReasonBodyNotReplayable || c.Attempts != 1 {
		t.Errorf("%s %+v after %d attempts", c.State, c.Outcome, c.Attempts)
	}
}

// TestOneShotWaitsWithItsProcess: a command that has to wait is started by the
// process that has its body, and by no other.
func TestOneShotWaitsWithItsProcess(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(http.StatusCreated) })
	pool := database(t)
	holder := startProcess(t, pool, options{leaseTTL: 2 * time.Second})
	holder.apply(t, profileOf("up", up.URL, ""))
	holder.pause(t, true)
	c := holder.submit(t, oneShot("k", "pay"))
	startProcess(t, pool, options{leaseTTL: 2 * time.Second}) // sees the same rows
	holder.pause(t, false)
	if c = holder.final(t, c.ID); c.State != outcome.StateSuccess {
		t.Fatalf("%s %+v", c.State, c.Outcome)
	}
	if list := holder.attempts(t, c.ID); len(list) != 1 || list[0].Instance != holder.instance {
		t.Errorf("attempts %+v", list)
	}
}

// TestOneShotDiesWithItsProcess: once the lease of the process that has the body is
// gone, the command ends as never sent, and the process itself sends nothing of it
// should it come back.
func TestOneShotDiesWithItsProcess(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(http.StatusCreated) })
	pool := database(t)
	holder := startProcess(t, pool, options{leaseTTL: 2 * time.Second})
	holder.apply(t, profileOf("up", up.URL, ""))
	holder.pause(t, true)
	lapsed, stopped := holder.submit(t, oneShot("lapsed", "pay")), oneShot("stopped", "pay")
	other := startProcess(t, pool, options{leaseTTL: 2 * time.Second})
	if _, err := pool.Exec(t.Context(), `UPDATE leases SET ended_at = clock_timestamp() WHERE instance = $1`, holder.instance); err != nil {
		t.Fatal(err)
	}
	neverSent := func(c commands.Command) {
		t.Helper()
		if c.State != outcome.StateCancelled || c.Outcome.Reason != outcome.OutcomeReasonNeverSent || !c.Outcome.SafeToResubmit {
			t.Errorf("%s %+v", c.State, c.Outcome)
		}
	}
	neverSent(other.final(t, lapsed.ID))
	eventually(t, "the holder has a lease again", func() bool {
		_, err := holder.commands.Submit(context.Background(), stopped)
		return err == nil
	})
	holder.stop()
	c, err := other.commands.Submit(t.Context(), stopped)
	if err != nil || !c.Replayed {
		t.Fatalf("%+v %v", c, err)
	}
	neverSent(c.Command)
	other.pause(t, false)
	other.final(t, other.submit(t, submission("after", "pay")).ID)
	if len(up.of("lapsed"))+len(up.of("stopped")) > 0 {
		t.Error("something was sent after all")
	}
}

// bodyFile writes a file of the tenant and refers to it.
func bodyFile(t *testing.T, root, name, content string) *bodyfiles.File {
	t.Helper()
	path := filepath.Join(root, "default", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(content))
	return &bodyfiles.File{Path: name, Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:])}
}

// TestFileIsSentAgain: a file that has not changed is sent byte for byte at each
// attempt; one that has is never sent, and what is known of the earlier attempts
// stands.
func TestFileIsSentAgain(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	content := strings.Repeat("0123456789abcdef", 20_000) + "\x00\r\n--"
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request, n int) {
		switch key := r.Header.Get("Idempotency-Key"); {
		case key == "changed":
			if err := os.WriteFile(filepath.Join(root, "default", "changed"), []byte(content[1:]+"!"), 0o600); err != nil {
				t.Error(err)
			}
			w.WriteHeader(http.StatusServiceUnavailable)
		case n == 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			w.WriteHeader(http.StatusCreated)
		}
	})
	p := startProcess(t, database(t), options{files: root})
	p.apply(t, profileOf("up", up.URL, ""))
	upload := func(key string) commands.Submission {
		s := submission(key, "upload")
		s.Body, s.HasBody, s.BodyFile = nil, false, bodyFile(t, root, key, content)
		return s
	}
	same := p.final(t, p.submit(t, upload("same")).ID)
	sent := up.of("same")
	if same.State != outcome.StateSuccess || same.BodyKind != outcome.BodyReopenable || len(sent) != 2 || sent[0].Body != content || sent[1].Body != content {
		t.Errorf("%s %+v after %d requests", same.State, same.Outcome, len(sent))
	}
	changed := p.final(t, p.submit(t, upload("changed")).ID)
	list := p.attempts(t, changed.ID)
	if changed.State != outcome.StateUnresolved || changed.Outcome.StoppedBy != outcome.ReasonPermanentFailure || len(up.of("changed")) != 1 ||
		len(list) != 2 || list[1].Category != outcome.CategoryRequestInvalid || !strings.Contains(list[1].Detail, "other bytes") {
		t.Errorf("%s %+v, attempts %+v", changed.State, changed.Outcome, list)
	}
	if err := os.Remove(filepath.Join(root, "default", "same")); err != nil {
		t.Fatal(err)
	}
	p.pause(t, true)
	gone := p.submit(t, upload("gone"))
	if err := os.Remove(filepath.Join(root, "default", "gone")); err != nil {
		t.Fatal(err)
	}
	p.pause(t, false)
	if gone = p.final(t, gone.ID); gone.State != outcome.StateCancelled || gone.Outcome.Reason != outcome.OutcomeReasonNeverSent || len(up.of("gone")) != 0 {
		t.Errorf("%s %+v", gone.State, gone.Outcome)
	}
}

// TestFilesThatCannotBeRead: while the volume is not there, or its disk stands still, a
// command waits without an attempt and holds up no other one; afterwards it is sent.
func TestFilesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	root, back := t.TempDir(), make(chan struct{})
	var still, again atomic.Bool // the disk stands still; a repeat is under way
	up := newUpstream(t, func(http.ResponseWriter, *http.Request, int) {})
	var log journal
	p := startProcess(t, database(t), options{files: root, log: &log, disk: func(path string) {
		switch {
		case path == "still" && still.Load():
			<-back
		case path == "done" && again.Load():
			t.Error("a repeat compared the file once more")
		}
	}})
	p.apply(t, profileOf("up", up.URL, "limits: {max_in_flight: 1}"))
	upload := func(key string) commands.Submission {
		s := submission(key, "upload")
		s.Body, s.HasBody, s.BodyFile, s.Timeout = nil, false, bodyFile(t, root, key, key), 5*time.Minute
		return s
	}
	done := upload("done")
	p.final(t, p.submit(t, done).ID)
	p.pause(t, true)
	var (
		waiting []commands.Command
		fresh   = upload("fresh")
	)
	for _, key := range []string{"still", "gone", "gone too", "hasty"} {
		s := upload(key)
		s.OneShot = key == "gone too"
		if key == "hasty" {
			s.Timeout = 3 * time.Second
		}
		waiting = append(waiting, p.submit(t, s))
	}
	still.Store(true)
	elsewhere := filepath.Join(t.TempDir(), "volume")
	if err := os.Rename(filepath.Join(root, "default"), elsewhere); err != nil {
		t.Fatal(err)
	}
	p.pause(t, false)
	for _, c := range waiting[:3] {
		p.waitsFor(t, c.ID, commands.WaitFile)
	}
	if c := p.final(t, waiting[3].ID); c.State != outcome.StateCancelled || c.Outcome.DecidedBy != outcome.DecidedByDeadline || c.Attempts != 0 {
		t.Errorf("without its file it ended %s after %d attempts: %+v", c.State, c.Attempts, c.Outcome)
	}
	if c := p.final(t, p.submit(t, submission("other", "pay")).ID); c.State != outcome.StateSuccess {
		t.Errorf("a command without files ended %s", c.State)
	}
	var away *commands.FilesUnavailable
	if _, err := p.commands.Submit(t.Context(), fresh); !errors.As(err, &away) || away.Pointer != "/body_ref" {
		t.Errorf("a file that nobody can compare was accepted: %v", err)
	}
	again.Store(true)
	if a, err := p.commands.Submit(t.Context(), done); err != nil || !a.Replayed {
		t.Errorf("repeated without the volume: %+v, %v", a, err)
	}
	if err := os.Rename(elsewhere, filepath.Join(root, "default")); err != nil {
		t.Fatal(err)
	}
	close(back)
	for _, c := range waiting[:3] {
		c = p.final(t, c.ID)
		if sent := up.of(c.Key); c.State != outcome.StateSuccess || c.Attempts != 1 || len(sent) != 1 || sent[0].Body != c.Key {
			t.Errorf("%s: ended %s after %d attempts, sent %+v", c.Key, c.State, c.Attempts, sent)
		}
	}
	log.leaks(t, "file of a body unavailable")
}

// TestMultipartOnTheWire: what a server reads are the parts, a file among them, and
// the key; at each attempt the same bytes.
func TestMultipartOnTheWire(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request, n int) {
		if n == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	p := startProcess(t, database(t), options{files: root})
	p.apply(t, profileOf("up", up.URL, ""))
	s := submission("k", "form")
	s.Body, s.HasBody = nil, false
	s.Parts = []upstreams.Part{
		{Name: "meta", ContentType: "application/json", Body: []byte(`{"a":1}`)},
		{Name: "file", Filename: "f.bin", File: bodyFile(t, root, "f", "the file")},
	}
	c := p.final(t, p.submit(t, s).ID)
	sent := up.all()
	if c.State != outcome.StateSuccess || len(sent) != 2 || sent[0].Body != sent[1].Body || sent[0].ContentType != sent[1].ContentType {
		t.Fatalf("%s %+v: %+v", c.State, c.Outcome, sent)
	}
	_, boundary, _ := strings.Cut(sent[0].ContentType, "boundary=")
	form, err := multipart.NewReader(strings.NewReader(sent[0].Body), boundary).ReadForm(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	file, err := form.File["file"][0].Open()
	if err != nil {
		t.Fatal(err)
	}
	content, _ := io.ReadAll(file)
	if form.Value["meta"][0] != `{"a":1}` || form.Value["request_id"][0] != "k" || string(content) != "the file" {
		t.Errorf("%v %q", form.Value, content)
	}
}
