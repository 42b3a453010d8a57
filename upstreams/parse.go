package upstreams

import (
	"bytes"
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"executor/internal/audit"
	"executor/internal/egress"
)

const (
	maxTimeout      = 10 * time.Minute // of one attempt
	maxDeadline     = 90 * 24 * time.Hour
	maxRetention    = 10 * 365 * 24 * time.Hour
	maxOperations   = 200
	maxExpressions  = 2000
	maxRules        = 100 // of one operation
	instant         = time.Nanosecond
	shortestTimeout = time.Millisecond
)

// Parse reads a profile. file is the name used in messages. The error is a
// *ParseError with everything that was found wrong. What is allowed but unwise
// comes as Profile.Warnings.
func Parse(file string, src []byte) (*Profile, error) { return read(file, src, false) }

// parseStored reads a profile that was accepted already: what has become a mistake
// since then does not take away the contract of the commands under it.
func parseStored(file string, src []byte) (*Profile, error) { return read(file, src, true) }

func read(file string, src []byte, stored bool) (*Profile, error) {
	doc := newDocument(file, src)
	if !doc.load(src) {
		return nil, doc.err()
	}
	expressions, err := newCompiler()
	if err != nil {
		return nil, err
	}
	r := &reader{doc: doc, compiler: expressions, stored: stored}
	p := r.profile(doc.mappingOf(doc.root, "", position{1, 1}))
	if err := doc.err(); err != nil {
		return nil, err
	}
	p.Source = bytes.Clone(src)
	p.Warnings = r.warnings
	slices.SortStableFunc(p.Warnings, func(a, b Warning) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
	return p, nil
}

// reader turns the document into a Profile, section by section.
type reader struct {
	doc         *document
	compiler    *compiler
	expressions int
	warnings    []Warning
	stored      bool
}

var upstreamName = regexp.MustCompile(`^[a-z0-9_-]{1,63}$`)

func (r *reader) profile(m *mapping) *Profile {
	p := &Profile{}
	if !m.has("version") {
		m.missing("version", "Write `version: 1`.")
	}
	m.integer("version", 1, 1, 1)
	p.Upstream = m.required("upstream", "Give the upstream a short name, such as `upstream: ledger`.")
	if m.has("upstream") && !upstreamName.MatchString(p.Upstream) {
		m.fail("upstream", "is not a name for an upstream", "Use 1 to 63 of a-z, 0-9, _ and -.")
	}
	p.Description = m.text("description", "")
	p.Tenant = m.text("tenant", "default")
	if wrong := audit.CheckTenant(p.Tenant); wrong != "" {
		m.fail("tenant", "is not a tenant's name", wrong)
	}
	p.Egress = r.egress(m.mapping("egress"))
	p.Base = r.base(m, p.Egress)
	p.Auth = r.auth(m.mapping("auth"), p.Egress)
	p.Headers = r.headers(m, "headers")
	p.TLS = r.tls(m.mapping("tls"))
	p.Connection = r.connection(m.mapping("connection"))
	p.Timeouts = r.timeouts(m.mapping("timeouts"), Timeouts{Connect: 3 * time.Second, TLS: 5 * time.Second, ResponseHeader: 15 * time.Second, Total: 30 * time.Second})
	p.Limits = r.limits(m.mapping("limits"))
	p.Retry = r.retry(m.mapping("retry"), defaultRetry(), true)
	p.Deadline = m.duration("deadline", 15*time.Minute, time.Second, maxDeadline)
	if m.has("announce_unresolved_after") {
		after := m.duration("announce_unresolved_after", 0, 0, maxDeadline)
		p.AnnounceUnresolvedAfter = &after
	}
	m.asked = append(m.asked, "announce_unresolved_after")
	p.Reconciliation = m.choice("reconciliation", ReconciliationApply, ReconciliationApply, ReconciliationReportOnly)
	r.operations(m, p)
	p.Notices = r.notices(m)
	m.done()
	r.checkProfile(m, p)
	return p
}

func printableASCII(s string) bool {
	return strings.IndexFunc(s, func(c rune) bool { return c < ' ' || c > '~' }) < 0
}

func (r *reader) base(m *mapping, e Egress) *url.URL {
	raw := m.required("base_url", "Write the part that all requests share, such as https://ledger.example/v2.")
	return r.address(m, "base_url", raw, e)
}

// address reads a URL member and warns of plain http to the Internet.
func (r *reader) address(m *mapping, name, raw string, e Egress) *url.URL {
	if !m.has(name) {
		return nil
	}
	b := bounds{e, r.stored}
	a, err := parseAddress(raw, b)
	if err == nil {
		err = a.checkScheme(b)
	}
	if err == nil {
		err = a.checkReach(b)
	}
	if bad, ok := err.(*refusal); ok {
		m.fail(name, bad.message, bad.help)
		return nil
	}
	if a.url.Scheme == "http" && a.looksPublic() && !(a.ip.IsValid() && e.allowed(a.ip)) {
		r.warn("http_public", m, name, "http to a host on the Internet: everyone on the way reads and changes the requests; use https")
	}
	return a.url
}

func (r *reader) egress(m *mapping) Egress {
	var e Egress
	for _, i := range m.list("allow") {
		s, _ := textNode(i.value)
		prefix, err := netip.ParsePrefix(s)
		switch {
		case err != nil:
			i.fail(fmt.Sprintf("%q is not a network", clip(s, 60)), "Write it as address/bits, such as 10.0.0.0/8 or fd00::/8.")
		case prefix.Addr().Is4In6():
			i.fail("hides an IPv4 network", "Write the IPv4 network itself.")
		case prefix != prefix.Masked():
			i.fail(fmt.Sprintf("%s has bits set behind /%d", prefix, prefix.Bits()), "Write "+prefix.Masked().String()+".")
		default:
			e.Allow = append(e.Allow, prefix)
		}
	}
	for _, prefix := range e.Allow {
		if e.named(prefix.Addr()) && egress.Metadata(prefix.Addr()) {
			r.warn("egress_metadata", m, "allow", fmt.Sprintf("it lets requests reach %s, where clouds hand out the credentials of this machine", prefix.Addr()))
		}
	}
	for _, i := range m.list("ports") {
		n, ok := integerNode(i.value)
		if !ok || n < 1 || n > 65535 {
			i.fail("is not a port", "Write numbers from 1 to 65535, such as ports: [9200].")
			continue
		}
		e.Ports = append(e.Ports, n)
	}
	e.Proxy = r.proxy(m, e)
	m.done()
	return e
}

// proxy reads the URL of a CONNECT proxy. It may be plain http: what passes
// through it is not.
func (r *reader) proxy(m *mapping, e Egress) string {
	raw := m.text("proxy", "")
	if raw == "" {
		return ""
	}
	b := bounds{e, r.stored}
	a, err := parseAddress(raw, b)
	if err == nil {
		err = a.checkReach(b)
	}
	if err == nil && a.url.Path != "" {
		err = &refusal{"may not hold a path", "Write scheme, host and port, such as http://proxy.internal:3128."}
	}
	if bad, ok := err.(*refusal); ok {
		m.fail("proxy", bad.message, bad.help)
		return ""
	}
	return a.url.String()
}

func (r *reader) tls(m *mapping) TLS {
	t := TLS{CAFile: m.text("ca_file", ""), CertFile: m.text("cert_file", ""), KeyFile: m.text("key_file", ""), ServerName: m.text("server_name", "")}
	if s := t.CAFile; s != "" && !filepath.IsAbs(s) && !fileReference.MatchString(s) {
		m.fail("ca_file", "is neither file:NAME nor an absolute path", "Put the file under EXECUTOR_SECRETS_DIR and write file:NAME.")
	}
	for _, name := range []string{"cert_file", "key_file"} { // whom we appear as is a secret like any other
		if s := m.text(name, ""); s != "" && !fileReference.MatchString(s) {
			m.fail(name, "is not file:NAME", "Put the file under EXECUTOR_SECRETS_DIR and write file:NAME.")
		}
	}
	if (t.CertFile == "") != (t.KeyFile == "") {
		m.doc.problem(m.at, m.path, "cert_file and key_file belong together", "Set both or neither.")
	}
	if t.ServerName != "" {
		if err := new(address).checkHost(t.ServerName); err != nil {
			m.fail("server_name", err.Error(), "")
		}
	}
	m.done()
	return t
}

func (r *reader) connection(m *mapping) Connection {
	c := Connection{
		Fresh: m.choice("fresh", "auto", "auto", "always", "never"),
		Idle:  m.duration("idle", 5*time.Second, 0, 5*time.Minute),
	}
	m.done()
	return c
}
