//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"executor/client"
	"executor/internal/simulator"
	"executor/outcome"
)

// fleet is a deployment that gets into trouble: processes of the program on one
// database, and an upstream in the test that keeps account of the truth.
type fleet struct {
	t        *testing.T
	random   *rand.Rand // for the test's own goroutine
	pool     *pgxpool.Pool
	env      map[string]string
	key      string
	upstream *simulator.Simulator
	base     string // of the upstream
	doubts   bool
	made     int // intents so far

	mu    sync.Mutex
	nodes []*node
}

// node is one process of a fleet.
type node struct {
	*Process
	url      string
	instance string
	client   *client.Client
}

// conditions are what a fleet lives under.
type conditions struct {
	nodes    int           // 2
	inFlight int           // most requests at the upstream at a time; 64
	total    time.Duration // of an attempt; 8 s
	drain    time.Duration // bound of an orderly stop; 25 s
	doubts   bool          // commands that are followed up, too
	lease    string        // how long a silent process is taken to live; "" is the standard
}

// startFleet brings a fleet up on an empty database.
func startFleet(t *testing.T, pool *pgxpool.Pool, c conditions) *fleet {
	t.Helper()
	setDefault(&c.nodes, 2)
	setDefault(&c.inFlight, 64)
	setDefault(&c.total, 8*time.Second)
	setDefault(&c.drain, 25*time.Second)
	f := &fleet{
		t: t, random: randomOf(t), pool: pool, upstream: simulator.New(simulator.Config{MaxEntries: 100_000}), doubts: c.doubts,
		nodes: make([]*node, c.nodes),
	}
	t.Cleanup(func() { _ = f.upstream.Close() })
	base, err := f.upstream.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.base = base
	f.env = map[string]string{
		"EXECUTOR_DATABASE_URL": pool.Config().ConnString(), "EXECUTOR_DEPLOYMENT_ID": "crash", "EXECUTOR_LISTEN": "127.0.0.1:0",
		"EXECUTOR_MAX_CONNECTIONS": "10", "EXECUTOR_LOG_FORMAT": "json",
		"EXECUTOR_LEASE_TTL": c.lease, "EXECUTOR_DRAIN": c.drain.String(), "EXECUTOR_SOFT_STOP": (c.drain / 2).String(),
		"EXECUTOR_ENCRYPTION_KEY": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", "EXECUTOR_WEBHOOK_ALLOW": "127.0.0.0/8",
	}
	execute(t, f.env, "migrate").must(t, exitSuccess)
	created := execute(t, f.env, "keys", "create", "--name", "crash", "--scopes", "admin", "--output", "json").must(t, exitSuccess)
	f.key = decode[createdKey](t, created.stdout).Key
	for i := range f.nodes {
		f.start(i)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	// What is set up before the trouble has time, however busy the machine is.
	setup, err := client.New(client.Config{URL: f.node(0).url, APIKey: f.key, Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := setup.PutUpstream(ctx, "ledger", fmt.Appendf(nil, crashProfile, base, c.total, c.total, c.inFlight)); err != nil {
		t.Fatal(err)
	}
	return f
}

func setDefault[T comparable](v *T, standard T) {
	var none T
	if *v == none {
		*v = standard
	}
}

// randomOf is the test's own chance. A failed test says how to get the same
// again.
func randomOf(t *testing.T) *rand.Rand {
	t.Helper()
	const variable = "EXECUTOR_TEST_SEED"
	seed, err := strconv.ParseUint(os.Getenv(variable), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the seed was %d: set %s to it for the same commands and moments", seed, variable)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

// crashProfile is the upstream's. Its retries are quick and plenty, so that what
// takes long is the recovery.
const crashProfile = `version: 1
upstream: ledger
base_url: %s
egress: {allow: [127.0.0.0/8]}
timeouts: {connect: 3s, tls: 3s, response_header: %s, total: %s}
limits: {max_in_flight: %d}
deadline: 15m
retry:
  max_attempts: 12
  min_attempt_window: 200ms
  backoff: {initial: 100ms, max: 1s, jitter: full}
  budget: {ratio: 1, floor_per_second: 50, burst: 1000}
  throttle_pauses_upstream: false
operations:
  keyed:
    method: POST
    path: /v1/accounts/{account}/payments
    body: json
    caller_headers: [Sim-Behavior]
    idempotency:
      kind: keyed
      key: {in: header, name: Idempotency-Key}
      retention: 24h
    answers:
      - {when: status == 409 && json.error.code == "in_progress" && attempt > 1, answer: declined}
      - {when: status == 409 && json.error.code == "in_progress", answer: unclear}
    result: {reference: json.id}
  none:
    method: POST
    path: /v1/accounts/{account}/payments
    body: json
    caller_headers: [Sim-Behavior]
    result: {reference: json.id}
  natural:
    method: PUT
    path: /v1/accounts/{account}
    body: json
    caller_headers: [Sim-Behavior]
    idempotency: {kind: natural}
  safe:
    method: GET
    path: /v1/payments
    body: none
    caller_query: [client_reference]
    caller_headers: [Sim-Behavior]
    idempotency: {kind: safe}
` + doubtProfile

// start starts the i-th process, or another in its place.
func (f *fleet) start(i int) *node {
	f.t.Helper()
	p := startExecutor(f.t, []string{"serve"}, f.env)
	n := &node{Process: p, url: p.URL(), instance: p.Log("serving")["instance"].(string)}
	// It never repeats by itself: the test does, and elsewhere. No connection
	// outlives its request, so that a process that stands still holds nobody up twice.
	c, err := client.New(client.Config{
		URL: n.url, APIKey: f.key, Retries: -1, Timeout: 3 * time.Second, HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	})
	if err != nil {
		f.t.Fatal(err)
	}
	n.client = c
	f.t.Cleanup(n.sound)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nodes[i] = n
	return n
}

// sound looks for faults that the process itself noticed.
func (n *node) sound() {
	for _, trace := range []string{"WARNING: DATA RACE", "panicked", "panic:"} {
		if strings.Contains(n.stderr.String(), trace) {
			n.t.Errorf("%s says %q", n.instance, trace)
		}
	}
}

// node is the i-th process, counted round and round.
func (f *fleet) node(i int) *node {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.nodes[i%len(f.nodes)]
}

// living is the i-th of the processes that live.
func (f *fleet) living(i int) *node {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []*node
	for _, n := range f.nodes {
		select {
		case <-n.ended:
		default:
			list = append(list, n)
		}
	}
	if len(list) == 0 {
		f.t.Fatal("no process lives")
	}
	return list[i%len(list)]
}

// behaviors are what the upstream is asked to do, as often as they stand here.
var behaviors = []string{
	"", "", "", "", "", "", "", "", // at once
	"stall=200ms", "stall=200ms", "stall=600ms", // late
	"commit,stall=400ms", "commit,stall=400ms", // done, and late to say so
	"commit,drop,times=1", "commit,drop,times=1", "commit,reset,times=1", // done, and not a word
	"drop,times=1", "drop,times=1", // neither
	"status=503,times=1", "commit,status=503,times=1", "status=502,times=1", "commit,status=500",
	"status=429,retry_after=1,times=1", "status=429,times=2", "status=429,retry_after=86400", // not now; not at all
	"truncate=7,times=1", // done, and half of the answer
	"status=422",         // no
}

// meaning makes one of each kind in turn, with a behaviour by chance.
func (f *fleet) meaning(n int) *intent {
	if f.doubts {
		return f.doubt(n)
	}
	kind := outcome.Idempotencies()[n%len(outcome.Idempotencies())]
	in := newIntent(fmt.Sprintf("%s-%05d", kind, n), kind, behaviors[f.random.IntN(len(behaviors))])
	in.cancel = f.random.IntN(25) == 0
	if f.random.IntN(25) == 0 {
		in.after = time.Duration(f.random.IntN(4000)) * time.Millisecond
	}
	return in
}

func newIntent(token string, kind outcome.Idempotency, behavior string) *intent {
	in := &intent{token: token, kind: kind, method: http.MethodPost, path: "/v1/accounts/" + token + "/payments",
		// Written as no encoder would, to see that it arrives byte for byte.
		body: fmt.Appendf(nil, `{"amount" : 12345678901234567890.10,"of":%q }`, token),
	}
	in.submission = client.Submission{
		Key: "key-" + token, Upstream: "ledger", Operation: string(kind), Params: map[string]string{"account": token}, Body: in.body,
		Headers: map[string]string{},
	}
	if behavior != "" {
		in.submission.Headers["Sim-Behavior"] = behavior
	}
	switch kind {
	case outcome.IdempotencyNatural:
		in.method, in.path = http.MethodPut, "/v1/accounts/"+token
	case outcome.IdempotencySafe:
		in.method, in.path, in.body = http.MethodGet, "/v1/payments?client_reference="+token, nil
		in.submission.Params, in.submission.Body = nil, nil
		in.submission.Query = map[string]string{"client_reference": token}
	}
	return in
}

// tokenOf finds an intent's token in the path of its requests.
func tokenOf(path string) string {
	if _, token, found := strings.Cut(path, "?client_reference="); found {
		return token
	}
	token, _, _ := strings.Cut(strings.TrimPrefix(path, "/v1/accounts/"), "/")
	return token
}

// load is a number of commands on their way in.
type load struct {
	f       *fleet
	intents []*intent
	all     sync.WaitGroup

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced at each acceptance
	accepted int
	last     time.Time // when the last one was accepted
}

// submitters is how many commands are submitted at a time.
const submitters = 24

// load submits n commands, one every so often, to all processes in turn. A
// submit that gets no answer is repeated elsewhere, with the same key.
func (f *fleet) load(n int, every time.Duration) *load {
	l := &load{f: f, changed: make(chan struct{})}
	for range n {
		l.intents = append(l.intents, f.meaning(f.made))
		f.made++
	}
	feed := make(chan *intent)
	go pour(l.intents, feed, every)
	for i := range submitters {
		l.all.Go(func() {
			for in := range feed {
				l.submit(in, i)
			}
		})
	}
	f.t.Cleanup(l.all.Wait)
	return l
}

func pour(intents []*intent, feed chan<- *intent, every time.Duration) {
	defer close(feed)
	pace := time.NewTicker(max(every, time.Microsecond))
	defer pace.Stop()
	for _, in := range intents {
		<-pace.C
		feed <- in
	}
}

// submit has one command accepted, at the process first or at another one.
func (l *load) submit(in *intent, first int) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	pause := time.NewTicker(time.Second)
	defer pause.Stop()
	if in.after > 0 {
		in.submission.NotBefore = time.Now().Add(in.after)
	}
	for i := first; ; i++ {
		n := l.f.node(i)
		a, err := n.client.Submit(ctx, in.submission)
		if err == nil {
			in.ids = append(in.ids, a.Command.ID)
			if in.cancel {
				_, _ = n.client.Cancel(ctx, a.Command.ID) // whether it succeeds or not, the account must be true
			}
			l.accept()
			return
		}
		if !mayRepeat(err) {
			l.f.t.Errorf("submit %s: %v", in.token, err)
			return
		}
		in.repeats++
		select {
		case <-pause.C:
		case <-ctx.Done():
			l.f.t.Errorf("submit %s: still not accepted after %d tries: %v", in.token, in.repeats, err)
			return
		}
	}
}

// mayRepeat tells a submit that was not answered, or not yet, from a refusal.
func mayRepeat(err error) bool {
	var unconfirmed *client.Unconfirmed
	var network *net.OpError
	return errors.As(err, &unconfirmed) || errors.As(err, &network) || errors.Is(err, client.ErrUnavailable)
}

func (l *load) accept() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accepted++
	l.last = time.Now()
	close(l.changed)
	l.changed = make(chan struct{})
}

// reached waits until n commands were accepted.
func (l *load) reached(n int) {
	l.f.t.Helper()
	bound := time.After(patience)
	for {
		l.mu.Lock()
		accepted, changed := l.accepted, l.changed
		l.mu.Unlock()
		if accepted >= n {
			return
		}
		select {
		case <-changed:
		case <-bound:
			l.f.t.Fatalf("only %d commands were accepted", accepted)
		}
	}
}

// onTheWire brings the requests of commands of each kind to the upstream, which
// answers only after a while, all of them sent by one process.
func (l *load) onTheWire(n *node, behavior string, kinds ...outcome.Idempotency) []*intent {
	l.f.t.Helper()
	var list []*intent
	for _, kind := range kinds {
		for l.f.sender(l.waiting(n, behavior, kind)) != n.instance {
			// It went through the queue, and the other process was first.
		}
		list = append(list, l.intents[len(l.intents)-1])
	}
	return list
}

// waiting submits a command to a process and returns it once its request is at
// the upstream.
func (l *load) waiting(n *node, behavior string, kind outcome.Idempotency) *intent {
	l.f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	in := newIntent(fmt.Sprintf("wire-%s-%d", kind, len(l.intents)), kind, behavior)
	a, err := n.client.Submit(ctx, in.submission)
	if err != nil {
		l.f.t.Fatalf("submit %s: %v", in.token, err)
	}
	in.ids = append(in.ids, a.Command.ID)
	l.intents = append(l.intents, in)
	if err := l.f.upstream.Wait(ctx, func() bool { return len(l.f.upstream.Requests(in.path)) > 0 }); err != nil {
		l.f.t.Fatalf("the request of %s did not arrive: %v", in.token, err)
	}
	return in
}

// sender is the process that made the first attempt of a command.
func (f *fleet) sender(in *intent) (instance string) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := f.pool.QueryRow(ctx, `SELECT instance FROM attempts WHERE command_id = $1 AND number = 1`, in.ids[0]).Scan(&instance)
	if err != nil {
		f.t.Fatal(err)
	}
	return instance
}

// aMinute is how long after the trouble, or the last acceptance, all must be
// over.
const aMinute = time.Minute

// settled waits until every command is final, and gives the accounts. Trouble
// ended at the given moment.
func (l *load) settled(trouble time.Time) []account {
	t := l.f.t
	t.Helper()
	l.all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	if l.last.After(trouble) {
		trouble = l.last
	}
	ctx, cancel := context.WithDeadline(context.Background(), trouble.Add(aMinute))
	defer cancel()
	states := make(map[string]client.State, len(l.intents))
	for i, in := range l.intents {
		if in.lost {
			continue
		}
		c, err := l.f.living(i).client.Wait(ctx, in.ids[0])
		if err != nil {
			t.Errorf("%s is %s, waiting for %+v, a minute after the trouble: %v", in.token, c.State, c.Waiting, err)
			break
		}
		states[in.token] = c.State
	}
	l.repeat()
	list := accounts(t, l.intents, recordsIn(t, l.f.pool), l.f.upstream)
	for _, a := range list {
		// Late evidence may settle what was unresolved a moment ago.
		if shown := states[a.token]; shown != "" && shown != client.State(a.State) && shown != client.StateUnresolved {
			t.Errorf("the API showed %s as\n%s", shown, a)
		}
	}
	return list
}

// repeat submits once more whatever got no answer at first: the key finds the
// one command there is.
func (l *load) repeat() {
	l.f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for i, in := range l.intents {
		if in.repeats == 0 || in.lost {
			continue
		}
		a, err := l.f.living(i).client.Submit(ctx, in.submission)
		if err != nil || !a.Replayed {
			l.f.t.Errorf("%s once more: replayed %t, %v", in.token, a.Replayed, err)
			continue
		}
		in.ids = append(in.ids, a.Command.ID)
	}
}
