//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"executor/client"
	"executor/internal/testkit"
	"executor/outcome"
)

// stage is where stories are told: a served executor on a database of its own,
// hostile upstreams, and a caller who asks over REST.
type stage struct {
	*deployment
	process *Process // nil where the test itself serves
	api     *client.Client
	ca      *testkit.Authority
	simURL  string
	files   string             // folder of secrets and certificates
	proxy   *testkit.RawServer // of the process's environment; nobody is to use it
	hidden  []string           // what must not be shown anywhere
	plots   int                // opened so far
}

// newStage starts the process that all stories of a test share.
func newStage(t *testing.T) *stage {
	t.Helper()
	s := emptyStage(t)
	s.proxy = testkit.NewRawServer(t, func(c *testkit.RawConn) { c.Drain() })
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		s.env[name], s.env[strings.ToLower(name)] = "http://"+s.proxy.Address(), "http://"+s.proxy.Address()
	}
	s.process = s.serve("--max-connections", "16")
	s.call()
	return s
}

// emptyStage has everything but somebody who serves.
func emptyStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{deployment: newDeployment(t), ca: testkit.NewAuthority(t), files: t.TempDir()}
	s.env["EXECUTOR_SECRETS_DIR"] = s.files
	s.hidden = []string{s.secret("token", "hush-token-1"), s.secret("client-secret", "hush-secret-2")}
	s.secret("ca.pem", string(s.ca.PEM))
	var err error
	if s.simURL, err = s.sim.Listen("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	return s
}

// secret writes a file that profiles can name, and returns what is in it.
func (s *stage) secret(name, value string) string {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.files, name), []byte(value+"\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return value
}

// call makes the caller's client, which never repeats by itself.
func (s *stage) call() {
	s.t.Helper()
	var err error
	s.api, err = client.New(client.Config{
		URL: s.env["EXECUTOR_URL"], APIKey: s.env["EXECUTOR_API_KEY"], Retries: -1, Timeout: patience, HTTP: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: submitting}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// bounded is a context that ends when patience does.
func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// plot is a story's upstream, ready for its commands.
type plot struct {
	*stage
	story
	token     string // stands in the target of every request, and nowhere else
	upstream  string
	operation string
	made      *bytesUpstream // nil where the simulator serves
	commands  int
}

// shared is the upstream of all stories that the simulator tells and whose profile
// says nothing else.
const shared = "simulated"

// open makes the upstreams of stories known to the executor.
func (s *stage) open(t testing.TB, stories ...story) []*plot {
	t.Helper()
	plots, operations := make([]*plot, len(stories)), map[string]settings{}
	for i, one := range stories {
		pl := s.prepare(t, one)
		if plots[i] = pl; pl.upstream == shared {
			if operations[pl.operation] != nil {
				t.Fatalf("two stories are called %q", one.name)
			}
			operations[pl.operation] = pl.contract()
			continue
		}
		s.apply(t, pl.upstream, pl.served(t), pl.profile, map[string]settings{pl.operation: pl.contract()})
	}
	if len(operations) > 0 {
		s.apply(t, shared, s.simURL, nil, operations)
	}
	return plots
}

// one opens a single story on an upstream of its own.
func (s *stage) one(t testing.TB, told story) *plot {
	t.Helper()
	if told.profile == nil {
		told.profile = settings{}
	}
	return s.open(t, told)[0]
}

var notPlain = regexp.MustCompile(`[^a-z0-9]+`)

func (s *stage) prepare(t testing.TB, told story) *plot {
	t.Helper()
	if _, err := outcome.ParseIdempotency(string(told.kind)); err != nil {
		t.Fatalf("%s: %v", told.name, err)
	}
	plain := strings.Trim(notPlain.ReplaceAllString(strings.ToLower(told.name), "-"), "-")
	if len(plain) > 60 {
		t.Fatalf("the name %q is too long", told.name)
	}
	s.plots++
	pl := &plot{stage: s, story: told, token: fmt.Sprintf("%03d-%s", s.plots, plain), upstream: plain, operation: plain}
	if told.profile == nil && told.script == nil && told.base == "" {
		pl.upstream = shared
	}
	return pl
}

// served starts what the story's upstream is made of and returns its base URL.
func (pl *plot) served(t testing.TB) string {
	t.Helper()
	switch {
	case pl.base != "":
		return pl.base
	case pl.script == nil:
		return pl.simURL
	}
	pl.made = &bytesUpstream{ready: make(chan struct{}), over: make(chan struct{})}
	options, scheme := pl.listens, "http://"
	defer close(pl.made.ready)
	if pl.secure != nil {
		options, scheme = append(options, testkit.RawTLS(pl.secure(pl.ca))), "https://"
	}
	pl.made.server = testkit.NewRawServer(pl.t, func(c *testkit.RawConn) { <-pl.made.ready; pl.script(&peer{c, pl.made}) }, options...)
	pl.t.Cleanup(func() { close(pl.made.over) }) // before the server waits for its scripts
	return scheme + pl.made.server.Address()
}

// settings are members of a profile or of an operation, each with its YAML in flow
// style. {sim}, {files} and {token} stand for the simulator's URL, the folder of
// secrets and the plot's token.
type settings map[string]string

// usual is what holds where a story says nothing else: quick retries and plenty of
// them, and a connection for each attempt.
func usual() settings {
	return settings{
		"egress":     "{allow: [127.0.0.0/8]}",
		"connection": "{fresh: always}",
		"timeouts":   "{connect: 10s, tls: 10s, response_header: 20s, total: 30s}",
		"limits":     "{max_in_flight: 100}",
		"deadline":   "5m",
		"retry":      retrying(""),
	}
}

// retrying is the usual retry section with some more in it.
func retrying(more string) string {
	return "{max_attempts: 3, min_attempt_window: 100ms, backoff: {initial: 20ms, max: 100ms, jitter: full}, " +
		"budget: {ratio: 1, floor_per_second: 100, burst: 1000}, throttle_pauses_upstream: false" + after(", ", more) + "}"
}

// keyed is the usual contract of keyed operations with some more in it.
func keyed(more string) string {
	return "{kind: keyed, key: {in: header, name: Idempotency-Key}, retention: 24h" + after(", ", more) + "}"
}

func after(separator, text string) string {
	if text == "" {
		return ""
	}
	return separator + text
}

// apply applies a profile.
func (s *stage) apply(t testing.TB, name, base string, changes settings, operations map[string]settings) {
	t.Helper()
	profile := usual()
	maps.Copy(profile, changes)
	text := fmt.Appendf(nil, "version: 1\nupstream: %s\nbase_url: %s\n", name, base)
	text = append(text, profile.lines("")...)
	text = append(text, "operations:\n"...)
	for _, operation := range slices.Sorted(maps.Keys(operations)) {
		text = fmt.Appendf(text, "  %s:\n%s", operation, operations[operation].lines("    "))
	}
	text = []byte(strings.NewReplacer("{sim}", s.simURL, "{files}", s.files).Replace(string(text)))
	if _, err := s.api.PutUpstream(bounded(t), name, text); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

func (m settings) lines(indent string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&b, "%s%s: %s\n", indent, name, m[name])
	}
	return b.String()
}

// contract is the story's operation: what is usual for its kind, and what it says.
func (pl *plot) contract() settings {
	m := settings{"method": "POST", "path": "/v1/accounts/{account}/payments", "caller_headers": "[Sim-Behavior]"}
	switch pl.kind {
	case outcome.IdempotencyKeyed:
		m["idempotency"] = keyed("")
	case outcome.IdempotencyNatural:
		m["method"], m["path"], m["idempotency"] = "PUT", "/v1/accounts/{account}", "{kind: natural}"
	case outcome.IdempotencySafe:
		m["method"], m["path"], m["idempotency"] = "GET", "/v1/payments", "{kind: safe}"
		m["query"] = `{client_reference: "{account}"}`
	}
	maps.Copy(m, pl.story.operation)
	return m
}

// running is one command of a plot.
type running struct {
	*plot
	submission client.Submission
	command    client.Command // as accepted
}

// submission is the next command, with a key of its own.
func (pl *plot) submission() client.Submission {
	pl.commands++
	sub := client.Submission{
		Key: fmt.Sprintf("key-%s-%02d", pl.token, pl.commands), Upstream: pl.upstream, Operation: pl.operation,
		Params: map[string]string{"account": pl.token},
	}
	if pl.meets != "" {
		sub.Headers = map[string]string{"Sim-Behavior": strings.ReplaceAll(pl.meets, "{token}", pl.token)}
	}
	if pl.kind != outcome.IdempotencySafe {
		// Written as no encoder would, to see that it arrives byte for byte.
		sub.Body = fmt.Appendf(nil, `{"amount" : 12345678901234567890.10,"of":%q }`, sub.Key)
	}
	if pl.change != nil {
		pl.change(&sub)
	}
	return sub
}

// submit has the next command accepted.
func (pl *plot) submit(t testing.TB) *running {
	t.Helper()
	return pl.submitWith(t, func(*client.Submission) {})
}

// submitWith has the next command accepted, with a change.
func (pl *plot) submitWith(t testing.TB, change func(*client.Submission)) *running {
	t.Helper()
	r := &running{plot: pl, submission: pl.submission()}
	change(&r.submission)
	accepted, err := pl.api.Submit(bounded(t), r.submission)
	if err != nil || accepted.Replayed {
		t.Fatalf("submit: replayed %t, %v", accepted.Replayed, err)
	}
	r.command = accepted.Command
	return r
}

// submitting is how many submits are under way at a time.
const submitting = 16

// submitAll has a command of each plot accepted, many at a time.
func (s *stage) submitAll(t testing.TB, plots []*plot) []*running {
	t.Helper()
	list, room := make([]*running, len(plots)), make(chan struct{}, submitting)
	var all sync.WaitGroup
	for i, pl := range plots {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			r := &running{plot: pl, submission: pl.submission()}
			accepted, err := s.api.Submit(bounded(t), r.submission)
			if err != nil {
				t.Errorf("%s: %v", pl.name, err)
				return
			}
			r.command, list[i] = accepted.Command, r
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return list
}

// bytesUpstream is an upstream made of bytes.
type bytesUpstream struct {
	server *testkit.RawServer
	ready  chan struct{} // closed once server is set
	heads  atomic.Int32  // requests of which only the head was read
	over   chan struct{} // closed when all stories are told
}

// peer is its end of one connection.
type peer struct {
	*testkit.RawConn
	of *bytesUpstream
}

// ReadHead reads a request's head and leaves the body unread.
func (p *peer) ReadHead() bool {
	ok := p.RawConn.ReadHead()
	if ok {
		p.of.heads.Add(1)
	}
	return ok
}

// arrival is one request that reached the upstream.
type arrival struct {
	method, target, key, digest string
	whole                       bool
	header                      http.Header
	body                        []byte // as far as it is kept
}

// now reads a command as it is.
func (r *running) now(t testing.TB) client.Command {
	t.Helper()
	c, err := r.api.Get(bounded(t), r.command.ID)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// until waits until something holds of the command.
func (r *running) until(t testing.TB, what string, ok func(client.Command) bool) client.Command {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	ctx := bounded(t)
	for {
		c := r.now(t)
		if ok(c) {
			return c
		}
		if c.Final {
			t.Fatalf("%s did not come: %s", what, c.JSON())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s does not come: %s", what, c.JSON())
		}
	}
}

// waitsFor waits until the command says that it waits for something.
func (r *running) waitsFor(t testing.TB, what string) client.Command {
	t.Helper()
	return r.until(t, "the wait for "+what, func(c client.Command) bool { return c.Waiting != nil && c.Waiting.For == what })
}

// again submits the same once more and expects the one command there is.
func (r *running) again(t testing.TB) client.Command {
	t.Helper()
	accepted, err := r.api.Submit(bounded(t), r.submission)
	if err != nil || !accepted.Replayed || accepted.Command.ID != r.command.ID {
		t.Fatalf("submitted again: replayed %t, command %s, want %s; %v", accepted.Replayed, accepted.Command.ID, r.command.ID, err)
	}
	return accepted.Command
}
