package attempts

import (
	"time"

	"github.com/google/uuid"

	"executor/commands"
	"executor/outcome"
)

// Start asks to begin an attempt: everything that must stand on record before
// the first byte leaves.
type Start struct {
	CommandID     uuid.UUID
	After         int    // attempts on record when the command was read: what is sent was made for the next one
	Request       string // json: method, url and headers as sent, redacted
	BytesTotal    int64
	BodySHA256    []byte
	RefreshedAuth bool          // a credential was fetched anew for it after a 401
	Total         time.Duration // the longest the exchange may take
}

// Begun is a committed open attempt: the permission to send, once.
type Begun struct {
	Command   commands.Locked
	Number    int
	Epoch     int64
	StartedAt time.Time // of the database
	Opened    time.Time // monotonic, taken before the transaction
	SendBy    time.Time // monotonic: no first byte after it
	SendWall  time.Time // the same by the wall clock
	Deadline  time.Duration
}

// Refusal says why an attempt was not begun. Nothing was sent and nothing
// changed, but where the command was closed or its wait prolonged.
type Refusal struct {
	Why   string
	Again time.Duration // when to ask again; 0 is never: the row has moved on
}

func (r *Refusal) Error() string { return "attempt not begun: " + r.Why }

// Report is how an attempt ended.
type Report struct {
	CommandID uuid.UUID
	Number    int   // 0: it never began, and its row is written with its end
	Epoch     int64 // the lease it was begun under: the fence
	Elapsed   time.Duration
	Start     Start // of an attempt that never began
	After     int   // of one that never began: how many attempts came before it; -1 is not known
	Lost      bool  // its process is gone: it may be under way until its latest end
	Ending
}

// bare is the report without what came from outside.
func (r Report) bare() Report {
	e := r.Ending
	r.Ending = Ending{
		Evidence: e.Evidence, Stage: e.Stage, Category: e.Category, Answer: e.Answer, Status: e.Status, RefreshedAuth: e.RefreshedAuth,
		BytesHandedOver: e.BytesHandedOver, Truncated: e.Truncated, ResponseBytes: e.ResponseBytes, Reused: e.Reused,
		Notes: []string{"the database refused what was seen besides"},
	}
	r.Start.Request, r.Start.BodySHA256 = `{}`, []byte{}
	return r
}

// Ending is what is kept of an attempt's end.
type Ending struct {
	Evidence        outcome.Evidence
	Stage           outcome.Stage
	Category        outcome.Category
	Detail          string
	Answer          outcome.Answer
	Status          int
	RetryAfter      string
	RefreshedAuth   bool
	Reference       string
	Link            string // where the upstream shows what becomes of what it accepted
	Code            string
	Message         string
	BytesHandedOver int64
	ResponseHeaders *string // json
	ResponseBody    []byte
	Truncated       bool
	ResponseSHA256  []byte
	ResponseBytes   int64
	Addresses       *string // json
	Timings         *string // json
	Remote          string
	Protocol        string
	Reused          bool
	Notes           []string
}

// Finished is what became of the command.
type Finished struct {
	Number   int
	Decision outcome.Decision
	State    outcome.State
	RetryIn  time.Duration // to the next attempt, where there is one
	Priority commands.Priority
}
