package upstreams

import "time"

// Notices is how the upstream tells us of outcomes by itself.
type Notices struct {
	Signature Signature
	EventID   *Expression
	Command   *Expression // gives the key, or an object with key, reference or id
	Findings  []FindingRule
	Weight    string // conclusive or hint
}

// What a notice counts for.
const (
	WeightConclusive = "conclusive" // as much as a lookup
	WeightHint       = "hint"       // it is a reason to look
)

// Signature is how a notice proves where it comes from.
type Signature struct {
	Scheme          string   // standard-webhooks or hmac-sha256
	Header          string   // hmac-sha256: that carries the signature
	TimestampHeader string   // hmac-sha256: that carries the time, which is signed before the body; "" = none
	Secrets         []string // references; any of them may have signed
	Tolerance       time.Duration
}

// Schemes of signatures.
const (
	SchemeStandardWebhooks = "standard-webhooks"
	SchemeHMAC             = "hmac-sha256"
)

const maxSecrets = 5
