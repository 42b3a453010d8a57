package upstreams

import (
	"regexp"
	"slices"
	"strings"
)

var (
	envReference  = regexp.MustCompile(`^env:EXECUTOR_SECRET_[A-Z0-9_]{1,100}$`)
	fileReference = regexp.MustCompile(`^file:[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$`)
)

const referenceHelp = "Write env:EXECUTOR_SECRET_NAME, or file:NAME for a file under EXECUTOR_SECRETS_DIR."

// isReference says whether text names a secret.
func isReference(s string) bool { return envReference.MatchString(s) || fileReference.MatchString(s) }

// secret reads a member that has to be a reference. What stands there instead is
// never repeated: it may be the secret itself.
func (m *mapping) secret(name string) string {
	found, ok := m.get(name)
	if !ok {
		m.missing(name, referenceHelp)
		return ""
	}
	s, _ := textNode(found.value)
	if isReference(s) {
		return s
	}
	message, help := "is a secret in clear, which a profile may not hold", referenceHelp+" If it was real, replace it: it stood in a file."
	switch {
	case strings.HasPrefix(s, "env:"):
		message, help = "names a variable outside EXECUTOR_SECRET_*", referenceHelp
	case strings.HasPrefix(s, "file:"):
		message, help = "has to be a file name without a path", referenceHelp
	}
	m.doc.problem(found.key, m.join(name), message, help) // the key's place: the value may stand on a line of its own
	return ""
}

// identity reads a user name or client id: as it is, or a reference.
func (m *mapping) identity(name string) string {
	s := m.required(name, "")
	if m.has(name) && (s == "" || !printableASCII(s) || len(s) > 500) {
		m.fail(name, "has to be 1 to 500 printable ASCII characters", "")
	}
	return s
}

func (r *reader) auth(m *mapping, e Egress) Auth {
	a := Auth{Type: m.choice("type", AuthNone, AuthNone, AuthBearer, AuthBasic, AuthHeader, AuthOAuth2)}
	switch a.Type {
	case AuthBearer:
		a.Token = m.secret("token")
	case AuthBasic:
		a.Username, a.Password = m.identity("username"), m.secret("password")
	case AuthHeader:
		a.Name, a.Value = m.authHeader(), m.secret("value")
	case AuthOAuth2:
		a.TokenURL = m.required("token_url", "Write the address of the token endpoint.")
		r.address(m, "token_url", a.TokenURL, e)
		a.ClientID, a.ClientSecret = m.identity("client_id"), m.secret("client_secret")
		a.Scopes = m.texts("scopes")
	}
	if a.Type != AuthNone {
		a.Origins = r.origins(m, e)
	}
	m.done()
	return a
}

// authHeader reads the name of the header that carries a secret.
func (m *mapping) authHeader() string {
	name := canonicalHeader(m.required("name", "Name the header that carries the secret, such as X-Api-Key."))
	if m.has("name") && (!headerToken.MatchString(name) || slices.Contains(ownHeaders, name)) {
		m.fail("name", "is not a header that can carry a secret", "")
	}
	return name
}

// headers reads fixed headers, sorted by name.
func (r *reader) headers(m *mapping, name string) []Header {
	var out []Header
	for _, p := range m.pairs(name) {
		canonical := canonicalHeader(p.name)
		switch bad := refuseHeader(canonical); {
		case bad != nil:
			p.failKey(bad.message, bad.help)
		case slices.ContainsFunc(out, func(h Header) bool { return h.Name == canonical }):
			p.failKey("is there twice, in two spellings", "Remove one of them.")
		case !validHeaderValue(p.value):
			p.fail("has a value that cannot go into a header", "Use printable ASCII without spaces at the ends.")
		default:
			out = append(out, Header{canonical, p.value})
		}
	}
	return out
}
