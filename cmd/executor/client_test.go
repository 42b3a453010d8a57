package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"executor/client"
)

// submitted is one submit of a sample operation.
func (d *deployment) submit(operation, trouble string, more ...string) result {
	d.t.Helper()
	args := []string{"submit", "--upstream", "ledger", "--operation", operation, "--body", `{"amount": 100}`, "--header", "Sim-Behavior: " + trouble, "--output", "json"}
	if operation == "create_payment" {
		args = append(args, "--param", "account=a1")
	}
	return d.execute(append(args, more...)...)
}

func TestClientCommands(t *testing.T) {
	d := newDeployment(t)
	d.serve()
	d.apply()
	for name, test := range map[string]func(*testing.T, *deployment){
		"submit until final":  testSubmitUntilFinal,
		"submit and look":     testSubmitAndLook,
		"submit again":        testSubmitAgain,
		"submit what is not":  testSubmitWhatIsNot,
		"bodies":              testBodies,
		"dry run":             testDryRun,
		"get":                 testGet,
		"list":                testList,
		"watch":               testWatch,
		"cancel":              testCancel,
		"profiles":            testProfiles,
		"pause an upstream":   testPauseUpstream,
		"who may not":         testWhoMayNot,
		"doctor":              testDoctorOfTheLiving,
		"interrupted waiting": testInterruptedWaiting,
	} {
		t.Run(name, func(t *testing.T) {
			one := *d
			one.t = t
			test(t, &one)
		})
	}
}

// The exit code tells how a command ended.
func testSubmitUntilFinal(t *testing.T, d *deployment) {
	for _, tt := range []struct {
		operation, trouble string
		state              client.State
		code               int
	}{
		{"create_payment", troubleLostAnswer, client.StateSuccess, exitSuccess},
		{"create_payment", troubleRefuse, client.StateRejected, exitRejected},
		{"charge_card", troubleDoubt, client.StateUnresolved, exitUnresolved},
		{"create_payment", troubleBusy, client.StateCancelled, exitCancelled},
	} {
		r := d.submit(tt.operation, tt.trouble, "--wait", "1m").must(t, tt.code)
		command := decode[client.Command](t, r.stdout)
		if command.State != tt.state || command.Outcome.State() != tt.state {
			t.Errorf("%s of %s: %s", tt.trouble, tt.operation, r.stdout)
		}
		if r.stderr != "key: "+command.Key+"\n" {
			t.Errorf("of the made key %s stderr says %q", command.Key, r.stderr)
		}
	}
}

// Without --wait a submit is done once the command is durable.
func testSubmitAndLook(t *testing.T, d *deployment) {
	command := decode[client.Command](t, d.submit("create_payment", "", "--key", "look", "--metadata", "order=42").must(t, exitSuccess).stdout)
	r := d.execute("get", command.ID, "--wait", "1m").must(t, exitSuccess)
	for _, want := range []string{"state      success", "key        look", "metadata   order=42", "ATTEMPT", "response_received"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("%q is not in:\n%s", want, r.stdout)
		}
	}
}

func testSubmitAgain(t *testing.T, d *deployment) {
	first := decode[client.Command](t, d.submit("create_payment", "", "--key", "again", "--wait", "1m").must(t, exitSuccess).stdout)
	r := d.submit("create_payment", "", "--key", "again").must(t, exitSuccess)
	if second := decode[client.Command](t, r.stdout); second.ID != first.ID || !strings.Contains(r.stderr, "The key was known") {
		t.Errorf("stdout %s, stderr %q", r.stdout, r.stderr)
	}
	r = d.submit("create_payment", "drop", "--key", "again").must(t, exitUsage)
	if !strings.Contains(r.stderr, "differs in headers") || !strings.Contains(r.stderr, first.ID) {
		t.Errorf("another request under the key: %q", r.stderr)
	}
	if n := len(d.sim.Effects("again")); n != 1 {
		t.Errorf("%d effects", n)
	}
}

func testSubmitWhatIsNot(t *testing.T, d *deployment) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--upstream", "nope", "--operation", "o"}, "nope"},
		{[]string{"--upstream", "ledger", "--operation", "nope"}, "nope"},
		{[]string{"--upstream", "ledger", "--operation", "charge_card", "--param", "x=1"}, "/params/x"},
		{[]string{"--upstream", "ledger", "--operation", "charge_card", "--body", "{}", "--priority", "urgent"}, "/priority"},
		{[]string{"--upstream", "ledger", "--operation", "charge_card", "--body", "{}", "--deadline", "2020-01-01T00:00:00Z"}, "/deadline"},
		{[]string{"--upstream", "ledger", "--operation", "charge_card", "--body", "{}", "--key", "käse"}, "printable ASCII"},
		{[]string{"--upstream", "ledger", "--operation", "charge_card", "--body", "{}", "--key", "käse", "--dry-run"}, "printable ASCII"},
	} {
		r := d.execute(append([]string{"submit"}, tt.args...)...).must(t, exitUsage)
		if !strings.Contains(r.stderr, tt.want) || strings.Contains(r.stderr, "safe") || r.stdout != "" {
			t.Errorf("%v: stdout %q, stderr %q", tt.args, r.stdout, r.stderr)
		}
	}
}

// Where the answer is lost, the key that was made is what makes a repeat safe.
func TestSubmitWithoutAnAnswer(t *testing.T) {
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer service.Close()
	env := map[string]string{"EXECUTOR_URL": service.URL, "EXECUTOR_API_KEY": "exk_x"}
	r := execute(t, env, "submit", "--upstream", "u", "--operation", "o").must(t, exitFailure)
	made, _, _ := strings.Cut(r.stderr, "\n")
	if key, told := strings.CutPrefix(made, "key: "); !told || !strings.Contains(r.stderr, "The same submit with --key "+key+" is safe") {
		t.Errorf("stderr %q", r.stderr)
	}
}

// A body travels byte for byte, wherever it is read from.
func testBodies(t *testing.T, d *deployment) {
	const body = "{\"amount\":  12345678901234567890.10,\n \"note\": \"\\u00e4<>&\"}"
	file := filepath.Join(t.TempDir(), "body.json")
	if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	base := []string{"submit", "--upstream", "ledger", "--operation", "charge_card", "--wait", "1m", "--output", "json"}
	for name, more := range map[string][]string{
		"inline": {"--body", body}, "@file": {"--body", "@" + file}, "--body-file": {"--body-file", file}, "stdin": {"--body", "-"},
	} {
		before := len(d.sim.Effects(""))
		executeIn(t, d.env, body, append(base, more...)...).must(t, exitSuccess)
		effects := d.sim.Effects("")
		if len(effects) != before+1 || string(effects[before].Body) != body {
			t.Errorf("%s: the upstream got %s", name, effects[len(effects)-1].Body)
		}
	}
}

func testDryRun(t *testing.T, d *deployment) {
	r := d.submit("create_payment", "", "--key", "dry", "--dry-run").must(t, exitSuccess)
	preview := decode[struct {
		DryRun  bool `json:"dry_run"`
		Request struct{ Method, URL string }
	}](t, r.stdout)
	if !preview.DryRun || preview.Request.Method != "POST" || !strings.HasSuffix(preview.Request.URL, "/v1/accounts/a1/payments") {
		t.Errorf("got %s", r.stdout)
	}
	r = d.submit("create_payment", "", "--key", "dry", "--dry-run", "--output", "table").must(t, exitSuccess)
	for _, want := range []string{"POST http://", "Idempotency-Key: dry", `{"amount": 100}`} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("%q is not in:\n%s", want, r.stdout)
		}
	}
	if len(d.sim.Requests("dry")) != 0 {
		t.Error("a dry run was sent")
	}
	d.execute("get", "--key", "dry").must(t, exitNotFound)
}

func testGet(t *testing.T, d *deployment) {
	command := decode[client.Command](t, d.submit("create_payment", troubleLostAnswer, "--key", "get", "--wait", "1m").must(t, exitSuccess).stdout)
	byKey := decode[client.Command](t, d.execute("get", "--key", "get", "--output", "json").must(t, exitSuccess).stdout)
	if byKey.ID != command.ID {
		t.Errorf("by key: %s, want %s", byKey.ID, command.ID)
	}
	var attempts []client.Attempt
	if err := json.Unmarshal([]byte(d.attempts(command.ID)), &attempts); err != nil {
		t.Fatal(err)
	}
	if len(attempts) != 2 || attempts[0].Evidence != "sent_no_response" || attempts[1].Answer != "applied" {
		t.Errorf("attempts: %+v", attempts)
	}
	d.execute("get", "0193c0de-0000-7000-8000-000000000001").must(t, exitNotFound)
	d.execute("get", "no-id").must(t, exitUsage)
}

func testList(t *testing.T, d *deployment) {
	for _, key := range []string{"list-1", "list-2", "list-3"} {
		d.submit("create_payment", "", "--key", key, "--metadata", "batch=list", "--wait", "1m").must(t, exitSuccess)
	}
	list := func(args ...string) (keys []string, r result) {
		r = d.execute(append([]string{"list", "--metadata", "batch=list", "--output", "json"}, args...)...).must(t, exitSuccess)
		for _, c := range decode[client.Page](t, r.stdout).Data {
			keys = append(keys, c.Key)
		}
		return keys, r
	}
	if keys, _ := list(); !slices.Equal(keys, []string{"list-3", "list-2", "list-1"}) {
		t.Errorf("all: %v", keys)
	}
	if keys, _ := list("--state", "rejected,unresolved"); len(keys) != 0 {
		t.Errorf("none: %v", keys)
	}
	if keys, _ := list("--created-after", "1h", "--created-before", "2000-01-01T00:00:00Z"); len(keys) != 0 {
		t.Errorf("before its time: %v", keys)
	}
	keys, r := list("--limit", "2")
	page := decode[client.Page](t, r.stdout)
	if rest, _ := list("--limit", "2", "--cursor", page.NextCursor); len(keys) != 2 || !slices.Equal(rest, []string{"list-1"}) {
		t.Errorf("pages: %v, %v", keys, rest)
	}
	table := d.execute("list", "--key", "list-1").must(t, exitSuccess)
	if !strings.HasPrefix(table.stdout, "ID ") || strings.Count(table.stdout, "\n") != 2 || !strings.Contains(table.stdout, "list-1") {
		t.Errorf("table:\n%s", table.stdout)
	}
	if more := d.execute("list", "--limit", "1").must(t, exitSuccess); !strings.Contains(more.stderr, "--cursor ") {
		t.Errorf("no word of more: %q", more.stderr)
	}
	d.execute("list", "--limit", "100000").must(t, exitUsage)
	d.execute("list", "--cursor", "nonsense").must(t, exitUsage)
}

func testWatch(t *testing.T, d *deployment) {
	command := decode[client.Command](t, d.submit("create_payment", troubleRefuse, "--key", "watch").must(t, exitSuccess).stdout)
	r := d.execute("watch", command.ID, "--output", "json").must(t, exitRejected)
	var last client.Event
	lines := bufio.NewScanner(strings.NewReader(r.stdout))
	for lines.Scan() {
		last = decode[client.Event](t, lines.Text())
	}
	if last.Type != "command.rejected" {
		t.Errorf("the last event is %s in:\n%s", last.Type, r.stdout)
	}
	if r := d.execute("watch", command.ID).must(t, exitRejected); !strings.Contains(r.stdout, "command.rejected") || !strings.Contains(r.stderr, "refused") {
		t.Errorf("stdout %q, stderr %q", r.stdout, r.stderr)
	}
	later := decode[client.Command](t, d.submit("create_payment", "", "--not-before", "1h", "--timeout", "1h").must(t, exitSuccess).stdout)
	d.execute("watch", later.ID, "--wait", "100ms").must(t, exitStillRunning)
	d.execute("watch", "0193c0de-0000-7000-8000-000000000001").must(t, exitNotFound)
}

func testCancel(t *testing.T, d *deployment) {
	later := decode[client.Command](t, d.submit("create_payment", "", "--not-before", "1h", "--timeout", "1h").must(t, exitSuccess).stdout)
	d.execute("get", later.ID, "--wait", "10ms").must(t, exitStillRunning)
	r := d.execute("cancel", later.ID, "--reason", "ordered twice").must(t, exitSuccess)
	if !strings.HasPrefix(r.stdout, "cancel  cancelled\n") || !strings.Contains(r.stdout, "safe to submit again") {
		t.Errorf("got:\n%s", r.stdout)
	}
	if r := d.execute("audit", "list", "--command", later.ID).must(t, exitSuccess); !strings.Contains(r.stdout, "ordered twice") {
		t.Errorf("the audit says\n%s", r.stdout)
	}
	again := decode[struct{ Cancel, State string }](t, d.execute("cancel", later.ID, "--output", "json").must(t, exitSuccess).stdout)
	if again.Cancel != "too_late" || again.State != "cancelled" {
		t.Errorf("again: %+v", again)
	}
	d.execute("get", later.ID, "--wait", "1s").must(t, exitCancelled)
	d.execute("cancel", "0193c0de-0000-7000-8000-000000000001").must(t, exitNotFound)
}

func testProfiles(t *testing.T, d *deployment) {
	r := d.execute("profiles", "list").must(t, exitSuccess)
	if !strings.Contains(r.stdout, "ledger") || !strings.Contains(r.stdout, "create_payment") {
		t.Errorf("list:\n%s", r.stdout)
	}
	if r := d.execute("profiles", "explain", "ledger").must(t, exitSuccess); !strings.Contains(r.stdout, "ledger/create_payment") {
		t.Errorf("explain:\n%s", r.stdout)
	}
	d.execute("profiles", "explain", "nope").must(t, exitNotFound)
	file := filepath.Join(t.TempDir(), "other.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const good = "version: 1\nupstream: other\nbase_url: https://other.example\noperations:\n  ping: {method: GET, path: /ping, body: none, idempotency: {kind: safe}}\n"
	write(good)
	if r := d.execute("profiles", "apply", file, "--reason", "a first try").must(t, exitSuccess); !strings.Contains(r.stdout, "other     1        yes") {
		t.Errorf("apply:\n%s", r.stdout)
	}
	if r := d.execute("audit", "list", "--subject", "other").must(t, exitSuccess); !strings.Contains(r.stdout, "a first try") {
		t.Errorf("the audit says\n%s", r.stdout)
	}
	if r := d.execute("profiles", "apply", file).must(t, exitSuccess); !strings.Contains(r.stdout, "other     1        no") {
		t.Errorf("apply again:\n%s", r.stdout)
	}
	write(strings.Replace(good, "method", "methud", 1))
	if r := d.execute("profiles", "apply", file).must(t, exitFailure); !strings.Contains(r.stderr, "other.yaml:5:") {
		t.Errorf("a bad one: %q", r.stderr)
	}
	const bound = "auth: {type: bearer, token: 'env:EXECUTOR_SECRET_OTHER'}\n"
	write(good + bound)
	d.execute("profiles", "apply", file).must(t, exitSuccess)
	write(strings.Replace(good, "other.example", "elsewhere.example", 1) + bound)
	if r := d.execute("profiles", "apply", file).must(t, exitUsage); !strings.Contains(r.stderr, "apply "+file+": other.yaml:6:") || strings.Count(r.stderr, "6:7: ") != 1 {
		t.Errorf("one that the server refuses: %s", r.stderr)
	}
}

// A paused upstream is left alone until somebody resumes it; the subtests that
// follow need it sent to.
func testPauseUpstream(t *testing.T, d *deployment) {
	d.execute("profiles", "pause", "ledger").must(t, exitUsage)
	d.execute("profiles", "pause", "nope", "--reason", "x").must(t, exitNotFound)
	d.execute("profiles", "resume", "nope").must(t, exitNotFound)
	r := d.execute("profiles", "pause", "ledger", "--reason", "maintenance").must(t, exitSuccess)
	if !strings.Contains(r.stdout, "paused by test: maintenance") {
		t.Errorf("pause:\n%s", r.stdout)
	}
	held := decode[client.Command](t, d.submit("create_payment", "", "--key", "paused").must(t, exitSuccess).stdout)
	if list := d.execute("profiles", "list").must(t, exitSuccess); !strings.Contains(list.stdout, "paused by test: maintenance") {
		t.Errorf("list:\n%s", list.stdout)
	}
	resumed := decode[client.Upstream](t, d.execute("profiles", "resume", "ledger", "--reason", "it is over", "--output", "json").must(t, exitSuccess).stdout)
	if resumed.Name != "ledger" || resumed.Paused != nil {
		t.Errorf("resume: %+v", resumed)
	}
	d.execute("get", held.ID, "--wait", "1m").must(t, exitSuccess)
}

func testWhoMayNot(t *testing.T, d *deployment) {
	reader := decode[createdKey](t, d.execute("keys", "create", "--name", "reader", "--scopes", "commands:read", "--output", "json").must(t, exitSuccess).stdout)
	other := decode[createdKey](t, d.execute("keys", "create", "--name", "other", "--scopes", "admin", "--tenant", "acme", "--output", "json").must(t, exitSuccess).stdout)
	command := decode[client.Command](t, d.submit("create_payment", "", "--wait", "1m").must(t, exitSuccess).stdout)
	as := func(key string) *deployment {
		one := *d
		one.env = map[string]string{"EXECUTOR_URL": d.env["EXECUTOR_URL"], "EXECUTOR_API_KEY": key}
		return &one
	}
	as("exk_nobody").execute("get", command.ID).must(t, exitAuthentication)
	as(reader.Key).execute("get", command.ID).must(t, exitSuccess)
	if r := as(reader.Key).execute("cancel", command.ID).must(t, exitAuthentication); !strings.Contains(r.stderr, "commands:write") {
		t.Errorf("stderr %q", r.stderr)
	}
	as(other.Key).execute("get", command.ID).must(t, exitNotFound)
}

func testDoctorOfTheLiving(t *testing.T, d *deployment) {
	byCheck, _ := findingsOf(t, d.env)
	for _, check := range []string{"deployment", "sending", "processes", "upstream ledger"} {
		if byCheck[check].Status != statusOK {
			t.Errorf("%s: %+v", check, byCheck[check])
		}
	}
}

// An interrupt ends a wait with the shell's own code; the command goes on.
func testInterruptedWaiting(t *testing.T, d *deployment) {
	later := decode[client.Command](t, d.submit("create_payment", "", "--not-before", "1h", "--timeout", "1h").must(t, exitSuccess).stdout)
	for _, args := range [][]string{{"watch", later.ID}, {"get", later.ID, "--wait", "1m"}} {
		ctx, cancel := context.WithCancel(context.Background())
		stop := context.AfterFunc(t.Context(), cancel)
		time.AfterFunc(50*time.Millisecond, cancel) // whenever it comes, the end is the same
		var stdout, stderr bytes.Buffer
		code := run(ctx, args, world{in: strings.NewReader(""), out: &stdout, err: &stderr, getenv: func(name string) string { return d.env[name] }})
		if code != exitInterrupted || stderr.String() != "" {
			t.Errorf("%v: exit code %d, stderr %q", args, code, stderr.String())
		}
		stop()
	}
	d.execute("cancel", later.ID).must(t, exitSuccess)
}
