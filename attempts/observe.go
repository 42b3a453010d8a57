package attempts

import (
	"net/http"
	"time"

	"executor/internal/egress"
	"executor/outcome"
	"executor/upstreams"
)

// Observation is what one attempt saw of sending a request and receiving its
// response: the transport axis alone, nothing about what the upstream did.
type Observation struct {
	Evidence outcome.Evidence
	Stage    outcome.Stage    // the one it reached
	Category outcome.Category // what went wrong, or none
	// Detail says it for people: bounded, without bytes of the upstream.
	Detail string

	Status int         // 0 without final headers
	Header http.Header // with status 0 at most the Retry-After of a token endpoint
	// Body is decoded and at most Limits.ResponseBytes long; it is what came,
	// undecoded, if BodyUndecodable.
	Body            []byte
	BodyComplete    bool   // whole by its own framing, and readable
	BodyUndecodable bool   // its Content-Encoding is unknown or broken
	BodyBytes       int64  // as received, before decoding
	BodySHA256      []byte // of those bytes
	Truncated       bool   // our own cap cut it, before or after decoding
	HeaderTruncated bool   // the heads were larger than Limits.HeaderBytes

	BytesTotal      int64 // of the request, head and body
	BytesHandedOver int64 // of it to the network, sealed
	// EarlyResponse: the final response began before the whole request was
	// handed over, so it cannot be an answer to all of it.
	EarlyResponse bool

	Reused    bool   // the connection had carried a request before
	Remote    string // address of the peer, the proxy's if there is one
	Protocol  string
	Addresses []AddressFailure
	Timings   Timings
	Interim   int // 1xx responses before the final one
	Notes     []string
}

// AddressFailure is why one address of the host was not used.
type AddressFailure struct {
	Address  string
	Category outcome.Category
	Detail   string
}

// Timings are the lengths of the stages; zero for one that was not entered.
type Timings struct {
	DNS, Connect, TLS    time.Duration
	Write, Headers, Body time.Duration
}

// Milliseconds names the stages that took place.
func (t Timings) Milliseconds() map[string]float64 {
	ms := map[string]float64{}
	for name, d := range map[string]time.Duration{
		"dns": t.DNS, "connect": t.Connect, "tls": t.TLS, "write": t.Write, "headers": t.Headers, "body": t.Body,
	} {
		if d > 0 {
			ms[name] = float64(d) / float64(time.Millisecond)
		}
	}
	return ms
}

// Response is what the profile judges; false if there was none. A body that is
// cut, broken off or unreadable is not complete. inDoubt says that an attempt before
// it may have acted.
func (o Observation) Response(attempt int, inDoubt bool) (upstreams.Response, bool) {
	if o.Status == 0 {
		return upstreams.Response{}, false
	}
	return upstreams.Response{
		Status: o.Status, Headers: o.Header, Body: o.Body, BodyComplete: o.BodyComplete, Attempt: attempt, InDoubt: inDoubt,
	}, true
}

// InvalidRequest is the evidence of a request that Encode refused.
func InvalidRequest(err error) Observation {
	return notSent(outcome.StageAdmission, outcome.CategoryRequestInvalid, err.Error())
}

func notSent(stage outcome.Stage, category outcome.Category, detail string) Observation {
	return Observation{Evidence: outcome.EvidenceNotSent, Stage: stage, Category: category, Detail: egress.Line(detail)}
}
