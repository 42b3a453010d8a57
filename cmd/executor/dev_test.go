package main

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"executor/client"
	"executor/examples"
	"executor/internal/testkit/scratch"
	"executor/upstreams"
)

// openFolder is a temporary folder that every user can enter, as the database's
// may be another than the test's.
func openFolder(t testing.TB) string {
	t.Helper()
	dir, err := scratch.Dir("executor-dev-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// The demonstration shows each final state with its evidence, and leaves
// nothing behind.
func TestDemo(t *testing.T) {
	dir := openFolder(t)
	p := startExecutor(t, []string{"dev", "--demo"}, map[string]string{"TMPDIR": dir})
	if code := p.Wait(); code != exitSuccess {
		t.Fatalf("exit code %d", code)
	}
	story := p.stdout.String()
	for _, want := range []string{
		"state     success: the upstream did it, and said so\nupstream  it saw 2 requests and booked 1 payment",
		"state     rejected: the upstream refused and did nothing; the same again would be refused again\nupstream  it saw 1 request and booked no payment",
		"state     unresolved: nobody knows yet whether the upstream did it; do not do it again by other means\nupstream  it saw 1 request and booked 1 payment",
		"state     cancelled: the upstream did not do it; safe to submit again under a new key\nupstream  it saw 5 requests and booked no payment",
		"sent_no_response", "possibly_crossed", "To try it yourself: ",
	} {
		if !strings.Contains(story, want) {
			t.Errorf("the story lacks:\n%s\n\nit is:\n%s", want, story)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

var keyOnScreen = regexp.MustCompile(`EXECUTOR_API_KEY=(exk_\w+)`)

// What the first screen says works as pasted, and is still there after a restart.
func TestDev(t *testing.T) {
	dir := filepath.Join(openFolder(t), "dev")
	args := []string{"dev", "--dir", dir, "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--upstream-listen", "127.0.0.1:0"}
	p := startExecutor(t, args, nil)
	screen := p.Stdout(" doctor\n")
	pasted := paste(t, screen)
	for _, want := range []string{
		"state      success", "state     rejected", "state     unresolved", "state     cancelled", // one submit each
		"order-1", "sent_no_response", // the list and the account
		`"id":"pay_1"`, `"data":[`, // the upstream's ledger, and the API over HTTP
		"ledger/create_payment: POST", "ok      deployment", // explain, doctor
	} {
		if !strings.Contains(pasted, want) {
			t.Errorf("pasting the screen did not show %q:\n%s", want, pasted)
		}
	}
	stop(t, p)

	again := startExecutor(t, args, nil)
	second := again.Stdout(" doctor\n")
	if key := keyOnScreen.FindString(screen); key == "" || keyOnScreen.FindString(second) != key {
		t.Errorf("the key changed over a restart:\n%s", second)
	}
	url := regexp.MustCompile(`EXECUTOR_URL=(\S+)`).FindStringSubmatch(second)[1]
	env := map[string]string{"EXECUTOR_URL": url, "EXECUTOR_API_KEY": keyOnScreen.FindStringSubmatch(second)[1], "EXECUTOR_OUTPUT": "json"}
	if c := decode[client.Command](t, execute(t, env, "get", "--key", "order-1").must(t, exitSuccess).stdout); c.State != client.StateSuccess {
		t.Errorf("after a restart the command is %s", c.State)
	}

	other := startExecutor(t, args, nil)
	if code := other.Wait(); code != exitFailure || !strings.Contains(other.stderr.String(), "in use by process") {
		t.Errorf("a second one on the same folder: exit code %d\n%s", code, other.stderr)
	}
	stop(t, again)
}

// What cannot be is refused before a folder is made or a database started.
func TestDevChecksFirst(t *testing.T) {
	for _, tt := range []struct {
		args []string
		env  map[string]string
		want []string
	}{
		{[]string{"--secrets-dir", "/nowhere"}, nil, []string{"--secrets-dir", "EXECUTOR_SECRETS_DIR", `"/nowhere"`}},
		{nil, map[string]string{"EXECUTOR_SECRETS_DIR": "/nowhere"}, []string{"--secrets-dir", "EXECUTOR_SECRETS_DIR", `"/nowhere"`}},
		{[]string{"--body-dir", "/nowhere"}, nil, []string{"--body-dir", "EXECUTOR_BODY_DIR", `"/nowhere"`}},
		{[]string{"--listen", "nonsense", "--upstream-listen", ":70000"}, nil, []string{"--listen", `"nonsense"`, "--upstream-listen", `":70000"`}},
	} {
		dir := filepath.Join(t.TempDir(), "dev")
		r := execute(t, tt.env, append([]string{"dev", "--dir", dir}, tt.args...)...).must(t, exitUsage)
		for _, want := range tt.want {
			if !strings.Contains(r.stderr, want) {
				t.Errorf("dev %v: stderr %q lacks %q", tt.args, r.stderr, want)
			}
		}
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("dev %v left its folder behind: %v", tt.args, err)
		}
	}
}

func stop(t *testing.T, p *Process) {
	t.Helper()
	p.Signal(syscall.SIGINT)
	if code := p.Wait(); code != exitSuccess {
		t.Fatalf("exit code %d after an interrupt\n%s", code, p.stderr)
	}
}

// paste gives a shell what the screen says to paste, and returns all that it
// printed.
func paste(t *testing.T, screen string) string {
	t.Helper()
	from, to := strings.Index(screen, "export EXECUTOR_URL"), strings.Index(screen, " doctor\n")
	if from < 0 || to < 0 {
		t.Fatalf("no commands on the screen:\n%s", screen)
	}
	cmd := exec.Command("sh")
	cmd.Stdin = strings.NewReader(screen[from : to+len(" doctor\n")])
	cmd.Env = append(os.Environ(), runMain+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the last command, doctor, ended with %v:\n%s", err, out)
	}
	return string(out)
}

func TestSampleProfileLeadsToAnyAddress(t *testing.T) {
	source := baseURL.ReplaceAll(examples.Ledger, []byte("base_url: http://127.0.0.1:4711"))
	profile, err := upstreams.Parse("ledger.yaml", source)
	if err != nil {
		t.Fatal(err)
	}
	if profile.Base.String() != "http://127.0.0.1:4711" || len(baseURL.FindAll(examples.Ledger, -1)) != 1 {
		t.Errorf("it leads to %s", profile.Base)
	}
}

// A port that is taken is left for the next, unless it was asked for.
func TestBusyDevPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	busy := l.Addr().String()
	d := &dev{}
	if got, err := d.address("API", busy, false); err != nil || got != busy || len(d.moved) != 0 {
		t.Errorf("asked for: %s, %v, %v", got, err, d.moved)
	}
	got, err := d.address("API", busy, true)
	if err != nil || got == busy || len(d.moved) != 1 || !strings.Contains(d.moved[0], got) {
		t.Errorf("movable: %s, %v, %v", got, err, d.moved)
	}
	if _, err := d.address("API", "nonsense", true); exitCode(err) != exitUsage {
		t.Errorf("nonsense: %v", err)
	}
}

func TestEverybodyEnters(t *testing.T) {
	dir := openFolder(t)
	inner := filepath.Join(dir, "inner")
	if err := os.Mkdir(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	if !everybodyEnters(inner) {
		t.Errorf("%s is open", inner)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if everybodyEnters(inner) {
		t.Errorf("%s lies in a closed folder", inner)
	}
}

func TestDevLogsShowWhatAPersonNeeds(t *testing.T) {
	var file, stderr bytes.Buffer
	log, notes := devLogs(&file, &stderr, false)
	log.Info("routine")
	log.Error("broken")
	notes.Info("fetching")
	for _, want := range []string{"routine", "broken", "fetching"} {
		if !strings.Contains(file.String(), want) {
			t.Errorf("the file lacks %q: %s", want, &file)
		}
	}
	if got := stderr.String(); strings.Contains(got, "routine") || !strings.Contains(got, "broken") || !strings.Contains(got, "fetching") || strings.Contains(got, "time=") {
		t.Errorf("stderr: %s", got)
	}
}
