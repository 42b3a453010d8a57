package api

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"executor/commands"
	"executor/reconcile"
)

// TestSubmissionLimits: each limit holds at its value, one above it and far above.
func TestSubmissionLimits(t *testing.T) {
	g := newRig(t)
	body := func(more string) string { return `{"upstream":"u","operation":"o"` + more + `}` }
	labels := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `%s"m%d":""`, strings.Repeat(",", min(i, 1)), i)
		}
		return b.String()
	}
	long := func(n int) string { return strings.Repeat("é", n) }
	for name, tt := range map[string]struct {
		limit   int
		body    func(n int) string
		pointer string
		code    string
	}{
		"metadata":       {maxMetadata, func(n int) string { return body(`,"metadata":{` + labels(n) + `}`) }, "/metadata", "too_many"},
		"metadata name":  {maxMetadataName, func(n int) string { return body(`,"metadata":{"` + long(n) + `":""}`) }, "/metadata/", "too_long"},
		"metadata value": {maxMetadataValue, func(n int) string { return body(`,"metadata":{"a":"` + long(n) + `"}`) }, "/metadata/a", "too_long"},
		"parameter name": {maxName, func(n int) string { return body(`,"params":{"` + long(n) + `":""}`) }, "/params/", "too_long"},
		"header name":    {maxName, func(n int) string { return body(`,"headers":{"` + long(n) + `":""}`) }, "/headers/", "too_long"},
		"upstream":       {maxName, func(n int) string { return `{"upstream":"` + long(n) + `","operation":"o"}` }, "/upstream", "too_long"},
		"content type":   {maxContentType, func(n int) string { return body(`,"body_base64":"","content_type":"` + strings.Repeat("x", n) + `"`) }, "/content_type", "too_long"},
	} {
		g.submit("k", tt.body(tt.limit)).want(202)
		for _, n := range []int{tt.limit + 1, 100 * tt.limit} {
			p := g.submit("k", tt.body(n)).want(422).problem(ProblemCodeInvalidRequest)
			if len(p.Errors) == 0 || !strings.HasPrefix(p.Errors[0].Pointer, tt.pointer) || p.Errors[0].Code != tt.code {
				t.Errorf("%s of %d: %.300v", name, n, p.Errors)
			}
		}
	}
	nested := func(n int) string { return body(`,"body":` + strings.Repeat("[", n) + strings.Repeat("]", n)) }
	g.submit("k", nested(maxDepth-1)).want(202)
	for _, n := range []int{maxDepth, 100_000} {
		if p := g.submit("k", nested(n)).want(400).problem(ProblemCodeMalformedJSON); p.Errors[0].Code != "too_deep" {
			t.Errorf("depth %d: %+v", n, p.Errors)
		}
	}
}

// TestBatchLimits: a thousand commands, and each of them of no more bytes than one by
// itself.
func TestBatchLimits(t *testing.T) {
	g := newRig(t, func(c *Config) { c.SubmitBytes, c.BatchBytes = 1<<10, 1<<20 })
	batch := func(n int, more string) string {
		items := make([]string, n)
		for i := range items {
			items[i] = fmt.Sprintf(`{"upstream":"u","operation":"o","idempotency_key":"k%d"%s}`, i, more)
		}
		return `{"commands":[` + strings.Join(items, ",") + `]}`
	}
	send := func(body string) *reply { return g.do("POST", "/v1/commands/batch", sending(body)) }
	send(batch(maxBatch, "")).want(200)
	for _, n := range []int{maxBatch + 1, 5 * maxBatch} {
		if p := send(batch(n, "")).want(422).problem(ProblemCodeInvalidRequest); p.Errors[0].Code != "too_many" {
			t.Errorf("%d commands: %+v", n, p.Errors)
		}
	}
	if r := send(batch(2, `,"body":"`+strings.Repeat("x", 1<<10)+`"`)).want(200); bytes.Count(r.body, []byte(`"status":413,"problem"`)) != 2 {
		t.Errorf("%.300s", r.body)
	}
	half := strings.Repeat("x", 700)
	for _, more := range []string{
		`,"parts":[{"name":"a","value":"` + half + `"},{"name":"b","value":"` + half + `"}]`,
		`,"query":{"a":"` + half + `","b":"` + half + `"}`,
	} {
		if r := send(batch(1, more)).want(200); bytes.Count(r.body, []byte(`"status":413,"problem"`)) != 1 {
			t.Errorf("%.20s: %.300s", more, r.body)
		}
	}
	send(batch(40_000, "")).want(413)
}

// TestManyMembers: a body of a million names is refused for its names, not for the
// time that it takes.
func TestManyMembers(t *testing.T) {
	g := newRig(t, func(c *Config) { c.SubmitBytes = 32 << 20 })
	body := []byte(`{"upstream":"u","operation":"o","body":{`)
	for i := range int64(1_000_000) {
		body = append(strconv.AppendInt(append(body, '"'), i, 16), `":0,`...)
	}
	if p := g.submit("k", string(body)+`"end":0}}`).want(400).problem(ProblemCodeMalformedJSON); p.Errors[0].Code != "too_many_members" {
		t.Errorf("%+v", p.Errors)
	}
}

// TestCompressedBodiesAreRefused by every call that reads one as ours.
func TestCompressedBodiesAreRefused(t *testing.T) {
	g := newRig(t)
	asked := 0
	for _, op := range operations() {
		if op.method == http.MethodGet || op.public || op.id == "UploadReconciliation" {
			continue
		}
		r := g.do(op.method, pathOf(op.pattern), sending(`{"a":1}`), with("Content-Encoding", "gzip"), with(keyHeader, "k"), with("If-Match", `"1"`))
		if r.status == 404 || op.method == http.MethodDelete {
			continue
		}
		asked++
		if r.status != 415 {
			t.Errorf("%s answers %d to a compressed body: %s", op.id, r.status, r.body)
		}
	}
	if asked < 15 {
		t.Errorf("only %d calls were asked", asked)
	}
}

// trickle is a chunked body of n bytes.
func trickle(n int64) io.Reader { return io.LimitReader(spaces{}, n) }

type spaces struct{}

func (spaces) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	return len(b), nil
}

// post sends a body that comes in chunks and returns the status; 0 if the connection
// ended.
func (g *rig) post(path string, body io.Reader, header http.Header) int {
	req, err := http.NewRequest(http.MethodPost, g.http.URL+path, body)
	if err != nil {
		g.t.Error(err)
		return 0
	}
	req.Header = header
	resp, err := g.http.Client().Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// TestRefusingTakesNoMemory: many bodies at once that are far too large, or only
// announced, cost no more than their limits.
func TestRefusingTakesNoMemory(t *testing.T) {
	g := newRig(t)
	header := http.Header{"Authorization": {"Bearer exk_admin"}, "Content-Type": {"application/json"}, keyHeader: {"k"}}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	const posts = 40
	var all sync.WaitGroup
	for i := range posts {
		all.Go(func() {
			path := []string{"/v1/commands", "/v1/notices/ledger"}[i%2]
			if status := g.post(path, trickle(64<<20), header); status != 413 && status != 0 {
				t.Errorf("%s: 64 MiB were answered %d", path, status)
			}
		})
	}
	all.Wait()
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 32<<20 {
		t.Errorf("%d MiB stayed", grown>>20)
	}
	if total := after.TotalAlloc - before.TotalAlloc; total > posts*8<<20 {
		t.Errorf("%d MiB were taken to refuse %d", total>>20, posts)
	}
	if n := g.server.bodies.sum.Load(); n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
}

// TestAllBodiesTogetherAreBounded: above the bound a body is refused for a moment, and
// what ended makes room.
func TestAllBodiesTogetherAreBounded(t *testing.T) {
	let, inside := make(chan struct{}), make(chan struct{})
	g := newRig(t, func(c *Config) { c.AllBytes = 1000 })
	g.commands.submit = func(_ context.Context, sub commands.Submission) (commands.Accepted, error) {
		inside <- struct{}{}
		<-let
		return commands.Accepted{Command: pendingCommand(sub)}, nil
	}
	large := leastSubmit + strings.Repeat(" ", 700)
	done := make(chan *reply)
	go func() { done <- g.submit("k1", large) }()
	<-inside
	r := g.submit("k2", large).want(429)
	if r.problem(ProblemCodeRateLimited); r.header.Get("Retry-After") != "1" {
		t.Errorf("%v", r.header)
	}
	go func() { <-inside; <-inside }()
	close(let)
	(<-done).want(202)
	g.submit("k2", large).want(202)
	if g.do("POST", "/v1/notices/ledger", without("Authorization"), sending(strings.Repeat("x", 1001))).want(429).problem(ProblemCodeRateLimited); reconcile.NoticeBytes < 1001 {
		t.Error("the notice was too large by itself")
	}
}

// TestABodyOnlyAnnouncedTakesLittle memory before it is there.
func TestABodyOnlyAnnouncedTakesLittle(t *testing.T) {
	g := newRig(t)
	status := make(chan int)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	body, feed := io.Pipe()
	go func() {
		req, _ := http.NewRequest(http.MethodPost, g.http.URL+"/v1/commands/batch", body)
		req.Header = http.Header{"Authorization": {"Bearer exk_admin"}, "Content-Type": {"application/json"}}
		req.ContentLength = 16 << 20
		resp, err := g.http.Client().Do(req)
		if err != nil {
			status <- 0
			return
		}
		resp.Body.Close()
		status <- resp.StatusCode
	}()
	_, _ = io.WriteString(feed, "{")
	_ = feed.CloseWithError(io.ErrUnexpectedEOF)
	<-status
	runtime.ReadMemStats(&after)
	if total := after.TotalAlloc - before.TotalAlloc; total > 4<<20 {
		t.Errorf("one byte of 16 MiB took %d MiB", total>>20)
	}
}
