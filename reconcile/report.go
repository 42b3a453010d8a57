package reconcile

import (
	"errors"
	"time"

	"github.com/google/uuid"

	"executor/commands"
	"executor/outcome"
)

// ErrReportNotFound: no such settlement report for this tenant.
var ErrReportNotFound = errors.New("settlement report not found")

// ReportFormat is how a report's file is written.
type ReportFormat string

const (
	ReportCSV   ReportFormat = "csv"   // RFC 4180, with a header line
	ReportJSONL ReportFormat = "jsonl" // one JSON object a line
)

// ReportFormats lists them.
func ReportFormats() []ReportFormat { return []ReportFormat{ReportCSV, ReportJSONL} }

// ReportState is where a report stands.
type ReportState string

const (
	ReportUploading ReportState = "uploading" // its lines arrive
	ReportComparing ReportState = "comparing" // they are compared with our commands
	ReportCompared  ReportState = "compared"  // nothing of it was passed on
	ReportApplying  ReportState = "applying"  // what it proves is passed on
	ReportApplied   ReportState = "applied"   // all of that was
	ReportFailed    ReportState = "failed"    // its problem tells why
)

// ReportStates lists them.
func ReportStates() []ReportState {
	return []ReportState{ReportUploading, ReportComparing, ReportCompared, ReportApplying, ReportApplied, ReportFailed}
}

// ReportKind is what the comparison says of a line, or of a command that no line
// is about.
type ReportKind string

const (
	ReportMatched      ReportKind = "matched"       // both sides say the same
	ReportDifferent    ReportKind = "different"     // the state or a compared field differs
	ReportMissingHere  ReportKind = "missing_here"  // the line is about no command of ours
	ReportMissingThere ReportKind = "missing_there" // the command should be in the report and is not
	ReportDuplicate    ReportKind = "duplicate"     // an earlier line is about the same command
	ReportAmbiguous    ReportKind = "ambiguous"     // it could be about several commands
	ReportUnreadable   ReportKind = "unreadable"    // it names nothing, or its state has no meaning
	ReportTooYoung     ReportKind = "too_young"     // it differs, and may still settle
)

// ReportKinds lists them.
func ReportKinds() []ReportKind {
	return []ReportKind{
		ReportMatched, ReportDifferent, ReportMissingHere, ReportMissingThere,
		ReportDuplicate, ReportAmbiguous, ReportUnreadable, ReportTooYoung,
	}
}

// ReportRequest says what a report is about and how it is to be read.
type ReportRequest struct {
	Tenant    string
	Actor     string
	Upstream  string
	Operation string // "" for all of the upstream
	Format    ReportFormat
	Delimiter string // of CSV; "" is a comma
	// Columns says where a field (command_id, key, reference, state, code, message)
	// stands: a column's name, in JSON lines a member's name or a JSON pointer. A
	// field that is left out stands in the column of its own name, if there is one.
	Columns map[string]string
	// States says what the report's own words mean: success, rejected, cancelled or
	// pending. Those, and applied, refused and absent, need not be said.
	States  map[string]string
	Compare []Comparison
	// From and Until, exclusive, are the period that the report covers, by the time at
	// which commands were accepted. Without one, nothing can be missing there.
	From, Until time.Time
	// SettlesFor: what happened to a command in this time before the upload need not
	// be in the report, or not as it is by now.
	SettlesFor time.Duration
	MaxBytes   int64 // of the file; 0 is MaxReportBytes
}

// Comparison is a column of the report that has to equal a field of the command:
// a JSON pointer such as /body/amount, or metadata.NAME.
type Comparison struct {
	Column string `json:"column"`
	Field  string `json:"field"`
}

// Report is a settlement report and how far it has come.
type Report struct {
	ID           uuid.UUID
	Tenant       string
	Upstream     string
	Operation    string
	Format       ReportFormat
	Columns      map[string]string // as they are read
	States       map[string]outcome.Finding
	Compare      []Comparison
	From, Until  *time.Time // nil: no period
	SettlesFor   time.Duration
	CreatedAt    time.Time
	CreatedBy    string
	State        ReportState
	Problem      string // why it failed, or what holds it up
	Bytes        int64
	SHA256       []byte // of the file, once it is complete
	Lines        int
	Compared     int   // of the lines
	Scanned      int64 // commands of the period that were looked for
	ComparedAt   *time.Time
	Counts       ReportCounts
	Effects      ReportEffects
	ApplyAskedAt *time.Time
	ApplyAskedBy string
	ApplyReason  string
	AppliedAt    *time.Time
}

// ReportCounts counts the items by kind. All but the last two are of lines and
// add up to the lines compared so far.
type ReportCounts struct {
	Matched, Different, MissingHere, Duplicate, Ambiguous, Unreadable, TooYoung int
	MissingThere, YoungThere                                                    int // of commands
}

// Lines is the number of lines that were compared.
func (c ReportCounts) Lines() int {
	return c.Matched + c.Different + c.MissingHere + c.Duplicate + c.Ambiguous + c.Unreadable + c.TooYoung
}

// Unmentioned is the number of commands that the report leaves out.
func (c ReportCounts) Unmentioned() int { return c.MissingThere + c.YoungThere }

// ReportEffects counts what was passed on.
type ReportEffects struct {
	Settled, Kept, Conflicts, None int
}

// Applied is the number of lines that were passed on.
func (e ReportEffects) Applied() int { return e.Settled + e.Kept + e.Conflicts + e.None }

// ReportItem is one line as it compares, or one command that no line is about.
type ReportItem struct {
	Number      int
	Line        int // in the file; 0: no line is about the command
	Kind        ReportKind
	CommandID   *uuid.UUID
	CommandKey  string        // its idempotency key
	Now         outcome.State // of the command as it is by now
	Reference   string        // as the line names it
	Key         string
	Word        string          // the state, in the report's word
	Finding     outcome.Finding // what that means
	State       outcome.State   // of the command, when it was compared
	Differences []Difference
	DuplicateOf int    // the file's line of the first one about the command
	Problem     string // in words, for people
	Content     []byte // the whole line as a JSON object
	Effect      commands.Effect
	AppliedAt   *time.Time
}

// Difference is a field that the two sides have differently.
type Difference struct {
	Field  string `json:"field"`  // state, reference, or as in the Comparison
	Ours   string `json:"ours"`   // "" also where there is none
	Theirs string `json:"theirs"` // as the report has it
}
