package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// trouble is what the samples ask the simulated upstream to do.
const (
	troubleLostAnswer = "times=1,commit,drop" // book it, drop the connection; work from then on
	troubleRefuse     = "status=422"
	troubleDoubt      = "commit,drop"
	troubleBusy       = "status=429"
)

// printScreen says what runs where and what to try. Its commands work as they
// are pasted into another terminal.
func printScreen(w io.Writer, d *dev, program string) {
	for _, moved := range d.moved {
		fmt.Fprintln(w, moved)
	}
	dir := here(d.dir)
	fmt.Fprintf(w, "\nExecutor runs on this machine. Ctrl-C stops it; the data stays in %s: remove it to start anew.\n\n", dir)
	url := d.process.front.url()
	fmt.Fprintf(w, "  Open the dashboard with this link, which signs you in once:\n  %s\n\n", d.dashboard)
	t := newTable(w)
	t.row("  dashboard", url, "who can sign in: executor operators list")
	t.row("  API", url, "described at "+url+"/openapi.json")
	t.row("  metrics", d.process.back.url(), "at /metrics")
	t.row("  upstream", d.simURL, fmt.Sprintf("a simulator, %q to us; what it saw and did: %s/_ledger", d.upstream.Name, d.simURL))
	t.row("  profile", "examples/ledger.yaml", fmt.Sprintf("version %d of upstream %q", d.upstream.Version, d.upstream.Name))
	t.row("  database", redactedDatabase(d.server.URL), "PostgreSQL, its files in "+filepath.Join(dir, "postgres"))
	t.row("  log", filepath.Join(dir, "executor.log"), "from this start on")
	_ = t.flush()
	printTries(w, d, url, program)
}

func printTries(w io.Writer, d *dev, url, program string) {
	submit := func(operation, trouble, more string) string {
		return fmt.Sprintf(`%s submit --upstream ledger --operation %s%s --body '{"amount": 100}' --header Sim-Behavior=%s --wait 30s`,
			program, operation, more, trouble)
	}
	pay := " --param account=a1"
	fmt.Fprintf(w, `
Try it: paste this into another terminal, in the same folder.

export EXECUTOR_URL=%s EXECUTOR_API_KEY=%s

# success: the upstream books the payment and drops the connection. Sent again under the same key, it is booked once
%s

# rejected: the upstream refuses
%s

# unresolved: the answer is lost, and this upstream offers no key. Sending again could charge twice, so nothing is sent
%s

# unresolved and settled a moment later: nothing is sent again here either, but this upstream can be asked
%s

# cancelled: the upstream is too busy until the attempts are used up. Nothing was done, it is safe to submit again
%s

# what became of them, and the account of one with every attempt
%s list
%s get --key order-1

# what waits for a person: the charge, which nobody here can look up ("%s resolve --help" decides it)
%s reviews

# what the upstream saw: two requests and one effect
curl -s "%s/_ledger/effects?key=order-1"; echo

# the same over HTTP, and what every kind of failure would end in
curl -s -H "Authorization: Bearer $EXECUTOR_API_KEY" "$EXECUTOR_URL/v1/commands?limit=1"; echo
%s profiles explain ledger

# for those who operate it: these work on the database itself
export EXECUTOR_DATABASE_URL='%s' EXECUTOR_DEPLOYMENT_ID=%s
%s doctor
`, url, d.key,
		submit("create_payment", troubleLostAnswer, pay+" --key order-1"),
		submit("create_payment", troubleRefuse, pay),
		submit("charge_card", troubleDoubt, ""),
		submit("send_transfer", troubleDoubt, pay+" --key transfer-1"),
		submit("create_payment", troubleBusy, pay),
		program, program, program, program, d.simURL, program, d.server.URL, devDeployment, program)
	if strings.HasPrefix(program, "go run") {
		fmt.Fprintf(w, `
The exit code tells the state (%s submit --help); "go run" prints it and ends with 1 itself.
`, program)
	}
}

// here shows a folder as seen from the current one.
func here(dir string) string {
	wd, err := os.Getwd()
	if err != nil {
		return dir
	}
	rel, err := filepath.Rel(wd, dir)
	if err != nil || strings.HasPrefix(rel, "..") {
		return dir
	}
	return rel
}
