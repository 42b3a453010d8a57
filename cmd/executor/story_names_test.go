//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"executor/client"
	"executor/internal/postgres"
	"executor/internal/testkit"
)

// names are addresses by host. A name that is asked for again gives its next
// addresses, the last ones for good.
type names struct {
	mu      sync.Mutex
	answers map[string][][]string
}

func (n *names) LookupNetIP(_ context.Context, _, host string) (list []netip.Addr, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	answers := n.answers[host]
	if len(answers) == 0 {
		return nil, fmt.Errorf("no such host")
	}
	if len(answers) > 1 {
		n.answers[host] = answers[1:]
	}
	for _, text := range answers[0] {
		list = append(list, netip.MustParseAddr(text))
	}
	return list, nil
}

// newStageWith serves in the test's own process, which knows the names.
func newStageWith(t *testing.T, known *names) *stage {
	t.Helper()
	s := emptyStage(t)
	s.serveHere(t, &process{log: slog.New(slog.DiscardHandler), resolver: known}, "names", func(*Config) {})
	return s
}

// serveHere serves in the test's own process.
func (s *stage) serveHere(t *testing.T, p *process, instance string, change func(*Config)) {
	t.Helper()
	p.config, p.failed = defaultConfig(), make(chan error, 2)
	p.config.DatabaseURL, p.config.DeploymentID, p.config.Instance = s.env["EXECUTOR_DATABASE_URL"], s.env["EXECUTOR_DEPLOYMENT_ID"], instance
	p.config.Listen, p.config.SecretsDir = "127.0.0.1:0", s.files
	change(&p.config)
	if err := p.open(bounded(t), nothing, database{testkit.Open(t, p.config.DatabaseURL), postgres.NewWatch(p.log)}); err != nil {
		t.Fatal(err)
	}
	s.env["EXECUTOR_URL"] = p.front.url()
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- p.run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
	s.call()
}

// TestStoriesOfNames are told where the test says what a name resolves to.
func TestStoriesOfNames(t *testing.T) {
	server := testkit.NewRawServer(t, func(c *testkit.RawConn) {
		c.Serve(func(testkit.RawRequest) string { return testkit.Reply(201, `{"id":"p1"}`) })
	})
	s := newStageWith(t, &names{answers: map[string][][]string{
		"mixed.test":   {{"127.0.0.1", "10.0.0.1"}},
		"mapped.test":  {{"::ffff:10.0.0.1"}},
		"cloud.test":   {{"169.254.169.254"}},
		"several.test": {{"127.0.0.9", "127.0.0.1"}},
		"turning.test": {{"127.0.0.9"}, {"10.0.0.1"}},
	}})
	at := func(host string) string { return fmt.Sprintf("http://%s:%d", host, server.Port()) }
	forbidden := []string{"not_sent address_forbidden"}
	plots := s.open(t,
		story{name: "one of several addresses is forbidden", kind: "none", base: at("mixed.test"),
			attempts: forbidden, ends: "cancelled never_sent permanent_failure", check: addresses("", "address_forbidden")},
		story{name: "one of several addresses is forbidden, keyed", kind: "keyed", base: at("mixed.test"),
			attempts: forbidden, ends: "cancelled never_sent permanent_failure", check: addresses("", "address_forbidden")},
		story{name: "a private address in other clothes", kind: "none", base: at("mapped.test"),
			attempts: forbidden, ends: "cancelled never_sent permanent_failure", check: addresses("address_forbidden")},
		story{name: "the metadata service by a name", kind: "none", base: at("cloud.test"), profile: settings{"egress": "{allow: [127.0.0.0/8, 169.254.0.0/16]}"},
			attempts: forbidden, ends: "cancelled never_sent permanent_failure", check: addresses("address_forbidden")},
		story{name: "a name that turns inwards", kind: "none", base: at("turning.test"),
			attempts: []string{noConnection, "not_sent address_forbidden"}, ends: "cancelled never_sent permanent_failure", check: addresses("address_forbidden")},
		story{name: "a name that nobody has", kind: "none", base: at("nobody.test"),
			attempts: []string{"not_sent dns_failure", "not_sent dns_failure", "not_sent dns_failure"}, ends: "cancelled never_sent max_attempts"},
	)
	for _, r := range s.submitAll(t, plots) {
		t.Run(r.name, func(t *testing.T) { r.end(t) })
	}
	if n := server.Connections(); n > 0 {
		t.Errorf("the permitted address saw %d connections", n)
	}
	t.Run("the first of several addresses is out of order", func(t *testing.T) { s.nextAddress(t, at("several.test"), server) })
}

// addresses: the last attempt's record has each address with what was wrong with it.
func addresses(categories ...string) func(*testing.T, told) {
	return func(t *testing.T, o told) {
		t.Helper()
		var got []string
		for _, a := range o.record[len(o.record)-1].Addresses {
			got = append(got, strings.TrimPrefix(a.Category, "none"))
		}
		if !slices.Equal(got, categories) {
			t.Errorf("addresses %+v, want %q", o.record[0].Addresses, categories)
		}
	}
}

// nextAddress: another address is tried after a failure to connect, and only then.
func (s *stage) nextAddress(t *testing.T, base string, server *testkit.RawServer) {
	pl := s.one(t, story{name: "next address", kind: "none", base: base})
	r := pl.submit(t)
	command, err := s.api.Wait(bounded(t), r.command.ID)
	if err != nil {
		t.Fatal(err)
	}
	o := r.told(t, command)
	if command.State != client.StateSuccess || len(o.record) != 1 || len(server.Requests()) != 1 {
		t.Errorf("%d requests, %s", len(server.Requests()), o)
	}
	if c := o.record[0]; len(c.Addresses) == 0 || c.Addresses[0].Category != "connect_refused" || c.Connection.Remote != server.Address() {
		t.Errorf("addresses %+v, connected to %+v", c.Addresses, c.Connection)
	}
}
