package commands

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"executor/internal/bodyfiles"
	"executor/outcome"
	"executor/upstreams"
)

// bodyKind is how the body may be sent again. The weakest part decides.
func (s Submission) bodyKind() outcome.Body {
	switch {
	case s.OneShot:
		return outcome.BodyOneShot
	case s.hasFiles():
		return outcome.BodyReopenable
	default:
		return outcome.BodyReplayable
	}
}

func (s Submission) hasFiles() bool {
	return s.BodyFile != nil || slices.ContainsFunc(s.Parts, func(p upstreams.Part) bool { return p.File != nil })
}

// Submission is what a caller asks for.
type Submission struct {
	Tenant      string
	Key         string
	Upstream    string
	Operation   string
	Params      map[string]string
	Query       map[string]string
	Headers     map[string]string
	Body        []byte // sent byte for byte
	HasBody     bool
	BodyFile    *bodyfiles.File  // instead of Body: below the tenant's folder
	Parts       []upstreams.Part // instead of Body, of a multipart body
	OneShot     bool             // the body stays in the memory of this process
	ContentType string           // of a body given as raw bytes; "" takes the operation's
	Deadline    *time.Time
	Timeout     time.Duration // 0 takes the profile's deadline
	NotBefore   *time.Time
	Priority    Priority // "" is normal
	Metadata    map[string]string
	Actor       string // the API key's name
}

// Accepted is the answer to a submission.
type Accepted struct {
	Command  Command
	Replayed bool // the key was known and the request the same
}

// BatchResult is one item's answer; exactly one of its fields is set.
type BatchResult struct {
	Accepted *Accepted
	Err      error
}

// Preview is what a submission would send, without accepting it.
type Preview struct {
	Method         string
	URL            string
	Headers        []upstreams.Header
	Body           []byte             // without the files
	Files          []bodyfiles.Placed // sent within it
	BodyKind       outcome.Body
	ContentType    string
	Deadline       time.Time
	ProfileVersion int
	Identity       upstreams.Identity
	Existing       *Command // the key is already bound
}

// CancelResult says what a cancel achieved.
type CancelResult string

const (
	CancelCancelled CancelResult = "cancelled" // nothing crossed: it ended in this request
	CancelRequested CancelResult = "requested" // an attempt is on the wire: its evidence decides
	CancelTooLate   CancelResult = "too_late"  // it was over before, or its last answer had decided it
	CancelInDoubt   CancelResult = "in_doubt"  // something possibly crossed: unresolved, no further attempts
)

// Starter runs first attempts in the accepting process, so that a command that
// can be sent at once needs no hop through the queue. A command claimed under
// a live lease is looked after by its owner; when the lease lapses any other
// process takes it over.
type Starter interface {
	// Claim reserves room for one first attempt at the upstream. ok is false
	// where the process does not send or has no room; the queue takes it then.
	Claim(upstreamID int64) (epoch int64, ok bool)
	// Launch begins what was claimed, after its acceptance was committed.
	Launch(c Prepared)
	// Unclaim gives the room back: the submission was refused or is unknown.
	Unclaim(upstreamID int64)
	// Hold keeps the body of a one-shot command, before its row is written. ok is
	// false where the process does not send or has no room for more of the tenant's. The epoch is that of the
	// lease under which the process alone may start the command.
	Hold(id uuid.UUID, tenant string, body []byte) (epoch int64, ok bool)
	// Keep starts what is held and was not claimed, when it is due.
	Keep(c Prepared)
	// Settle says what became of what is held: it was accepted, or it was not. What
	// is unknown is not settled.
	Settle(id uuid.UUID, accepted bool)
}

// Announcer writes what an outcome owes to others, its webhook deliveries, in
// the transaction that moves the state.
type Announcer interface {
	Announce(ctx context.Context, tx Tx, events []OutcomeEvent) error
}
