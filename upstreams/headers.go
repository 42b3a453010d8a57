package upstreams

import (
	"net/textproto"
	"regexp"
	"slices"
	"strings"
)

const maxHeaderValue = 8 << 10

var headerToken = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$")

// ownHeaders are made by the executor from other settings, or belong to one
// connection and not to the request (RFC 9110, section 7.6.1).
var ownHeaders = []string{
	"Accept-Encoding", "Connection", "Content-Length", "Content-Type", "Date", "Expect", "Host", "Http2-Settings", "Keep-Alive",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Via", "X-Executor-Hop",
}

// reroutingHeaders make some servers act as if another request had come.
var reroutingHeaders = []string{
	"Forwarded", "X-Http-Method", "X-Http-Method-Override", "X-Method-Override", "X-Original-Url", "X-Real-Ip", "X-Rewrite-Url",
}

var credentialName = regexp.MustCompile(`(?i)^((x-)?authori[sz]ation|cookie2?|set-cookie2?|authentication|.*(api|app|access|auth|private|secret)-?_?key.*|(.*-)?(access|auth|api|id|refresh|bearer|session|security|csrf|amz-security|vault)-?_?token|.*password.*|.*passwd.*|.*secret.*|.*credential.*)$`)

// One of credentialWords is in every name that credentialName matches: looking for it
// first spares most headers the expression, which every response would pay for.
var credentialWords = []string{"uthori", "uthenti", "ookie", "key", "token", "passw", "secret", "credential"}

// isCredentialName reports whether a header of that name carries a credential.
func isCredentialName(name string) bool {
	lower := strings.ToLower(name)
	return slices.ContainsFunc(credentialWords, func(w string) bool { return strings.Contains(lower, w) }) &&
		credentialName.MatchString(name)
}

// refuseHeader says why a header may not be set by a profile's headers or by a
// caller. name has to be canonical. It returns nil if it may.
func refuseHeader(name string) *refusal {
	switch {
	case !headerToken.MatchString(name):
		return &refusal{"is not a header name", ""}
	case slices.Contains(ownHeaders, name) || strings.HasPrefix(name, "Proxy-"):
		return &refusal{"is set by the executor", "Remove it; the content type follows from body."}
	case slices.Contains(reroutingHeaders, name) || strings.HasPrefix(name, "X-Forwarded-"):
		return &refusal{"could make the request pass for another one", "Remove it."}
	case name == "Authorization":
		return &refusal{"is a credential", "Use auth, such as {type: bearer, token: env:EXECUTOR_SECRET_…}."}
	case isCredentialName(name):
		return &refusal{"is a credential", "Use auth, such as {type: header, name: " + name + ", value: env:EXECUTOR_SECRET_…}."}
	default:
		return nil
	}
}

// validHeaderValue allows printable ASCII, spaces and tabs inside.
func validHeaderValue(value string) bool {
	if len(value) > maxHeaderValue || strings.TrimSpace(value) != value {
		return false
	}
	for i := 0; i < len(value); i++ {
		if c := value[i]; (c < ' ' || c > '~') && c != '\t' {
			return false
		}
	}
	return true
}

func canonicalHeader(name string) string { return textproto.CanonicalMIMEHeaderKey(name) }

func compareText(a, b string) int { return strings.Compare(a, b) }

// setHeader replaces a header or adds it at the end.
func setHeader(headers []Header, name, value string) []Header {
	for i := range headers {
		if headers[i].Name == name {
			headers[i].Value = value
			return headers
		}
	}
	return append(headers, Header{name, value})
}
