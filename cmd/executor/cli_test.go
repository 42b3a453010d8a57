package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// everyCommand calls f with each command that does something.
func everyCommand(root *cobra.Command, f func(*cobra.Command)) {
	for _, c := range root.Commands() {
		if c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		if !c.HasSubCommands() {
			f(c)
		}
		everyCommand(c, f)
	}
}

func nothing(string) string { return "" }

func TestEveryCommandExplainsItself(t *testing.T) {
	everyCommand(newRootCommand(nothing), func(c *cobra.Command) {
		if c.Short == "" || !strings.Contains(c.Example, "executor ") {
			t.Errorf("%q lacks a short text or an example", c.CommandPath())
		}
		if c.Args == nil {
			t.Errorf("%q does not check its arguments", c.CommandPath())
		}
	})
}

// Examples rot unseen: each line that starts the program must name a command
// and flags that exist.
func TestExamplesNameWhatExists(t *testing.T) {
	everyCommand(newRootCommand(nothing), func(c *cobra.Command) {
		for line := range strings.Lines(c.Example) {
			checkExampleLine(t, c.CommandPath(), strings.TrimSpace(line))
		}
	})
}

func checkExampleLine(t *testing.T, path, line string) {
	t.Helper()
	_, call, found := strings.Cut(" "+line, " executor ")
	if _, inner, nested := strings.Cut(line, "$(executor "); nested {
		call, found = inner, true
	}
	if !found {
		return
	}
	call, _, _ = strings.Cut(call, "|")
	words := strings.Fields(call)
	cmd, rest, err := newRootCommand(nothing).Find(words)
	if err != nil || !cmd.HasParent() {
		t.Errorf("%s: the example %q names no command", path, line)
		return
	}
	for _, word := range rest {
		name, isFlag := strings.CutPrefix(word, "--")
		name, _, _ = strings.Cut(name, "=")
		if isFlag && cmd.Flags().Lookup(name) == nil {
			t.Errorf("%s: the example %q uses --%s, which %s does not have", path, line, name, cmd.CommandPath())
		}
	}
}

func TestUsageErrors(t *testing.T) {
	key := map[string]string{"EXECUTOR_API_KEY": "exk_x"}
	tests := []struct {
		args []string
		env  map[string]string
		code int
		want string
	}{
		{[]string{"nope"}, nil, 2, `unknown command "nope"`},
		{[]string{"--nope"}, nil, 2, "unknown flag: --nope"},
		{[]string{"keys"}, nil, 2, "needs a subcommand"},
		{[]string{"keys", "nope"}, nil, 2, `unknown command "nope" for "executor keys"`},
		{[]string{"version", "extra"}, nil, 2, `unknown command "extra"`},
		{[]string{"version", "--output", "xml"}, nil, 2, "use json or table"},
		{[]string{"version"}, map[string]string{"EXECUTOR_OUTPUT": "xml"}, 2, "EXECUTOR_OUTPUT"},
		{[]string{"submit"}, key, 2, "--upstream and --operation are needed"},
		{[]string{"submit", "--param", "x"}, key, 2, `"x" is not of the form name=value`},
		{[]string{"submit", "--param", "x=1", "--param", "x=2"}, key, 2, `"x" is given twice`},
		{[]string{"submit", "--header", "X"}, key, 2, `"X" is not of the form name=value`},
		{[]string{"submit", "--deadline", "soon"}, key, 2, "neither a time"},
		{[]string{"submit", "--upstream", "u", "--operation", "o", "--body", "x", "--body-file", "y"}, key, 2, "use one"},
		{[]string{"submit", "--upstream", "u", "--operation", "o", "--timeout", "1m", "--deadline", "2m"}, key, 2, "use one"},
		{[]string{"submit", "--upstream", "u", "--operation", "o", "--body", "{"}, key, 2, "the body is not JSON"},
		{[]string{"submit", "--upstream", "u", "--operation", "o", "--body", "{", "--content-type", "application/json"}, key, 2, "the body is not JSON"},
		{[]string{"submit", "--upstream", "u", "--operation", "o", "--body", "@/does/not/exist"}, key, 2, "/does/not/exist"},
		{[]string{"submit", "--upstream", "u", "--operation", "o"}, nil, 4, "EXECUTOR_API_KEY"},
		{[]string{"get"}, key, 2, "name the command"},
		{[]string{"get", "x", "--key", "y"}, key, 2, "name the command"},
		{[]string{"get", "x"}, nil, 4, "EXECUTOR_API_KEY"},
		{[]string{"get", "x", "--url", "ftp://x"}, key, 2, "not the URL"},
		{[]string{"list", "--state", "done"}, key, 2, `unknown state "done"`},
		{[]string{"watch"}, key, 2, "accepts 1 arg"},
		{[]string{"reviews", "nope"}, key, 2, "unknown command"},
		{[]string{"reviews", "--kind", "old"}, key, 2, `unknown kind "old"`},
		{[]string{"reviews", "--assignee", "ann", "--unassigned"}, key, 2, "if any flags in the group"},
		{[]string{"reviews", "bulk"}, key, 2, "--action is needed"},
		{[]string{"reviews", "bulk", "--action", "lookup", "--reason", "r", "--yes"}, key, 2, "a filter is needed"},
		{[]string{"reviews", "bulk", "--action", "resolve", "--upstream", "u", "--reason", "r", "--yes"}, key, 2, "--as is needed"},
		{[]string{"reviews", "bulk", "--action", "resolve", "--as", "success", "--upstream", "u", "--reason", "r", "--yes"}, key, 2, "--as success needs --evidence"},
		{[]string{"reviews", "bulk", "--action", "resend", "--absent", "--upstream", "u", "--reason", "r", "--yes"}, key, 2, "--absent needs --evidence"},
		{[]string{"reviews", "bulk", "--action", "assign", "--upstream", "u", "--reason", "r", "--yes"}, key, 2, "--to NAME, or --none"},
		{[]string{"reviews", "bulk", "--action", "lookup", "--upstream", "u", "--yes"}, key, 2, "--reason is needed"},
		{[]string{"resolve", "x", "--reason", "r"}, key, 2, "--as is needed"},
		{[]string{"resolve", "x", "--as", "unresolved", "--reason", "r"}, key, 2, "--as is needed"},
		{[]string{"resolve", "x", "--as", "cancelled"}, key, 2, "--reason is needed"},
		{[]string{"resolve", "x", "--as", "success", "--reason", "r"}, key, 2, "--as success needs --reference"},
		{[]string{"resolve", "x", "--as", "cancelled", "--reference", "p", "--reason", "r"}, key, 2, "--reference goes with"},
		{[]string{"correct", "x", "--as", "cancelled", "--code", "c", "--reason", "r"}, key, 2, "--code and --message go with"},
		{[]string{"lookup", "x"}, key, 2, "--reason is needed"},
		{[]string{"resend", "x", "--absent", "--reason", "r"}, key, 2, "--absent needs --evidence"},
		{[]string{"assign", "x", "--reason", "r"}, key, 2, "say who"},
		{[]string{"assign", "x", "ann", "--none", "--reason", "r"}, key, 2, "say who"},
		{[]string{"note", "x"}, key, 2, "accepts 2 arg"},
		{[]string{"lookups", "x"}, nil, 4, "EXECUTOR_API_KEY"},
		{[]string{"webhooks", "update", "x"}, key, 2, "nothing to change"},
		{[]string{"webhooks", "redeliver", "x"}, key, 2, "--since is needed"},
		{[]string{"webhooks", "listen"}, nil, 2, "--secret is needed"},
		{[]string{"webhooks", "listen", "--secret", "whsec_short"}, nil, 2, "webhook secret 1 is not one"},
		{[]string{"webhooks", "listen", "--secret", "@/does/not/exist"}, nil, 2, "/does/not/exist"},
		{[]string{"webhooks", "listen", "--secret", "x", "--forward-to", "localhost"}, nil, 2, "not a URL"},
		{[]string{"deliveries", "list", "--state", "gone"}, key, 2, `unknown state "gone"`},
		{[]string{"reconcile", "upload", "x.csv"}, key, 2, "--upstream is needed"},
		{[]string{"reconcile", "upload", "x", "--upstream", "u"}, key, 2, "--format is needed"},
		{[]string{"reconcile", "upload", "/does/not/exist.csv", "--upstream", "u"}, key, 2, "/does/not/exist.csv"},
		{[]string{"reconcile", "apply", "x"}, key, 2, "--reason is needed"},
		{[]string{"audit", "verify"}, nil, 4, "EXECUTOR_API_KEY"},
		{[]string{"profiles", "validate"}, nil, 2, "requires at least 1 arg"},
		{[]string{"profiles", "validate", "/does/not/exist.yaml"}, nil, 2, "/does/not/exist.yaml"},
		{[]string{"keys", "create"}, nil, 2, "--name and --scopes are needed"},
		{[]string{"keys", "list"}, nil, 2, "EXECUTOR_DATABASE_URL is not set"},
		{[]string{"operators"}, nil, 2, "needs a subcommand"},
		{[]string{"operators", "add"}, nil, 2, "accepts 1 arg"},
		{[]string{"operators", "add", "ann"}, nil, 2, "--role is needed"},
		{[]string{"operators", "add", "ann", "--role", "root"}, nil, 2, `unknown role "root"`},
		{[]string{"operators", "add", "ann", "--role", "admin", "--link", "--password-stdin"}, nil, 2, "one of --link and --password-stdin"},
		{[]string{"operators", "add", "ann", "--role", "admin", "--password-stdin"}, nil, 2, "no password on stdin"},
		{[]string{"operators", "role", "ann", "root"}, nil, 2, `unknown role "root"`},
		{[]string{"operators", "link", "ann", "--url", "localhost"}, nil, 2, "is not a URL like"},
		{[]string{"operators", "list"}, nil, 2, "EXECUTOR_DATABASE_URL is not set"},
		{[]string{"freeze"}, nil, 2, "--reason is needed"},
		{[]string{"deployment", "adopt"}, nil, 2, "EXECUTOR_DEPLOYMENT_ID is not set"},
		{[]string{"migrate"}, nil, 2, "EXECUTOR_DATABASE_URL is not set"},
		{[]string{"doctor"}, nil, 2, "EXECUTOR_DATABASE_URL is not set"},
		{[]string{"serve"}, nil, 2, "EXECUTOR_DATABASE_URL is not set"},
		{[]string{"serve", "--lease-ttl", "x"}, nil, 2, "--lease-ttl"},
		{[]string{"dev", "--demo", "--dir", "x"}, nil, 2, "leave --dir out"},
	}
	for _, tt := range tests {
		r := execute(t, tt.env, tt.args...)
		if r.code != tt.code || !strings.Contains(r.stderr, tt.want) {
			t.Errorf("executor %s: code %d, want %d; stderr %q, want %q in it", strings.Join(tt.args, " "), r.code, tt.code, r.stderr, tt.want)
		}
		if r.stdout != "" || strings.Contains(r.stderr, "goroutine") {
			t.Errorf("executor %s: stdout %q, stderr %q", strings.Join(tt.args, " "), r.stdout, r.stderr)
		}
	}
}

func TestHelpGoesToStdout(t *testing.T) {
	for _, args := range [][]string{{}, {"--help"}, {"help"}, {"submit", "--help"}, {"help", "keys", "create"}} {
		r := execute(t, nil, args...).must(t, exitSuccess)
		if r.stderr != "" || !strings.Contains(r.stdout, "Usage:") {
			t.Errorf("executor %v: stdout %q, stderr %q", args, r.stdout, r.stderr)
		}
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if r := execute(t, nil, "completion", shell).must(t, exitSuccess); len(r.stdout) < 1000 {
			t.Errorf("completion for %s: %q", shell, r.stdout)
		}
	}
	r := execute(t, nil, "__complete", "list", "--state", "").must(t, exitSuccess)
	if !strings.Contains(r.stdout, "unresolved\n") {
		t.Errorf("--state does not complete: %q", r.stdout)
	}
}

func TestVersion(t *testing.T) {
	r := execute(t, nil, "version").must(t, exitSuccess)
	if !strings.HasPrefix(r.stdout, "executor ") {
		t.Errorf("got %q", r.stdout)
	}
	b := decode[build](t, execute(t, map[string]string{"EXECUTOR_OUTPUT": "json"}, "version").must(t, exitSuccess).stdout)
	if b.Version == "" || b.Go == "" || b.Platform == "" {
		t.Errorf("got %+v", b)
	}
}
