package upstreams

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// CredentialError says that a version would take a credential where nobody has
// said that it may go. Nothing was applied.
type CredentialError struct{ ParseError }

func (e *CredentialError) Error() string { return e.ParseError.Error() }

// use is a secret and an origin that it, or what it is exchanged for, is sent to;
// "" for a key that stays here.
type use struct{ reference, origin string }

// verifies stands for an origin where a secret only shows whether notices are signed
// with it: it goes nowhere, and whoever names it learns nothing.
const verifies = "notices"

// goes reports whether the secret leaves this process.
func (u use) goes() bool { return u.origin != "" && u.origin != verifies }

// originOf is scheme, host and port (RFC 6454, section 4), as auth.origins has it.
func originOf(u *url.URL) string { return u.Scheme + "://" + u.Host }

// uses lists where secrets go, in the order of their references. Whom TLS takes for
// the host is such a place too: the address may lead anywhere, by way of a proxy.
func uses(a Auth, t TLS, n *Notices, base *url.URL) []use {
	var signed []string
	if n != nil {
		signed = n.Signature.Secrets
	}
	var list []use
	add := func(reference, origin string) {
		if isReference(reference) {
			list = append(list, use{reference, origin})
		}
	}
	home := []string{originOf(base)}
	if t.ServerName != "" && base.Scheme == "https" && t.ServerName != base.Hostname() {
		home = append(home, originOf(&url.URL{Scheme: base.Scheme, Host: withPort(t.ServerName, base.Port())}))
	}
	for _, origin := range home {
		for _, reference := range []string{a.Token, a.Username, a.Password, a.Value} {
			add(reference, origin)
		}
		if a.Type == AuthOAuth2 {
			add(a.ClientSecret, origin) // by way of the token
		}
	}
	if token, err := url.Parse(a.TokenURL); err == nil && a.Type == AuthOAuth2 {
		add(a.ClientID, originOf(token))
		add(a.ClientSecret, originOf(token))
	}
	add(t.KeyFile, "")
	for _, reference := range signed {
		add(reference, verifies)
	}
	slices.SortStableFunc(list, func(a, b use) int { return compareText(a.reference, b.reference) })
	return list
}

func withPort(host, port string) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port == "" {
		return host
	}
	return host + ":" + port
}

// origins reads auth.origins, which has to name every origin that the credential
// goes to.
func (r *reader) origins(m *mapping, e Egress) []string {
	var list []string
	for _, i := range m.list("origins") {
		s, _ := textNode(i.value)
		a, err := parseAddress(s, bounds{e, r.stored})
		if err == nil && a.url.Path != "" {
			err = &refusal{"may not hold a path", "Write scheme, host and port, such as https://ledger.example."}
		}
		if bad, ok := err.(*refusal); ok {
			i.fail(bad.message, bad.help)
			continue
		}
		list = append(list, originOf(a.url))
	}
	return list
}

// checkOrigins refuses a profile that says where its credential may go and would
// send it elsewhere.
func (r *reader) checkOrigins(m *mapping, p *Profile) {
	if p.Base == nil || len(p.Auth.Origins) == 0 {
		return
	}
	for _, u := range uses(p.Auth, p.TLS, p.Notices, p.Base) {
		if u.goes() && !slices.Contains(p.Auth.Origins, u.origin) {
			m.fail("auth", fmt.Sprintf("origins does not name %s, where %s would go", u.origin, u.reference), "Add it, if the credential is really for it.")
			return
		}
	}
}

// checkCredentials binds credentials to origins: one that earlier versions sent to
// other origins only, or that another tenant uses, is refused. A new reference is
// named for the origin by being there.
func checkCredentials(ctx context.Context, tx pgx.Tx, row upstreamRow, p *Profile) error {
	for _, u := range uses(p.Auth, p.TLS, p.Notices, p.Base) {
		// Two that name a secret first at the same moment wait for one another.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('credential ' || $1, 0))`, u.reference); err != nil {
			return fmt.Errorf("lock the credential: %w", err)
		}
		taken, err := usedByOthers(ctx, tx, row.Tenant, u)
		if err != nil {
			return err
		}
		if taken {
			return refuseCredential(p, fmt.Sprintf("%s is the credential of another tenant", u.reference), "Give each tenant secrets of its own, under names of their own.")
		}
		before, err := usedBefore(ctx, tx, row.ID, u.reference)
		if err != nil {
			return err
		}
		if u.goes() && len(before) > 0 && !slices.Contains(before, u.origin) && !slices.Contains(p.Auth.Origins, u.origin) {
			return refuseCredential(p,
				fmt.Sprintf("%s was for %s until now, and this version would send it to %s", u.reference, places(before), u.origin),
				"If the credential is for the new origin too, name every origin that it goes to under auth, such as origins: ["+u.origin+"]. If not, name another secret.")
		}
	}
	return nil
}

// places are origins for people.
func places(origins []string) string {
	text := slices.Clone(origins)
	for i, origin := range text {
		if !(use{origin: origin}).goes() {
			text[i] = "nobody to see"
		}
	}
	return strings.Join(text, ", ")
}

func refuseCredential(p *Profile, message, help string) error {
	doc := newDocument(p.Upstream+".yaml", p.Source)
	if !doc.load(p.Source) {
		return doc.err() // it was parsed before
	}
	doc.problem(doc.mappingOf(doc.root, "", position{1, 1}).position("auth"), "auth", message, help)
	return &CredentialError{ParseError{File: doc.file, Problems: doc.problems}}
}

// usedBefore lists the origins to which earlier versions of an upstream sent a
// secret.
func usedBefore(ctx context.Context, tx pgx.Tx, id int64, reference string) ([]string, error) {
	return origins(ctx, tx, reference, `SELECT source FROM upstream_versions WHERE upstream_id = $2 AND (strpos(source, $1) > 0 OR strpos(source, '\') > 0) ORDER BY version`, id)
}

// usedByOthers says whether another tenant's upstream uses a secret: by its newest
// version, or by an older one that commands without a settled outcome are bound to,
// which may be sent or asked about yet. Several may verify notices of one sender by the
// same.
func usedByOthers(ctx context.Context, tx pgx.Tx, tenant string, u use) (bool, error) {
	list, err := origins(ctx, tx, u.reference, `
		SELECT v.source FROM upstreams u JOIN upstream_versions v ON v.upstream_id = u.id
		WHERE u.tenant <> $2 AND (v.version = u.version OR `+boundSQL+`)
		  AND (strpos(v.source, $1) > 0 OR strpos(v.source, '\') > 0)`, tenant)
	return slices.ContainsFunc(list, func(origin string) bool { return origin != verifies || u.origin != verifies }), err
}

// boundSQL: commands without a settled outcome were accepted under this version. Each
// part has an index of its own.
const boundSQL = `(
	EXISTS (SELECT FROM commands c WHERE c.upstream_id = u.id AND c.profile_version = v.version AND c.next_attempt_at IS NOT NULL)
	OR EXISTS (SELECT FROM commands c WHERE c.upstream_id = u.id AND c.profile_version = v.version AND c.phase IS NOT NULL)
	OR EXISTS (SELECT FROM attempts a WHERE a.upstream_id = u.id AND a.profile_version = v.version AND a.ended_at IS NULL))`

// origins reads the sources of a query and lists to which origins they send a
// secret.
func origins(ctx context.Context, tx pgx.Tx, reference, query string, arg any) ([]string, error) {
	rows, err := tx.Query(ctx, query, reference, arg)
	if err != nil {
		return nil, fmt.Errorf("find uses of a credential: %w", err)
	}
	sources, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("find uses of a credential: %w", err)
	}
	var list []string
	for _, source := range sources {
		for _, u := range usesIn([]byte(source)) {
			if u.reference == reference && !slices.Contains(list, u.origin) {
				list = append(list, u.origin)
			}
		}
	}
	return list, nil
}

// usesIn reads of a stored profile only where its secrets go. One that cannot be
// read sends nothing.
func usesIn(source []byte) []use {
	doc := newDocument("stored", source)
	if !doc.load(source) {
		return nil
	}
	r := &reader{doc: doc, stored: true}
	m := doc.mappingOf(doc.root, "", position{1, 1})
	e := r.egress(m.mapping("egress"))
	base := r.base(m, e)
	if base == nil {
		return nil
	}
	var n *Notices
	if m.has("notices") {
		n = &Notices{Signature: r.signature(m.mapping("notices").mapping("verify"))}
	}
	return uses(r.auth(m.mapping("auth"), e), r.tls(m.mapping("tls")), n, base)
}
