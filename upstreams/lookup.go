package upstreams

import (
	"time"
)

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
