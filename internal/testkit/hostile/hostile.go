// Package hostile tempts whoever dials: targets that nothing may be sent to, a
// name server that gives bad answers, and traps that notice every connection.
package hostile

import (
	_ "embed"
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// Home is the one address that the allow list of a test's targets names. A
// server may listen there.
var Home = netip.MustParseAddr("127.99.99.1")

// Allow is that allow list.
func Allow() []netip.Prefix { return []netip.Prefix{netip.PrefixFrom(Home, Home.BitLen())} }

// Target is one that nothing may be sent to.
type Target struct {
	URL string // "" if it is a name
	Why string

	answers []string // of the name server, one for each look-up
	number  int
}

//go:embed testdata/targets.txt
var targets string

// least is how many targets there have to be.
const least = 300

// Targets lists all.
func Targets(t testing.TB) []Target {
	t.Helper()
	var list []Target
	for line := range strings.Lines(targets) {
		if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
			continue
		}
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) != 3 {
			t.Fatalf("%q is no line of targets", line)
		}
		target := Target{Why: fields[2], number: len(list)}
		if fields[0] == "url" {
			target.URL = fields[1]
		} else {
			target.answers = strings.Split(strings.ReplaceAll(fields[1], "HOME", Home.String()), " | ")
		}
		list = append(list, target)
	}
	if len(list) < least {
		t.Fatalf("only %d targets", len(list))
	}
	return list
}

// IsName says whether only the name server's answers are hostile.
func (t Target) IsName() bool { return t.answers != nil }

// Through is the URL of the target. A channel is a name of its own for a name
// server, which counts look-ups by name.
func (t Target) Through(scheme, channel string) string {
	if !t.IsName() {
		return t.URL
	}
	return fmt.Sprintf("%s://%s.t%d.hostile.test/", scheme, channel, t.number)
}

// String says what it is, and why it is hostile.
func (t Target) String() string {
	if t.IsName() {
		return fmt.Sprintf("%q (%s)", strings.Join(t.answers, " | "), t.Why)
	}
	return fmt.Sprintf("%q (%s)", t.URL, t.Why)
}
