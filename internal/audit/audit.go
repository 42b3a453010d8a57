// Package audit keeps what people did and why. Entries are appended in the
// transaction of the deed and never changed. The entries of a tenant form a
// chain: each carries the hash of the one before it, and the tenant's head
// carries the hash of the last, so that Verify finds what somebody edited or
// removed behind the product's back.
//
// Who can write to the database can also write a whole new chain. Against that
// helps a Pin: a number and hash of the head, noted where the database's owner
// has no access.
package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Entry is one deed, as the package that does it tells it.
type Entry struct {
	Tenant            string
	Actor             string // the person, or the API key's name
	Action            string
	Command           *uuid.UUID // nil if it was done to something else
	Subject           string     // what that is, such as a webhook's id
	Reason            string
	EvidenceReference string // where the person's evidence is kept: a ticket, a statement

	// Encoded as JSON; nil is nothing. Before and After are what the deed changed,
	// Details what it was based on and what was asked for.
	Before, After, Details any
}

// Recorded is an entry as it stands in the chain.
type Recorded struct {
	Tenant                 string
	Number                 int64 // from 1, without gaps
	At                     time.Time
	Actor                  string
	Action                 string
	Command                *uuid.UUID
	Subject                string
	Reason                 string
	EvidenceReference      string
	Before, After, Details json.RawMessage
	PreviousHash           []byte
	Hash                   []byte
}

// String is the entry in one line: what was done to what, by whom and why.
func (r Recorded) String() string {
	on := r.Subject
	if r.Command != nil {
		on = r.Command.String()
	}
	return fmt.Sprintf("%d %s %s by %s: %s", r.Number, r.Action, on, r.Actor, r.Reason)
}

// Record appends an entry in the transaction of the deed. It locks the tenant's
// head until the transaction ends, which orders the entries: it comes last in
// the transaction, after every other lock.
func Record(ctx context.Context, tx pgx.Tx, e Entry) error {
	r, err := e.row()
	if err != nil {
		return fmt.Errorf("record %s in the audit: %w", e.Action, err)
	}
	head, at, err := lockHead(ctx, tx, e.Tenant)
	if err != nil {
		return fmt.Errorf("record %s in the audit: %w", e.Action, err)
	}
	r.Number, r.At, r.PreviousHash = head.Number+1, at, head.Hash
	r.Hash = r.sum()
	if err := insert(ctx, tx, r); err != nil {
		return fmt.Errorf("record %s in the audit: %w", e.Action, err)
	}
	return nil
}

// row is the entry without its place in the chain.
func (e Entry) row() (row, error) {
	r := row{
		Tenant: e.Tenant, Actor: clean(e.Actor), Action: clean(e.Action), CommandID: e.Command, Subject: clean(e.Subject),
		Reason: clean(e.Reason), EvidenceReference: clean(e.EvidenceReference), Format: formatNow,
	}
	for _, part := range []struct {
		value any
		text  **string
	}{{e.Before, &r.Before}, {e.After, &r.After}, {e.Details, &r.Details}} {
		if part.value == nil {
			continue
		}
		data, err := json.Marshal(part.value)
		if err != nil {
			return row{}, err
		}
		*part.text = new(string(data))
	}
	return r, nil
}

// clean makes any text fit for a text column: a deed must not fail for it.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "�"), "\x00", "�")
}

// lockHead gives the tenant's last entry, or the beginning of its chain, and a
// moment at which no other entry of the tenant can be under way.
func lockHead(ctx context.Context, tx pgx.Tx, tenant string) (head Pin, at time.Time, err error) {
	head.Tenant = tenant
	batch := &pgx.Batch{}
	batch.Queue(`
		INSERT INTO audit_heads (tenant, number, hash) VALUES ($1, 0, $2)
		ON CONFLICT (tenant) DO NOTHING`, tenant, beginning(tenant))
	batch.Queue(`SELECT number, hash FROM audit_heads WHERE tenant = $1 FOR UPDATE`, tenant).
		QueryRow(func(r pgx.Row) error { return r.Scan(&head.Number, &head.Hash) })
	batch.Queue(`SELECT clock_timestamp()`).
		QueryRow(func(r pgx.Row) error { return r.Scan(&at) })
	return head, at, tx.SendBatch(ctx, batch).Close()
}

func insert(ctx context.Context, tx pgx.Tx, r row) error {
	batch := &pgx.Batch{}
	batch.Queue(`
		INSERT INTO audit (tenant, number, at, actor, action, command_id, subject, reason, evidence_reference,
			before, after, details, format, previous_hash, hash)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`,
		r.Tenant, r.Number, r.At, r.Actor, r.Action, r.CommandID, r.Subject, r.Reason, r.EvidenceReference,
		r.Before, r.After, r.Details, r.Format, r.PreviousHash, r.Hash)
	batch.Queue(`UPDATE audit_heads SET number = $2, hash = $3 WHERE tenant = $1`, r.Tenant, r.Number, r.Hash)
	return tx.SendBatch(ctx, batch).Close()
}
