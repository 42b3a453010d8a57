package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// row is an entry as the table has it; the JSON is text, to be hashed letter by
// letter.
type row struct {
	Tenant                 string
	Number                 int64
	At                     time.Time
	Actor                  string
	Action                 string
	CommandID              *uuid.UUID
	Subject                string
	Reason                 string
	EvidenceReference      string
	Before, After, Details *string
	Format                 int16
	PreviousHash           []byte
	Hash                   []byte
}

// columns are those of row.
const columns = `tenant, number, at, actor, action, command_id, subject, reason, evidence_reference,
	before::text AS before, after::text AS after, details::text AS details, format, previous_hash, hash`

// formatNow is how new entries are encoded. A change of the encoding gets a new
// number, and the old one stays readable.
const formatNow int16 = 1

// beginning is what the first entry of a tenant follows.
func beginning(tenant string) []byte {
	e := encoding{}
	e.text("executor audit")
	e.text(tenant)
	return e.sum()
}

// sum is the hash of the entry: SHA-256 over every field in the order of the
// table, the hash before it among them, each with its length in front.
func (r row) sum() []byte {
	e := encoding{}
	e.text("executor audit entry " + strconv.Itoa(int(r.Format)))
	e.text(r.Tenant)
	e.text(strconv.FormatInt(r.Number, 10))
	e.text(r.At.UTC().Format("2006-01-02T15:04:05.000000Z"))
	e.text(r.Actor)
	e.text(r.Action)
	if r.CommandID == nil {
		e.nothing()
	} else {
		e.text(r.CommandID.String())
	}
	e.text(r.Subject)
	e.text(r.Reason)
	e.text(r.EvidenceReference)
	e.optional(r.Before)
	e.optional(r.After)
	e.optional(r.Details)
	e.bytes(r.PreviousHash)
	return e.sum()
}

// encoding joins fields so that no two lists of fields look the same.
type encoding struct{ bytes.Buffer }

func (e *encoding) bytes(b []byte) {
	e.Write(binary.BigEndian.AppendUint64(nil, uint64(len(b))))
	e.Write(b)
}

func (e *encoding) text(s string) { e.bytes([]byte(s)) }

// nothing is a NULL: no field has this length.
func (e *encoding) nothing() { e.Write(binary.BigEndian.AppendUint64(nil, 1<<63)) }

func (e *encoding) optional(s *string) {
	if s == nil {
		e.nothing()
		return
	}
	e.text(*s)
}

func (e *encoding) sum() []byte {
	sum := sha256.Sum256(e.Bytes())
	return sum[:]
}

// recorded is the entry as readers get it.
func (r row) recorded() Recorded {
	raw := func(text *string) json.RawMessage {
		if text == nil {
			return nil
		}
		return json.RawMessage(*text)
	}
	return Recorded{
		Tenant: r.Tenant, Number: r.Number, At: r.At, Actor: r.Actor, Action: r.Action, Command: r.CommandID, Subject: r.Subject,
		Reason: r.Reason, EvidenceReference: r.EvidenceReference, Before: raw(r.Before), After: raw(r.After), Details: raw(r.Details),
		PreviousHash: r.PreviousHash, Hash: r.Hash,
	}
}
