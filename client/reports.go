package client

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"slices"
	"time"
)

// ReportFormat is what a settlement report is written in.
type ReportFormat string

const (
	ReportCSV   ReportFormat = "csv"   // with a header line
	ReportJSONL ReportFormat = "jsonl" // one JSON object a line
)

// ReportUpload says how a settlement report is to be read.
type ReportUpload struct {
	Upstream  string
	Operation string // empty: every operation of the upstream
	Format    ReportFormat
	Delimiter string // of CSV; empty: a comma
	// Columns says where a field stands: a column's name, in JSON lines a member's name
	// or a JSON Pointer. Fields are command_id, key, reference, state, code and message;
	// one that is left out stands in the column of its own name, if there is one.
	Columns map[string]string
	// States says what the report's words mean: success, rejected, cancelled or
	// pending, which mean themselves.
	States map[string]string
	// Compare names what has to be equal: a column of the report, and a JSON Pointer
	// such as /body/amount, or metadata.NAME, into the command.
	Compare map[string]string
	// From and Until, which is exclusive, are what the report covers, by when the
	// commands were accepted. Without a period nothing can be missing there.
	From, Until time.Time
	// SettlesFor: what happened to a command in this time before the upload need not
	// be in the report.
	SettlesFor time.Duration
}

// Report is a settlement report and how far it is.
type Report struct {
	ID           string             `json:"id"`
	Upstream     string             `json:"upstream"`
	Operation    string             `json:"operation"` // empty: all of the upstream
	Format       ReportFormat       `json:"format"`
	Columns      map[string]string  `json:"columns"` // as they are read
	States       map[string]Finding `json:"states"`
	Compare      []Comparison       `json:"compare"`
	From         *time.Time         `json:"from"`
	Until        *time.Time         `json:"until"`
	SettlesFor   string             `json:"settles_for"`
	CreatedAt    time.Time          `json:"created_at"`
	CreatedBy    string             `json:"created_by"`
	State        ReportState        `json:"state"`
	Problem      string             `json:"problem"` // why it failed, or what holds it up
	Bytes        int64              `json:"bytes"`
	SHA256       string             `json:"sha256"` // of the file, once it is complete
	Lines        int                `json:"lines"`
	Compared     int                `json:"compared"` // of the lines
	Scanned      int64              `json:"scanned"`  // commands of the period that were looked for
	ComparedAt   *time.Time         `json:"compared_at"`
	Counts       map[string]int     `json:"counts"`  // items by kind, so far
	Effects      map[string]int     `json:"effects"` // what was passed on, by what it did: settled, kept, conflicts, none
	ApplyAskedAt *time.Time         `json:"apply_asked_at"`
	ApplyAskedBy string             `json:"apply_asked_by"`
	ApplyReason  string             `json:"apply_reason"`
	AppliedAt    *time.Time         `json:"applied_at"`

	document
}

// Comparison is a column of a report and the field of a command that has to be
// equal.
type Comparison struct {
	Column string `json:"column"`
	Field  string `json:"field"`
}

// ReportState is how far a report is.
type ReportState string

const (
	ReportUploading ReportState = "uploading"
	ReportComparing ReportState = "comparing"
	ReportCompared  ReportState = "compared" // it has changed no command yet
	ReportApplying  ReportState = "applying"
	ReportApplied   ReportState = "applied"
	ReportFailed    ReportState = "failed"
)

// Resting says that nothing more happens by itself.
func (r Report) Resting() bool {
	return slices.Contains([]ReportState{ReportCompared, ReportApplied, ReportFailed}, r.State)
}

// ReportItem is one line of a report, or a command that it leaves out.
type ReportItem struct {
	Number int `json:"number"`
	Line   int `json:"line"` // in the file; 0 where no line is about the command
	// Kind is matched, different, missing_here, missing_there, duplicate, ambiguous,
	// unreadable or too_young.
	Kind        string          `json:"kind"`
	CommandID   string          `json:"command_id"`
	Reference   string          `json:"reference"` // as the line names it
	Key         string          `json:"key"`
	Word        string          `json:"word"`    // the state in the report's word
	Finding     Finding         `json:"finding"` // what that means
	State       State           `json:"state"`   // of the command when it was compared
	Differences []Difference    `json:"differences"`
	DuplicateOf int             `json:"duplicate_of"` // the line of the first one about the command
	Problem     string          `json:"problem"`      // in words
	Content     json.RawMessage `json:"content"`      // the whole line
	Effect      string          `json:"effect"`       // what applying it did: settled, kept, none, conflict
	AppliedAt   *time.Time      `json:"applied_at"`
}

// Difference is a field in which a line and a command differ.
type Difference struct {
	Field  string `json:"field"`
	Ours   string `json:"ours"`
	Theirs string `json:"theirs"`
}

// UploadReport sends a settlement report, as it is read, and returns while it is
// being compared: see WaitReport. It changes no command until it is applied.
//
// It is not repeated by itself, since the reader is used up. If the answer is lost,
// the error is an *Unanswered; uploading it again is harmless and makes a second
// report.
func (c *Client) UploadReport(ctx context.Context, u ReportUpload, content io.Reader) (Report, error) {
	media := map[ReportFormat]string{ReportCSV: "text/csv", ReportJSONL: "application/x-ndjson"}[u.Format]
	if media == "" {
		return Report{}, &Invalid{"Format", "the format of the report is csv or jsonl"}
	}
	q := query(map[string]string{
		"upstream": u.Upstream, "operation": u.Operation, "delimiter": u.Delimiter, "from": moment(u.From), "until": moment(u.Until), "settles_for": span(u.SettlesFor),
	})
	named(q, "columns", u.Columns)
	named(q, "states", u.States)
	named(q, "compare", u.Compare)
	return once[Report](ctx, c, call{
		method: http.MethodPost, path: path("reconciliations"), query: q, stream: content, media: media,
		headers: map[string]string{"Expect": "100-continue"}, // what is refused anyhow is not sent
	})
}

// Report reads one settlement report.
func (c *Client) Report(ctx context.Context, id string) (Report, error) {
	r, _, err := read[Report](ctx, c, call{method: http.MethodGet, path: path("reconciliations", id), repeat: true})
	return r, err
}

// WaitReport returns once a report is compared, applied or failed, and shows each
// what it sees until then; each may be nil. If ctx ends first, the error is ctx's
// and the report is as it was last seen.
func (c *Client) WaitReport(ctx context.Context, id string, each func(Report)) (Report, error) {
	return poll(ctx, func(ctx context.Context) (Report, error) { return c.Report(ctx, id) }, Report.Resting, each)
}

// ApplyReport takes a compared report as evidence: what its lines say becomes
// findings about their commands, one by one. What cannot be told apart, is missing or
// too young changes nothing. Repeating it is safe.
func (c *Client) ApplyReport(ctx context.Context, id, reason string) (Report, error) {
	body, err := json.Marshal(map[string]string{"reason": reason})
	if err != nil {
		return Report{}, err
	}
	r, _, err := read[Report](ctx, c, call{method: http.MethodPost, path: path("reconciliations", id, "apply"), body: body, repeat: true})
	return r, err
}

// ReportFilter selects settlement reports; its zero value selects all.
type ReportFilter struct {
	Upstream string
	Cursor   string // of the page to begin with
	Limit    int    // reports per page, up to 100; 50
}

// ReportPage is one page of settlement reports.
type ReportPage = PageOf[Report]

// ReportsPage reads one page of settlement reports, the newest first.
func (c *Client) ReportsPage(ctx context.Context, f ReportFilter) (ReportPage, error) {
	return page[Report](ctx, c, path("reconciliations"), query(map[string]string{"upstream": f.Upstream, "cursor": f.Cursor, "limit": number(f.Limit)}))
}

// Reports yields settlement reports, the newest first. It ends after the first error.
func (c *Client) Reports(ctx context.Context, f ReportFilter) iter.Seq2[Report, error] {
	return pages(f.Cursor, func(cursor string) (ReportPage, error) {
		f.Cursor = cursor
		return c.ReportsPage(ctx, f)
	})
}

// ReportItemFilter selects items of one report; its zero value selects all.
type ReportItemFilter struct {
	Kinds  []string
	Cursor string // of the page to begin with
	Limit  int    // items per page, up to 100; 50
}

// ReportItemPage is one page of a report's items.
type ReportItemPage = PageOf[ReportItem]

// ReportItemsPage reads one page of what a report says and leaves out.
func (c *Client) ReportItemsPage(ctx context.Context, id string, f ReportItemFilter) (ReportItemPage, error) {
	q := query(map[string]string{"cursor": f.Cursor, "limit": number(f.Limit)})
	for _, kind := range f.Kinds {
		q.Add("kind", kind)
	}
	return page[ReportItem](ctx, c, path("reconciliations", id, "items"), q)
}

// ReportItems yields what a report says and leaves out. It ends after the first
// error.
func (c *Client) ReportItems(ctx context.Context, id string, f ReportItemFilter) iter.Seq2[ReportItem, error] {
	return pages(f.Cursor, func(cursor string) (ReportItemPage, error) {
		f.Cursor = cursor
		return c.ReportItemsPage(ctx, id, f)
	})
}
