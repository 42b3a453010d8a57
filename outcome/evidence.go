package outcome

// Evidence is what was observed of sending a request and receiving its
// response. It says nothing about what the upstream did.
type Evidence string

const (
	EvidenceNotSent          Evidence = "not_sent"          // proven: nothing reached the upstream
	EvidenceSentNoResponse   Evidence = "sent_no_response"  // some of it may have; no final headers came back
	EvidenceResponseReceived Evidence = "response_received" // final headers, and the body to its end or to our size limit
	EvidencePartialResponse  Evidence = "partial_response"  // final headers and part of the body
)

// Evidences lists every kind of evidence.
func Evidences() []Evidence {
	return []Evidence{EvidenceNotSent, EvidenceSentNoResponse, EvidenceResponseReceived, EvidencePartialResponse}
}

// ParseEvidence returns the evidence of that name. The zero Evidence is not valid.
func ParseEvidence(s string) (Evidence, error) { return parse("evidence", s, Evidences()) }

// HasStatus reports whether final response headers arrived.
func (e Evidence) HasStatus() bool {
	return e == EvidenceResponseReceived || e == EvidencePartialResponse
}

// Stage is how far an attempt got.
type Stage string

const (
	StageAdmission Stage = "admission" // checked against the profile, credentials fetched
	StagePermit    Stage = "permit"    // waiting for a place among the requests in flight
	StageDNS       Stage = "dns"
	StageConnect   Stage = "connect"
	StageTLS       Stage = "tls"
	StageWrite     Stage = "write"   // handing over the request
	StageHeaders   Stage = "headers" // waiting for final response headers
	StageBody      Stage = "body"    // reading the response body
	StageDone      Stage = "done"
)

// Stages lists the stages in the order in which an attempt passes them.
func Stages() []Stage {
	return []Stage{StageAdmission, StagePermit, StageDNS, StageConnect, StageTLS, StageWrite, StageHeaders, StageBody, StageDone}
}

// Category is what went wrong with an attempt, if anything did.
type Category string

const (
	CategoryNone               Category = "none"
	CategoryProfileRejected    Category = "profile_rejected"    // permanent: the profile forbids this request
	CategoryRequestInvalid     Category = "request_invalid"     // permanent: no valid request can be made of it
	CategoryAddressForbidden   Category = "address_forbidden"   // permanent: the host resolves to an address we do not dial
	CategoryCertificateInvalid Category = "certificate_invalid" // permanent: the upstream did not prove who it is
	CategoryPermitTimeout      Category = "permit_timeout"
	CategoryPoolTimeout        Category = "pool_timeout"
	CategoryDNSFailure         Category = "dns_failure"
	CategoryConnectRefused     Category = "connect_refused"
	CategoryConnectTimeout     Category = "connect_timeout"
	CategoryConnectFailure     Category = "connect_failure"
	CategoryTLSFailure         Category = "tls_failure"
	CategoryRefusedStream      Category = "refused_stream"
	CategoryWriteFailure       Category = "write_failure"
	CategoryHeaderTimeout      Category = "header_timeout"
	CategoryConnectionReset    Category = "connection_reset"
	CategoryBodyTimeout        Category = "body_timeout"
	CategoryBodyTruncated      Category = "body_truncated"
	CategoryBodyUndecodable    Category = "body_undecodable"
	CategoryAttemptTimeout     Category = "attempt_timeout" // the attempt as a whole ran out of time
	CategoryExecutorLost       Category = "executor_lost"   // our own process died or lost its lease
	CategoryAuthFailure        Category = "auth_failure"    // no credential could be had
)

// Categories lists every failure category.
func Categories() []Category {
	return []Category{
		CategoryNone, CategoryProfileRejected, CategoryRequestInvalid, CategoryAddressForbidden, CategoryCertificateInvalid,
		CategoryPermitTimeout, CategoryPoolTimeout, CategoryDNSFailure, CategoryConnectRefused, CategoryConnectTimeout,
		CategoryConnectFailure, CategoryTLSFailure, CategoryRefusedStream, CategoryWriteFailure, CategoryHeaderTimeout,
		CategoryConnectionReset, CategoryBodyTimeout, CategoryBodyTruncated, CategoryBodyUndecodable, CategoryAttemptTimeout,
		CategoryExecutorLost, CategoryAuthFailure,
	}
}

// Permanent reports whether another attempt would fail in the same way, so that
// none is made.
func (c Category) Permanent() bool {
	switch c {
	case CategoryProfileRejected, CategoryRequestInvalid, CategoryAddressForbidden, CategoryCertificateInvalid:
		return true
	default:
		return false
	}
}
