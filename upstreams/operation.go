package upstreams

import (
	"slices"
	"time"

	"executor/outcome"
)

// Operation is one kind of call. It is safe for concurrent use.
type Operation struct {
	Name          string
	Method        string
	Path          string       // template: {name} is a parameter of the command
	Query         []QueryParam // templates too
	Body          string       // json, form, raw, multipart or none
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
	BodyJSON      = "json"
	BodyForm      = "form"
	BodyRaw       = "raw"
	BodyMultipart = "multipart" // multipart/form-data (RFC 7578)
	BodyNone      = "none"
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
	Link      *Expression // of a pending or unclear answer; nil = the operation's
	// RetryAfter says when to come back, where nothing is settled; nil = the header of
	// that name does.
	RetryAfter *Expression
}

// Result says what to keep of an applied answer.
type Result struct {
	Reference *Expression
	Link      *Expression // where the state of a pending answer can be seen; nil = the usual headers say
	Headers   []string
	Require   []*Expression // all have to hold for a 2xx to count as applied
}

// Rejection says where a refusal names its reason.
type Rejection struct{ Code, Message *Expression }

// Redaction names what is never stored in clear nor shown.
type Redaction struct {
	Headers  []string
	Request  []string // JSON pointers
	Response []string // JSON pointers
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

// AsksDoubt says whether a rule of answers asks for in_doubt.
func (o *Operation) AsksDoubt() bool {
	return slices.ContainsFunc(o.Answers, func(r Rule) bool { return r.When.asksDoubt })
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
