package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"executor/client"
	"executor/examples"
	"executor/internal/simulator"
	"executor/internal/testkit"
)

// deployment is a whole one: a database, an upstream that misbehaves on
// request, and any number of serving processes.
type deployment struct {
	t   testing.TB
	env map[string]string // of an operator, and of a caller once a process serves
	sim *simulator.Simulator
}

// newDeployment has a migrated database, a key and a simulated upstream, but no
// process yet.
func newDeployment(t testing.TB) *deployment {
	t.Helper()
	d := &deployment{t: t, env: adopted(t), sim: simulator.New(simulator.Config{})}
	t.Cleanup(func() { _ = d.sim.Close() })
	key := decode[createdKey](t, execute(t, d.env, "keys", "create", "--name", "test", "--scopes", "admin", "--output", "json").must(t, exitSuccess).stdout)
	d.env["EXECUTOR_API_KEY"] = key.Key
	return d
}

// serve starts a process and waits until it serves. The first one is what
// callers talk to.
func (d *deployment) serve(args ...string) *Process {
	d.t.Helper()
	p := d.start(args...)
	url := p.URL()
	if d.env["EXECUTOR_URL"] == "" {
		d.env["EXECUTOR_URL"] = url
	}
	return p
}

// start starts a process without waiting.
func (d *deployment) start(args ...string) *Process {
	d.t.Helper()
	args = append([]string{"serve", "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--max-connections", "8"}, args...)
	return startExecutor(d.t, args, d.env)
}

// apply applies the sample profile, leading to the test's own upstream.
func (d *deployment) apply() {
	d.t.Helper()
	url, err := d.sim.Listen("127.0.0.1:0")
	if err != nil {
		d.t.Fatal(err)
	}
	path := filepath.Join(d.t.TempDir(), "ledger.yaml")
	profile := baseURL.ReplaceAll(examples.Ledger, []byte("base_url: "+url))
	if err := os.WriteFile(path, profile, 0o600); err != nil {
		d.t.Fatal(err)
	}
	d.execute("profiles", "apply", path).must(d.t, exitSuccess)
}

func (d *deployment) execute(args ...string) result {
	d.t.Helper()
	return execute(d.t, d.env, args...)
}

// client is a Go client of the first process.
func (d *deployment) client() *client.Client {
	d.t.Helper()
	c, err := client.New(client.Config{URL: d.env["EXECUTOR_URL"], APIKey: d.env["EXECUTOR_API_KEY"], Retries: -1})
	if err != nil {
		d.t.Fatal(err)
	}
	return c
}

// payment submits one that meets trouble, and returns it as accepted.
func (d *deployment) payment(key, trouble string) client.Command {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	accepted, err := d.client().Submit(ctx, client.Submission{
		Key: key, Upstream: "ledger", Operation: "create_payment", Params: map[string]string{"account": "a1"},
		Headers: map[string]string{"Sim-Behavior": trouble}, Body: json.RawMessage(`{"amount": 100}`),
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return accepted.Command
}

// final waits for a command's outcome.
func (d *deployment) final(id string) client.Command {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	command, err := d.client().Wait(ctx, id)
	if err != nil {
		d.t.Fatal(err)
	}
	return command
}

// onTheWire waits until the upstream has read a request under the key.
func (d *deployment) onTheWire(key string) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := d.sim.Wait(ctx, func() bool { return len(d.sim.Requests(key)) > 0 }); err != nil {
		d.t.Fatalf("no request under the key %s: %v", key, err)
	}
}

// get fetches a page, with its status.
func get(t testing.TB, url string) (int, string) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

func TestServeStartsAndStops(t *testing.T) {
	d := newDeployment(t)
	p := d.serve()
	for _, path := range []string{"/livez", "/healthz", "/readyz"} {
		if status, body := get(t, p.URL()+path); status != http.StatusOK {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if config := p.Log("starting")["config"].(map[string]any); config["deployment_id"] != "test" || config["lease_ttl"] != "10s" {
		t.Errorf("logged configuration: %v", config)
	}
	p.Signal(syscall.SIGTERM)
	if code := p.Wait(); code != exitSuccess {
		t.Fatalf("exit code %d\n%s", code, p.stderr)
	}
	p.Log("stopped")
	if p.stdout.String() != "" {
		t.Errorf("stdout is for data: %q", p.stdout)
	}
}

func TestServeShowsMetrics(t *testing.T) {
	d := newDeployment(t)
	p := d.serve()
	d.apply()
	command := d.payment("k1", "")
	if got := d.final(command.ID).State; got != client.StateSuccess {
		t.Fatalf("the payment ended %s", got)
	}
	status, text := get(t, p.MetricsURL()+"/metrics")
	if status != http.StatusOK {
		t.Fatalf("metrics: %d %s", status, text)
	}
	for _, want := range []string{
		"executor_build_info{", "executor_unresolved 0\n", "executor_frozen 0\n", "executor_upstreams_paused 0\n", "executor_oldest_unresolved_age_seconds 0\n", "executor_oldest_due_age_seconds ",
		`executor_http_request_duration_seconds_count{method="POST",route="/v1/commands",status="202"} 1`,
		`executor_http_request_duration_seconds_count{method="GET",route="/v1/commands/{id}",status="200"}`,
		"executor_attempts_total{", "executor_database_connections_max 8\n", "process_open_fds", "go_goroutines",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	if strings.Contains(text, command.ID) {
		t.Error("an id became a label")
	}
	if status, _ := get(t, p.MetricsURL()+"/v1/commands"); status != http.StatusNotFound {
		t.Errorf("the metrics listener answers the API: %d", status)
	}
	if status, _ := get(t, p.URL()+"/metrics"); status != http.StatusNotFound {
		t.Errorf("the API listener shows metrics: %d", status)
	}
}

func TestDrainLetsAttemptsFinish(t *testing.T) {
	d := newDeployment(t)
	p := d.serve()
	d.apply()
	command := d.payment("k1", "commit,stall=1s")
	d.onTheWire("k1")
	p.Signal(syscall.SIGTERM)
	if code := p.Wait(); code != exitSuccess {
		t.Fatalf("exit code %d", code)
	}
	state, attempts := d.stored(command.ID)
	if state != "success" || attempts != 1 {
		t.Errorf("after the drain the command is %s after %d attempts", state, attempts)
	}
}

// A waiting request must not hold up the drain: it is answered with the command
// as it is.
func TestDrainAnswersThoseWhoWait(t *testing.T) {
	d := newDeployment(t)
	p := d.serve("--frozen")
	d.apply()
	command := d.payment("k1", "")
	answered := make(chan client.Command, 1)
	go func() { answered <- d.longPoll(p, command.ID) }()
	d.waitsAt(p)
	p.Signal(syscall.SIGTERM)
	if code := p.Wait(); code != exitSuccess {
		t.Fatalf("exit code %d", code)
	}
	if got := <-answered; got.ID != command.ID || got.Final {
		t.Errorf("the waiting caller got %+v", got)
	}
}

// longPoll asks for a command once, and waits for it as long as the service does.
func (d *deployment) longPoll(p *Process, id string) (command client.Command) {
	req, err := http.NewRequest(http.MethodGet, p.URL()+"/v1/commands/"+id+"?wait=30", nil)
	if err != nil {
		d.t.Error(err)
		return command
	}
	req.Header.Set("Authorization", "Bearer "+d.env["EXECUTOR_API_KEY"])
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		d.t.Error(err)
		return command
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&command); err != nil {
		d.t.Error(err)
	}
	return command
}

// waitsAt waits until a request is being answered.
func (d *deployment) waitsAt(p *Process) {
	d.t.Helper()
	for {
		if _, text := get(d.t, p.MetricsURL()+"/metrics"); strings.Contains(text, "executor_http_requests_in_flight 1\n") {
			return
		}
		select {
		case <-p.ended:
			d.t.Fatal("the process ended")
		default:
		}
	}
}

// stored reads a command's state behind the API's back.
func (d *deployment) stored(id string) (state string, attempts int) {
	d.t.Helper()
	pool := testkit.Open(d.t, d.env["EXECUTOR_DATABASE_URL"])
	err := pool.QueryRow(context.Background(), `SELECT state, attempts FROM commands WHERE id = $1`, id).Scan(&state, &attempts)
	if err != nil {
		d.t.Fatal(err)
	}
	return state, attempts
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	d := newDeployment(t)
	p := d.serve()
	d.apply()
	d.payment("k1", "stall=1m")
	d.onTheWire("k1")
	p.Signal(syscall.SIGTERM)
	p.Log("draining")
	p.Signal(syscall.SIGTERM)
	if code := p.Wait(); code == exitSuccess {
		t.Error("a process that was cut off must not look as if it had drained")
	}
}

func TestServeStartsFrozen(t *testing.T) {
	d := newDeployment(t)
	d.serve("--frozen")
	d.apply()
	command := d.payment("k1", "")
	if command.Final {
		t.Fatal("a frozen deployment has sent")
	}
	d.execute("resume").must(t, exitSuccess)
	if got := d.final(command.ID).State; got != client.StateSuccess {
		t.Errorf("after the resume it ended %s", got)
	}
}

// A copy of production that is started elsewhere sends nothing, and a process
// with a wrong id does not stop those of the data's owner.
func TestServeOfAnothersDataSendsNothing(t *testing.T) {
	d := newDeployment(t)
	d.env["EXECUTOR_DEPLOYMENT_ID"] = "staging"
	foreign := d.serve()
	d.apply()
	command := d.payment("k1", "")
	if r := d.execute("get", command.ID).must(t, exitSuccess); !strings.Contains(r.stdout, "frozen") {
		t.Errorf("the command does not say that it waits for the freeze:\n%s", r.stdout)
	}
	s := decode[deploymentView](t, d.execute("deployment", "show", "--output", "json").must(t, exitSuccess).stdout)
	if s.Frozen || s.ID != "test" || s.Expected != "staging" {
		t.Errorf("got %+v", s)
	}
	foreign.Signal(syscall.SIGTERM)
	foreign.Wait()
	if n := len(d.sim.Requests("k1")); n != 0 {
		t.Errorf("%d requests", n)
	}
	d.env["EXECUTOR_DEPLOYMENT_ID"] = "test"
	d.env["EXECUTOR_URL"] = d.serve().URL()
	if c := d.final(command.ID); c.State != "success" {
		t.Errorf("ended %s with the owner's process", c.State)
	}
}

func TestServeNeedsAnAdoptedDatabase(t *testing.T) {
	p := startExecutor(t, []string{"serve", "--listen", "127.0.0.1:0"}, databaseEnv(testkit.DatabaseURL(t)))
	if code := p.Wait(); code != exitFailure || !strings.Contains(p.stderr.String(), `run "executor migrate"`) {
		t.Errorf("exit code %d: %s", code, p.stderr)
	}
}

func TestBusyPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	d := newDeployment(t)
	p := d.start("--listen", l.Addr().String())
	if code := p.Wait(); code != exitFailure || !strings.Contains(p.stderr.String(), fmt.Sprintf("API %s is in use", l.Addr())) {
		t.Errorf("exit code %d: %s", code, p.stderr)
	}
}

// A worker alone answers the probes and no API; an API alone sends nothing.
func TestRoles(t *testing.T) {
	d := newDeployment(t)
	front := d.serve("--roles", "api")
	d.apply()
	command := d.payment("k1", "")
	worker := d.serve("--roles", "worker")
	for _, path := range []string{"/v1/commands", "/"} { // what is not there is a problem (RFC 9457), as of the API
		status, body := get(t, worker.URL()+path)
		p := decode[client.Problem](t, body)
		if status != http.StatusNotFound || p.Code != "not_found" || !strings.Contains(p.Detail, "its role is worker") || p.RequestID == "" {
			t.Errorf("a worker answers %s with %d %s", path, status, body)
		}
		if status, body := get(t, worker.URL()+p.Type); status != http.StatusOK {
			t.Errorf("what the problem means: %d %s", status, body)
		}
	}
	for _, p := range []*Process{front, worker} {
		if status, body := get(t, p.URL()+"/readyz"); status != http.StatusOK {
			t.Errorf("readyz: %d %s", status, body)
		}
	}
	if got := d.final(command.ID).State; got != client.StateSuccess {
		t.Errorf("it ended %s", got)
	}
	var worked []client.Attempt
	if err := json.Unmarshal([]byte(d.attempts(command.ID)), &worked); err != nil {
		t.Fatal(err)
	}
	if instance := worker.Log("starting")["instance"]; len(worked) != 1 || worked[0].Instance != instance {
		t.Errorf("the attempt was not made by the worker %v: %+v", instance, worked)
	}
}

// attempts is the account of a command, as a JSON array.
func (d *deployment) attempts(id string) string {
	d.t.Helper()
	list := decode[struct{ Data json.RawMessage }](d.t, d.execute("get", id, "--attempts", "--output", "json").must(d.t, exitSuccess).stdout)
	return string(list.Data)
}

// A database that is away at the start is waited for.
func TestServeWaitsForItsDatabase(t *testing.T) {
	env := adopted(t)
	target := strings.TrimPrefix(env["EXECUTOR_DATABASE_URL"], "postgres://")
	_, rest, _ := strings.Cut(target, "@")
	address, _, _ := strings.Cut(rest, "/")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	away := l.Addr().String()
	_ = l.Close()
	env["EXECUTOR_DATABASE_URL"] = strings.Replace(env["EXECUTOR_DATABASE_URL"], address, away, 1)
	p := startExecutor(t, []string{"serve", "--listen", "127.0.0.1:0", "--database-wait", "1m"}, env)
	p.Log("database away, trying again")
	forward(t, away, address)
	p.URL()
	p.Signal(syscall.SIGTERM)
	if code := p.Wait(); code != exitSuccess {
		t.Errorf("exit code %d", code)
	}
}

// forward lets what connects to from reach to.
func forward(t testing.TB, from, to string) {
	t.Helper()
	l, err := net.Listen("tcp", from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				_ = near.Close()
				continue
			}
			go pipe(near, far)
			go pipe(far, near)
		}
	}()
}

func pipe(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_ = to.Close()
}

// An interrupt during the wait for the database ends the start.
func TestInterruptedStart(t *testing.T) {
	env := databaseEnv("postgres://me@127.0.0.1:1/none?sslmode=disable")
	p := startExecutor(t, []string{"serve", "--listen", "127.0.0.1:0", "--database-wait", "10m"}, env)
	p.Log("database away, trying again")
	p.Signal(syscall.SIGINT)
	if code := p.Wait(); code != exitInterrupted {
		t.Errorf("exit code %d: %s", code, p.stderr)
	}
}
