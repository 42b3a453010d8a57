package upstreams

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"executor/outcome"
)

// maxLink bounds the path and query of a link, in bytes.
const maxLink = 4 << 10

// linkHeaders are where a pending answer says where its state can be seen, most
// specific first: Azure's two, then RFC 9110's.
var linkHeaders = []string{"Operation-Location", "Azure-Asyncoperation", "Location"}

// readLink finds where the state of what is pending can be seen: by the rule
// that matched, else by the profile's result.link, else in the usual headers. What
// is unclear has a link only where its rule names one: a conflict that says with
// what, for instance.
// What leads to another origin is left out: it would be asked with the
// upstream's credential.
func (w *judging) readLink() {
	for _, candidate := range w.links() {
		link, err := w.operation.profile.link(w.response.Target, candidate.url)
		if err != nil {
			w.note(candidate.from + ": " + err.Error() + ", left out")
			continue
		}
		w.Link = link
		return
	}
}

// candidate is a link as it was given, and where.
type candidate struct{ from, url string }

func (w *judging) links() []candidate {
	var list []candidate
	for _, e := range []*Expression{w.rule.Link, w.operation.Result.Link} {
		if url := w.evaluate("link", e); url != "" {
			list = append(list, candidate{"link", url})
		}
		if w.Answer == outcome.AnswerUnclear {
			return list
		}
	}
	for _, name := range linkHeaders {
		if url := w.response.Headers.Get(name); url != "" {
			list = append(list, candidate{name, url})
		}
	}
	return list
}

// link resolves a link that an answer gave to the request for target, and gives
// its path and query if it stays on the origin of base_url.
func (p *Profile) link(target, raw string) (string, error) {
	request := *p.Base
	if t, err := url.ParseRequestURI(target); err == nil {
		request.Path, request.RawPath, request.RawQuery = t.Path, t.RawPath, t.RawQuery
	}
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil || u.Opaque != "" || strings.ContainsAny(raw, "\\") {
		return "", errors.New("is not a link")
	}
	u = request.ResolveReference(u)
	switch {
	case u.User != nil:
		return "", errors.New("holds a user name")
	case !sameOrigin(u, p.Base):
		return "", fmt.Errorf("leads to another origin than base_url (%s)", clip(u.Scheme+"://"+u.Host, 100))
	}
	found := u.EscapedPath()
	if u.RawQuery != "" {
		found += "?" + escapeOdd(u.RawQuery)
	}
	if found == "" || found[0] == '?' {
		found = "/" + found
	}
	if !isTarget(found) {
		return "", fmt.Errorf("is longer than %d bytes, or no path", maxLink)
	}
	return found, nil
}

// sameOrigin compares scheme, host and port (RFC 6454, section 4).
func sameOrigin(a, b *url.URL) bool {
	return strings.EqualFold(a.Scheme, b.Scheme) && strings.EqualFold(a.Hostname(), b.Hostname()) && portOf(a) == portOf(b)
}

func portOf(u *url.URL) string {
	switch port := u.Port(); {
	case port != "":
		return port
	case strings.EqualFold(u.Scheme, "https"):
		return "443"
	default:
		return "80"
	}
}

// escapeOdd escapes what may not stand in a request line.
func escapeOdd(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if c := s[i]; c <= ' ' || c > '~' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// isTarget says whether text can stand as path and query in a request line, and
// leads nowhere but to that path.
func isTarget(s string) bool {
	if len(s) > maxLink || !strings.HasPrefix(s, "/") || strings.HasPrefix(s, "//") || strings.ContainsAny(s, `\#`) {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}
