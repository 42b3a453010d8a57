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
	"executor/internal/upload"
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
	file := upload.New(w, r, reconcile.MaxReportBytes)
	report, err := s.reports.Upload(r.Context(), request, file)
	if problem := uploadProblem(file.Err(), reconcile.MaxReportBytes); problem != nil {
		return problem
	}
	if err != nil {
		file.Linger()
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
