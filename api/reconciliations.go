package api

import (
	"context"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"executor/commands"
	"executor/reconcile"
)

// Reports is what the API asks of settlement reports.
type Reports interface {
	Upload(ctx context.Context, request reconcile.ReportRequest, file io.Reader) (reconcile.Report, error)
	Reports(ctx context.Context, f reconcile.ReportFilter) (page []reconcile.Report, next string, err error)
	Report(ctx context.Context, tenant string, id uuid.UUID) (reconcile.Report, error)
	ReportItems(ctx context.Context, f reconcile.ReportItemFilter) (page []reconcile.ReportItem, next string, err error)
	Apply(ctx context.Context, tenant string, id uuid.UUID, actor, reason string) (reconcile.Report, error)
}

const (
	csvType   = "text/csv"
	linesType = "application/x-ndjson"
)

// CreateReconciliation takes a settlement report and has it compared.
func (s *Server) CreateReconciliation(w http.ResponseWriter, r *http.Request) error {
	request, err := reportRequest(r)
	if err != nil {
		return err
	}
	if r.ContentLength > reconcile.MaxReportBytes {
		return tooLarge(reconcile.MaxReportBytes)
	}
	file := newUpload(w, r, reconcile.MaxReportBytes)
	report, err := s.reports.Upload(r.Context(), request, file)
	if problem := file.problem(reconcile.MaxReportBytes); problem != nil {
		return problem
	}
	if err != nil {
		return aboutUpload(err)
	}
	w.Header().Set("Location", "/v1/reconciliations/"+report.ID.String())
	w.Header().Set("Retry-After", "1")
	return write(w, http.StatusAccepted, "application/json", view(report, writeReport))
}

// reportRequest reads what a report is about and how it is to be read.
func reportRequest(r *http.Request) (request reconcile.ReportRequest, err error) {
	if err := checkMediaType(r.Header, []string{csvType, linesType}); err != nil {
		return request, err
	}
	caller := callOf(r).key
	request = reconcile.ReportRequest{
		Tenant: caller.Tenant, Actor: caller.Name, Upstream: param(r, "upstream"), Operation: param(r, "operation"), Format: reconcile.ReportCSV,
		Delimiter: param(r, "delimiter"), Columns: family(r, "columns"), States: family(r, "states"),
	}
	if mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); mediaType == linesType {
		request.Format = reconcile.ReportJSONL
	}
	if !given(r, "upstream") {
		return request, badParameter("upstream", "Say whose report it is: upstream=NAME.")
	}
	if err := notEmpty(r, "upstream", "operation", "delimiter"); err != nil {
		return request, err
	}
	compared := family(r, "compare")
	for _, column := range slices.Sorted(maps.Keys(compared)) {
		request.Compare = append(request.Compare, reconcile.Comparison{Column: column, Field: compared[column]})
	}
	if request.From, err = momentOrZero(r, "from"); err != nil {
		return request, err
	}
	if request.Until, err = momentOrZero(r, "until"); err != nil {
		return request, err
	}
	request.SettlesFor, err = span(r, "settles_for")
	return request, err
}

func momentOrZero(r *http.Request, name string) (time.Time, error) {
	t, err := moment(r, name)
	if t == nil {
		return time.Time{}, err
	}
	return *t, err
}

// ListReconciliations reads a page of reports.
func (s *Server) ListReconciliations(w http.ResponseWriter, r *http.Request) (err error) {
	f := reconcile.ReportFilter{Tenant: callOf(r).key.Tenant, Upstream: param(r, "upstream"), Cursor: param(r, "cursor")}
	if err = notEmpty(r, "upstream", "cursor"); err != nil {
		return err
	}
	if f.Limit, err = number(r, "limit", 1, commands.MaxPage, 0); err != nil {
		return err
	}
	list, next, err := s.reports.Reports(r.Context(), f)
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, "application/json", page(list, next, writeReport))
}

// GetReconciliation reads one report.
func (s *Server) GetReconciliation(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "report's")
	if err != nil {
		return err
	}
	report, err := s.reports.Report(r.Context(), callOf(r).key.Tenant, id)
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, "application/json", view(report, writeReport))
}

// ListReconciliationItems reads a page of what a report says.
func (s *Server) ListReconciliationItems(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "report's")
	if err != nil {
		return err
	}
	f := reconcile.ReportItemFilter{Tenant: callOf(r).key.Tenant, Report: id, Cursor: param(r, "cursor")}
	if err = notEmpty(r, "cursor"); err != nil {
		return err
	}
	if f.Kinds, err = wordList(r, "kind", reconcile.ReportKinds()); err != nil {
		return err
	}
	if f.Limit, err = number(r, "limit", 1, commands.MaxPage, 0); err != nil {
		return err
	}
	list, next, err := s.reports.ReportItems(r.Context(), f)
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, "application/json", page(list, next, writeReportItem))
}

// ApplyReconciliation takes a compared report as evidence.
func (s *Server) ApplyReconciliation(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r, "report's")
	if err != nil {
		return err
	}
	reason, err := s.readReason(w, r)
	if err != nil {
		return err
	}
	caller := callOf(r).key
	report, err := s.reports.Apply(r.Context(), caller.Tenant, id, caller.Name, reason)
	if err != nil {
		return err
	}
	return write(w, http.StatusAccepted, "application/json", view(report, writeReport))
}

func writeReport(w *jsonWriter, p reconcile.Report) {
	w.begin('{')
	w.text("id", p.ID.String())
	w.text("upstream", p.Upstream)
	w.optional("operation", p.Operation)
	w.text("format", string(p.Format))
	w.labels("columns", p.Columns)
	w.object("states", func() {
		for _, word := range slices.Sorted(maps.Keys(p.States)) {
			w.element()
			w.string(word)
			w.buf = append(w.buf, ':')
			w.string(string(p.States[word]))
		}
	})
	w.array("compare", len(p.Compare), func(i int) {
		w.begin('{')
		w.text("column", p.Compare[i].Column)
		w.text("field", p.Compare[i].Field)
		w.end('}')
	})
	w.timeOrNull("from", p.From)
	w.timeOrNull("until", p.Until)
	w.text("settles_for", p.SettlesFor.String())
	w.time("created_at", p.CreatedAt)
	w.text("created_by", p.CreatedBy)
	w.text("state", string(p.State))
	w.optional("problem", p.Problem)
	w.integer("bytes", p.Bytes)
	w.hex("sha256", p.SHA256)
	w.integer("lines", int64(p.Lines))
	w.integer("compared", int64(p.Compared))
	w.integer("scanned", p.Scanned)
	w.timeOrNull("compared_at", p.ComparedAt)
	writeReportCounts(w, p)
	w.timeOrNull("apply_asked_at", p.ApplyAskedAt)
	w.optional("apply_asked_by", p.ApplyAskedBy)
	w.optional("apply_reason", p.ApplyReason)
	w.timeOrNull("applied_at", p.AppliedAt)
	w.end('}')
}

func writeReportCounts(w *jsonWriter, p reconcile.Report) {
	w.object("counts", func() {
		w.integer("matched", int64(p.Counts.Matched))
		w.integer("different", int64(p.Counts.Different))
		w.integer("missing_here", int64(p.Counts.MissingHere))
		w.integer("duplicate", int64(p.Counts.Duplicate))
		w.integer("ambiguous", int64(p.Counts.Ambiguous))
		w.integer("unreadable", int64(p.Counts.Unreadable))
		w.integer("too_young", int64(p.Counts.TooYoung))
		w.integer("missing_there", int64(p.Counts.MissingThere))
		w.integer("young_there", int64(p.Counts.YoungThere))
	})
	w.object("effects", func() {
		w.integer("settled", int64(p.Effects.Settled))
		w.integer("kept", int64(p.Effects.Kept))
		w.integer("conflicts", int64(p.Effects.Conflicts))
		w.integer("none", int64(p.Effects.None))
	})
}

func writeReportItem(w *jsonWriter, item reconcile.ReportItem) {
	w.begin('{')
	w.integer("number", int64(item.Number))
	w.integerOrNull("line", int64(item.Line))
	w.text("kind", string(item.Kind))
	w.idOrNull("command_id", item.CommandID)
	w.optional("reference", item.Reference)
	w.optional("key", item.Key)
	w.optional("word", item.Word)
	w.optional("finding", string(item.Finding))
	w.optional("state", string(item.State))
	w.array("differences", len(item.Differences), func(i int) {
		w.begin('{')
		w.text("field", item.Differences[i].Field)
		w.text("ours", item.Differences[i].Ours)
		w.text("theirs", item.Differences[i].Theirs)
		w.end('}')
	})
	w.integerOrNull("duplicate_of", int64(item.DuplicateOf))
	w.optional("problem", item.Problem)
	w.rawOrNull("content", item.Content)
	w.optional("effect", string(item.Effect))
	w.timeOrNull("applied_at", item.AppliedAt)
	w.end('}')
}
