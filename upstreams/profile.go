// Package upstreams knows the remote services: profiles that say how each one
// behaves, how a command becomes a request, and what a response means.
//
// A profile is a YAML file, checked as a whole by Parse, kept in the database as
// numbered versions by Store. An Operation of it renders requests (Render) and
// judges responses (Judge); what became of a command in doubt it asks (Ask) and
// reads (Find). Notices are what the upstream tells by itself. Explain shows what
// each kind of failure would end in. Access holds what no row does: credentials
// and TLS.
package upstreams

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"executor/outcome"
)

// Profile is one upstream as its file describes it, with every default filled
// in. It never changes after Parse.
type Profile struct {
	Upstream    string
	Description string
	Tenant      string   // the one tenant that may use it
	Base        *url.URL // canonical: lower-case host, no trailing dot or slash, no userinfo, query or fragment
	Auth        Auth
	Headers     []Header // sent with every request
	Egress      Egress
	TLS         TLS
	Connection  Connection
	Timeouts    Timeouts
	Limits      Limits
	Retry       Retry
	Deadline    time.Duration // for commands that state none

	// AnnounceUnresolvedAfter holds back the event of an unresolved outcome; nil
	// means 30 s for pending answers with a lookup, else not at all.
	AnnounceUnresolvedAfter *time.Duration

	// Reconciliation says what becomes of what lookups and notices find: apply, or
	// report_only, which records it and leaves every command as it is.
	Reconciliation string

	Operations map[string]*Operation
	Notices    *Notices // nil = the upstream sends none

	Warnings []Warning
	Source   []byte // as it was parsed
}

// Header is one header of a request.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Auth is how requests are authorised. Secrets are references (env:… or file:…),
// never values.
type Auth struct {
	Type         string // none, bearer, basic, header or oauth2_client_credentials
	Token        string // bearer: a reference
	Username     string // basic: as it is, or a reference
	Password     string // basic: a reference
	Name         string // header: its name
	Value        string // header: a reference
	TokenURL     string // oauth2_client_credentials
	ClientID     string // as it is, or a reference
	ClientSecret string // a reference
	Scopes       []string
	Origins      []string // where the credential may go; none = to base_url's and token_url's, as far as it went there before
}

// Kinds of Auth.
const (
	AuthNone   = "none"
	AuthBearer = "bearer"
	AuthBasic  = "basic"
	AuthHeader = "header"
	AuthOAuth2 = "oauth2_client_credentials"
)

// Egress is what may be dialled besides public addresses.
type Egress struct {
	Allow []netip.Prefix
	Ports []int  // allowed besides 80, 443 and those from 1024 that belong to no other service
	Proxy string // http:// or https:// URL of a CONNECT proxy; "" = none
}

// TLS names files under the secrets directory, as file:NAME; the CA's may be an
// absolute path.
type TLS struct{ CAFile, CertFile, KeyFile, ServerName string }

// Connection says when a new connection is opened.
type Connection struct {
	Fresh string        // auto, always or never
	Idle  time.Duration // a connection idle for longer is not used again
}

// Timeouts bound the stages of one attempt. Total bounds it as a whole.
type Timeouts struct {
	Connect        time.Duration `json:"connect"`
	TLS            time.Duration `json:"tls"`
	ResponseHeader time.Duration `json:"response_header"`
	Total          time.Duration `json:"total"`
}

// Limits hold for the whole deployment, sizes for each response.
type Limits struct {
	MaxInFlight         int
	Rate                *Rate // nil = none
	ResponseBytes       int64 // read at most, before and after decompression
	StoredResponseBytes int64 // kept at most
	HeaderBytes         int64
	Lookups             LookupLimits // beside those of attempts
}

// LookupLimits bound lookups, so that they neither flood the upstream nor take
// the room of attempts.
type LookupLimits struct {
	MaxInFlight int
	Rate        *Rate // never nil after Parse
}

// What becomes of findings.
const (
	ReconciliationApply      = "apply"
	ReconciliationReportOnly = "report_only"
)

// Rate is a token bucket of requests.
type Rate struct {
	PerSecond float64
	Burst     int
}

// String shows the rate.
func (r *Rate) String() string {
	if r == nil {
		return "none"
	}
	return fmt.Sprintf("%v/s, burst %d", r.PerSecond, r.Burst)
}

// Retry is the policy for further attempts.
type Retry struct {
	outcome.Retry
	Budget                 Budget
	ThrottlePausesUpstream bool // a 429 with Retry-After holds back every command of the upstream
}

// Budget is the upstream's bucket of retry tokens.
type Budget struct {
	Ratio          float64 // tokens for each first attempt
	FloorPerSecond float64
	Burst          int // tokens at most, and at the start
	WhenEmpty      outcome.WhenEmpty
}

// Operation gives the operation of that name.
func (p *Profile) Operation(name string) (*Operation, bool) {
	o, ok := p.Operations[name]
	return o, ok
}

// operations lists the operations by name.
func (p *Profile) operations() []*Operation {
	var list []*Operation
	for _, o := range p.Operations {
		list = append(list, o)
	}
	slices.SortFunc(list, func(a, b *Operation) int { return compareText(a.Name, b.Name) })
	return list
}
