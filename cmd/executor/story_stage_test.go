//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

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
	tokens  map[string]string  // of the stories so far, by name
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
	s := &stage{deployment: newDeployment(t), ca: testkit.NewAuthority(t), files: t.TempDir(), tokens: map[string]string{}}
	s.env["EXECUTOR_SECRETS_DIR"] = s.files
	s.hidden = []string{s.secret("token", "hush-token-1"), s.secret("client-secret", "hush-secret-2"), "hush-cookie-4", "hush-answer-5"}
	s.secret("ca.pem", string(s.ca.PEM))
	s.env["EXECUTOR_ENCRYPTION_KEY"] = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	s.bodyFile("in/a", fileContent)
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

// bodyFile writes a file that bodies can refer to.
func (s *stage) bodyFile(name, content string) {
	s.t.Helper()
	root := s.t.TempDir()
	s.env["EXECUTOR_BODY_DIR"] = root
	path := filepath.Join(root, "default", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// call makes the caller's client, which never repeats by itself.
func (s *stage) call() {
	s.t.Helper()
	var err error
	s.api, err = client.New(client.Config{
		URL: s.env["EXECUTOR_URL"], APIKey: s.env["EXECUTOR_API_KEY"], Retries: -1, Timeout: patience,
		HTTP: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: submitting}},
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
	token     string // stands in the target of each of its requests, and in no other
	upstream  string
	operation string
	made      *bytesUpstream // nil where the simulator serves, or nobody
	commands  int            // so far
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
			operations[pl.operation] = pl.contract()
			continue
		}
		s.apply(t, pl.upstream, pl.served(), pl.profile, map[string]settings{pl.operation: pl.contract()})
	}
	if len(operations) > 0 {
		s.apply(t, shared, s.simURL, nil, operations)
	}
	return plots
}

// one opens a single story on an upstream of its own.
func (s *stage) one(t testing.TB, single story) *plot {
	t.Helper()
	if single.profile == nil {
		single.profile = settings{}
	}
	return s.open(t, single)[0]
}

var notPlain = regexp.MustCompile(`[^a-z0-9]+`)

// prepare gives the story's parts their names.
func (s *stage) prepare(t testing.TB, one story) *plot {
	t.Helper()
	plain := strings.Trim(notPlain.ReplaceAllString(strings.ToLower(one.name), "-"), "-")
	if !slices.Contains(outcome.Idempotencies(), one.kind) || len(plain) > 60 || s.tokens[plain] != "" {
		t.Fatalf("story %q: the name is taken or too long, or the kind is none", one.name)
	}
	token := fmt.Sprintf("%03d-%s", len(s.tokens)+1, plain)
	s.tokens[plain] = token
	pl := &plot{stage: s, story: one, token: token, upstream: plain, operation: plain}
	if one.profile == nil && one.script == nil && one.base == "" {
		pl.upstream = shared
	}
	return pl
}

// served starts what the story's upstream is made of and returns its base URL.
func (pl *plot) served() string {
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
	pl.made.server = testkit.NewRawServer(pl.t, func(c *testkit.RawConn) {
		<-pl.made.ready
		pl.script(&peer{c, pl.made})
	}, options...)
	pl.t.Cleanup(func() { close(pl.made.over) }) // before the server waits for its scripts
	return scheme + pl.made.server.Address()
}
