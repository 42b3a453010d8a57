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
	// Columns says where a field stands: a column's name in CSV, a JSON Pointer or a
	// member in JSON lines. Fields are key, reference, state, code, message and those
	// of Compare.
	Columns map[string]string
	// States says what a text in the state's column means: success, rejected or
	// pending.
	States map[string]string
	// Compare names what must be equal: a field of the report, and a JSON Pointer into
	// the command, such as /body/amount.
	Compare map[string]string
	// From and Until, which is exclusive, are what the report covers, by when the
	// commands were created.
	From, Until time.Time
	// SettlesFor: younger commands may be missing there without meaning anything.
	SettlesFor time.Duration
}

// Report is a settlement report and how far it is.
type Report struct {
	ID         string           `json:"id"`
	Upstream   string           `json:"upstream"`
	Operation  string           `json:"operation"`
	Format     ReportFormat     `json:"format"`
	State      ReportState      `json:"state"`
	CreatedAt  time.Time        `json:"created_at"`
	CreatedBy  string           `json:"created_by"`
	From       *time.Time       `json:"from"`
	Until      *time.Time       `json:"until"`
	Lines      int64            `json:"lines"`  // read, without the header line of CSV
	Counts     map[string]int64 `json:"counts"` // items by kind, so far
	Detail     string           `json:"detail"` // why it failed
	ComparedAt *time.Time       `json:"compared_at"`
	AppliedAt  *time.Time       `json:"applied_at"`
	AppliedBy  string           `json:"applied_by"`
	Reason     string           `json:"reason"`  // given with the apply
	Applied    int64            `json:"applied"` // lines taken as evidence so far

	document
}

// ReportState is how far a report is.
type ReportState string

const (
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
	Kind      string `json:"kind"` // matched, different, missing_here, missing_there and such
	Line      int64  `json:"line"` // 0 for what is missing there
	Reference string `json:"reference"`
	Key       string `json:"key"`
	CommandID string `json:"command_id"`
	State     string `json:"state"`  // as the report has it
	Detail    string `json:"detail"` // what differs
	Effect    string `json:"effect"` // what applying it did
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
		"upstream": u.Upstream, "operation": u.Operation, "from": moment(u.From), "until": moment(u.Until), "settles_for": span(u.SettlesFor),
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

// ApplyReport takes a compared report as evidence: every matched line becomes a
// finding about its command. What differs or is missing changes nothing. Repeating
// it is safe.
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
