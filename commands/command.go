package commands

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/google/uuid"

	"executor/outcome"
	"executor/upstreams"
)

// Command is one intent of a caller, bound for good to (tenant, key). It is
// stored before anything is sent and ends in exactly one final state, however
// often a process dies on the way.
type Command struct {
	ID              uuid.UUID
	Tenant          string
	Key             string // idempotency key, the same on every attempt
	UpstreamID      int64
	Upstream        string
	Operation       string
	ProfileVersion  int
	BodyKind        outcome.Body // how often its body can be sent
	State           outcome.State
	Version         int // grows with every change a reader can see; the ETag
	Sequence        int // grows with every outcome
	Priority        Priority
	CreatedAt       time.Time
	Deadline        time.Time // no attempt starts after it
	NotBefore       *time.Time
	NextAttemptAt   *time.Time // pending only
	FinalizedAt     *time.Time
	CancelRequested bool
	Attempts        int
	Outcome         *Outcome
	Record          Record
	Waiting         *Waiting
	Reconciliation  *Reconciliation
	Metadata        map[string]string
}

// Final reports whether the caller has an answer. It is false again while a
// resend is under way.
func (c Command) Final() bool { return c.State.Final() }

// Outcome is what the caller was told: the newest one, kept while a resend is
// under way.
type Outcome struct {
	State          outcome.State
	Reason         outcome.OutcomeReason // what is known of the remote side
	StoppedBy      outcome.Reason        // why we stopped: local effort
	WaitedFor      WaitFor               // stopped by the deadline: what held it back until then, where that is on record
	DecidedBy      outcome.DecidedBy
	DecidedAt      time.Time
	Sequence       int
	SafeToResubmit bool // with a NEW key
	NextAction     outcome.NextAction
	Result         *Result    // success only
	Rejection      *Rejection // rejected only
}

// Result is what the upstream gave for a success.
type Result struct {
	Status      int
	Reference   string
	Headers     http.Header
	Body        []byte // raw, cut at the profile's stored_response_bytes
	ContentType string
	Incomplete  bool // confirmed, but the body was lost or cut
}

// Rejection is the upstream's bounded reason for a refusal.
type Rejection struct {
	Status  int
	Code    string
	Message string
}

// Record is the decision record of the command as a whole.
type Record struct {
	outcome.Record
	Identity upstreams.Identity // where the key goes, and the key as sent
}

// WaitFor is what a pending command waits for.
type WaitFor string

const (
	WaitBackoff    WaitFor = "backoff"     // the pause between two attempts
	WaitPermit     WaitFor = "permit"      // a free place among the upstream's attempts
	WaitRate       WaitFor = "rate"        // the upstream's rate limit
	WaitRetryToken WaitFor = "retry_token" // the upstream's retry budget
	WaitThrottle   WaitFor = "throttle"    // the upstream said when to come back
	WaitPaused     WaitFor = "paused"      // a person paused the upstream
	WaitFrozen     WaitFor = "frozen"      // the deployment sends nothing
	WaitCredential WaitFor = "credential"  // a secret that the profile names is missing
	WaitFile       WaitFor = "file"        // a file of the body cannot be read now
	WaitNotBefore  WaitFor = "not_before"  // the caller's own wish
)

// Waiting tells what a pending command waits for. Until is nil where nobody
// can say; only the deadline ends that wait for certain.
type Waiting struct {
	For   WaitFor
	Until *time.Time
}

// Reconciliation is where an unresolved command stands.
type Reconciliation struct {
	Phase        string // lookup | review | closed
	Lookups      int
	NextLookupAt *time.Time
	AbsentInARow int
	Conflicts    int    // evidence against the settled state that no person has looked at
	Assignee     string // who has taken it on
}

// Priority orders the commands of one upstream that wait for a permit.
type Priority string

const (
	PriorityHigh   Priority = "high"
	PriorityNormal Priority = "normal"
	PriorityLow    Priority = "low"
)

// Priorities lists them, the most urgent first: the place in the list is the
// number in the table and River's priority.
func Priorities() []Priority { return []Priority{PriorityHigh, PriorityNormal, PriorityLow} }

// Event is one line of a command's account. Outcome events carry the id and
// the sequence that every webhook of it carries.
type Event struct {
	ID       uuid.UUID
	Number   int
	Type     string
	At       time.Time
	Sequence int
	Actor    string
	Data     json.RawMessage
}

// Attempt is one request on the wire, or one that provably never got there, as
// it stands on record. Evidence is empty while it is open.
type Attempt struct {
	Number            int
	Epoch             int64
	Instance          string
	ProfileVersion    int
	StartedAt         time.Time
	SendDeadline      time.Time
	LatestEnd         time.Time
	EndedAt           *time.Time
	Evidence          outcome.Evidence
	Stage             outcome.Stage
	Category          outcome.Category
	Detail            string
	Answer            outcome.Answer
	Status            int
	Boundary          outcome.Boundary
	SettledBy         string
	Rule              int
	Decision          outcome.Verdict
	Reason            outcome.Reason
	WaitMS            *int64
	RetryAt           *time.Time
	RefreshedAuth     bool
	Request           AttemptRequest
	BytesTotal        int64
	BytesHandedOver   int64
	BodySHA256        []byte
	ResponseHeaders   http.Header
	ResponseBody      []byte
	ResponseTruncated bool
	ResponseSHA256    []byte
	ResponseBytes     int64
	Reference         string
	RejectionCode     string
	RejectionMessage  string
	Addresses         []Address
	Timings           map[string]float64 // milliseconds by stage
	Remote            string
	Protocol          string
	Reused            bool
	DeadlineLeftMS    int64
	BudgetTokens      float64
	Notes             []string
}

// AttemptRequest is the request of an attempt, redacted as the profile says.
type AttemptRequest struct {
	Method  string             `json:"method"`
	URL     string             `json:"url"`
	Headers []upstreams.Header `json:"headers"`
}

// Address is one address that was tried, with its own failure ("" category
// means it was the one used).
type Address struct {
	Address  string           `json:"address"`
	Category outcome.Category `json:"category"`
	Detail   string           `json:"detail"`
}
