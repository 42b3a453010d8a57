// Package upstreams knows the remote services: profiles that say how each one
// behaves, how a command becomes a request, and what a response means.
//
// A profile is a YAML file, checked as a whole by Parse, kept in the database as
// numbered versions by Store. An Operation of it renders requests (Render) and
// judges responses (Judge); Explain shows what each kind of failure would end in.
package upstreams

import (
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
	Proxy string // http:// or https:// URL of a CONNECT proxy; "" = none
}

// TLS names files: absolute paths, or file:NAME under the secrets directory.
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
}

// Rate is a token bucket of requests.
type Rate struct {
	PerSecond float64
	Burst     int
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

// Operation is one kind of call. It is safe for concurrent use.
type Operation struct {
	Name          string
	Method        string
	Path          string       // template: {name} is a parameter of the command
	Query         []QueryParam // templates too
	Body          string       // json, form, raw or none
	CallerHeaders []string     // canonical names that a caller may set
	CallerQuery   []string
	Timeouts      Timeouts // merged with the profile's
	Retry         Retry    // merged with the profile's
	Idempotency   Idempotency
	Answers       []Rule
	Result        Result
	Rejection     Rejection
	Lookups       []Lookup // tried in order; none = a person has to look
	Redaction     Redaction

	profile *Profile
	path    template
	query   []queryTemplate
}

// How an operation's body is encoded.
const (
	BodyJSON = "json"
	BodyForm = "form"
	BodyRaw  = "raw"
	BodyNone = "none"
)

// QueryParam is one query parameter of every request.
type QueryParam struct{ Name, Value string }

// Idempotency is what the upstream promises about repeats.
type Idempotency struct {
	Kind                  outcome.Idempotency
	Key                   Key           // keyed only
	Retention             time.Duration // how long a key is remembered; 0 = unknown
	Margin                time.Duration
	Preserves             string // first_outcome or success
	FailuresLeaveNoEffect bool
	AuthoritativeRefusals []int
	StoresErrors          bool
	RetryHeaders          []Header // on attempts after the first
}

// What an upstream stores under a key.
const (
	PreservesFirstOutcome = "first_outcome"
	PreservesSuccess      = "success"
)

// Key is where the idempotency key goes.
type Key struct {
	In        string `json:"in"`         // header, query or body
	Name      string `json:"name"`       // header or query name, or a JSON pointer
	From      string `json:"from"`       // caller_key or command_id
	MaxLength int    `json:"max_length"` // characters
}

// Places of a Key and where it comes from.
const (
	KeyInHeader      = "header"
	KeyInQuery       = "query"
	KeyInBody        = "body"
	KeyFromCaller    = "caller_key"
	KeyFromCommandID = "command_id"
)

// Rule says what a response means if its condition holds.
type Rule struct {
	When      *Expression
	Answer    outcome.Answer
	Reference *Expression // nil = the operation's
}

// Result says what to keep of an applied answer.
type Result struct {
	Reference *Expression
	Headers   []string
	Require   []*Expression // all have to hold for a 2xx to count as applied
}

// Rejection says where a refusal names its reason.
type Rejection struct{ Code, Message *Expression }

// Lookup is a read-only question: what became of this command?
type Lookup struct {
	Method   string
	Path     string
	Query    []QueryParam
	Replay   bool // ask by sending the command again, with the same key and bytes
	Compare  []*Expression
	Findings []FindingRule
	Schedule Schedule
	Absence  Absence
}

// FindingRule says what the answer to a lookup means if its condition holds.
type FindingRule struct {
	When      *Expression
	Finding   string // applied, refused, pending or absent
	Reference *Expression
}

// Findings of a lookup or a notice.
const (
	FindingApplied = "applied"
	FindingRefused = "refused"
	FindingPending = "pending"
	FindingAbsent  = "absent"
)

// Schedule is when lookups are made.
type Schedule struct {
	FirstAfter  time.Duration
	Factor      float64
	MaxInterval time.Duration
	GiveUpAfter time.Duration
}

// Absence is when "not found" proves something. SettlesAfter 0 = never.
type Absence struct {
	SettlesAfter  time.Duration
	Confirmations int
	Spacing       time.Duration
	Then          string // cancel, resend or review
}

// Redaction names what is never stored in clear nor shown.
type Redaction struct {
	Headers  []string
	Request  []string // JSON pointers
	Response []string // JSON pointers
}

// Notices is how the upstream tells us of outcomes by itself.
type Notices struct {
	Verify   Verify
	EventID  *Expression
	Command  *Expression // gives the key, or an object with key, reference or id
	Findings []FindingRule
	Weight   string // conclusive or hint
}

// Verify is how a notice proves where it comes from.
type Verify struct {
	Scheme    string // standard-webhooks or hmac-sha256
	Header    string
	Secret    string // a reference
	Tolerance time.Duration
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

// Contract is what decisions about the operation rest on. A key under which the
// upstream stores only successes counts for nothing, unless its failures are known
// to leave no effect: the lost answer may have been a failure that acted.
func (o *Operation) Contract() outcome.Operation {
	i := o.Idempotency
	contract := outcome.Operation{
		Idempotency:    i.Kind,
		HasLookup:      len(o.Lookups) > 0,
		CanRefreshAuth: o.profile.Auth.Type == AuthOAuth2,
	}
	if i.Kind != outcome.IdempotencyKeyed {
		return contract
	}
	if i.Preserves == PreservesSuccess && !i.FailuresLeaveNoEffect {
		contract.Idempotency = outcome.IdempotencyNone
	}
	contract.Retention = i.Retention
	contract.RetentionMargin = i.Margin
	contract.AuthoritativeRefusals = i.AuthoritativeRefusals
	contract.StoresErrors = i.StoresErrors
	return contract
}

// Policy is the operation's policy for further attempts.
func (o *Operation) Policy() outcome.Retry { return o.Retry.Retry }

// FreshConnection says whether each attempt opens its own connection. An
// operation that is not safe to repeat always does, so that a connection gone
// stale cannot make it ambiguous.
func (o *Operation) FreshConnection() bool {
	return o.profile.Connection.Fresh == "always" || o.Contract().Idempotency == outcome.IdempotencyNone
}

// RetryHeaders are added to attempts after the first.
func (o *Operation) RetryHeaders() []Header { return slices.Clone(o.Idempotency.RetryHeaders) }
