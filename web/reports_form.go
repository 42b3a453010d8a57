package web

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"executor/commands"
	"executor/reconcile"
)

// reportForm is what is asked about a report before its file. It is kept whatever
// is wrong with the file.
type reportForm struct {
	Upstream   string
	Operation  string
	Format     string // "" goes by the file's name
	Delimiter  string
	Columns    map[string]string // a field's column
	States     string            // WORD = MEANING, one a line
	Compare    string            // COLUMN = FIELD, one a line
	From       string
	Until      string
	SettlesFor string

	Upstreams []string
	Fields    []reportField
	Problem   string
	Wrong     map[string]string // by the input's name
}

// reportField is a field of a line that can stand in a column of another name.
type reportField struct{ Name, Words string }

var reportFields = []reportField{
	{"key", "our idempotency key"}, {"reference", "the upstream's reference"}, {"command_id", "our command's id"},
	{"state", "what became of it"}, {"code", "why it was refused, as a code"}, {"message", "why, in words"},
}

// Open reports whether the settings that few need are to be seen.
func (f *reportForm) Open() bool {
	for _, name := range []string{"operation", "format", "delimiter", "states", "compare", "from", "until", "settles_for"} {
		if f.Wrong[name] != "" {
			return true
		}
	}
	for _, column := range f.Columns {
		if column != "" {
			return true
		}
	}
	return f.Operation+f.Format+f.Delimiter+f.States+f.Compare+f.From+f.Until+f.SettlesFor != ""
}

// Column is what was typed for a field.
func (f *reportForm) Column(field string) string { return f.Columns[field] }

// ColumnWrong is what is wrong with it.
func (f *reportForm) ColumnWrong(field string) string { return f.Wrong["columns."+field] }

// set keeps what the form brought. Inputs that nobody asked for are passed over.
func (f *reportForm) set(name, value string) {
	value = strings.TrimSpace(value)
	if field, ok := strings.CutPrefix(name, "columns."); ok {
		if value != "" {
			f.Columns[field] = value
		}
		return
	}
	if into, ok := map[string]*string{
		"upstream": &f.Upstream, "operation": &f.Operation, "format": &f.Format, "delimiter": &f.Delimiter, "states": &f.States,
		"compare": &f.Compare, "from": &f.From, "until": &f.Until, "settles_for": &f.SettlesFor,
	}[name]; ok {
		*into = value
	}
}

// request turns the form into what the store takes. What is wrong with it is in
// Wrong.
func (f *reportForm) request(v *visit, fileName string) reconcile.ReportRequest {
	r := reconcile.ReportRequest{
		Tenant: v.tenant, Actor: v.actor(), Upstream: f.Upstream, Operation: f.Operation, Format: formatOf(f.Format, fileName),
		Delimiter: f.Delimiter, Columns: f.Columns,
	}
	if f.Delimiter == "tab" { // a form cannot tell it from nothing
		r.Delimiter = "\t"
	}
	if f.Upstream == "" {
		f.wrong("upstream", "Say whose report it is.")
	}
	var err error
	if r.From, err = typedMoment(f.From); err != nil {
		f.wrong("from", err.Error()+".")
	}
	if r.Until, err = typedMoment(f.Until); err != nil {
		f.wrong("until", err.Error()+".")
	}
	if f.SettlesFor != "" {
		if r.SettlesFor, err = time.ParseDuration(f.SettlesFor); err != nil {
			f.wrong("settles_for", "A duration is written such as 90m or 24h.")
		}
	}
	f.readPairs(&r)
	return r
}

func (f *reportForm) readPairs(r *reconcile.ReportRequest) {
	r.States = map[string]string{}
	err := eachPair(f.States, func(word, meaning string) { r.States[word] = meaning })
	if err != nil {
		f.wrong("states", err.Error())
	}
	err = eachPair(f.Compare, func(column, field string) {
		r.Compare = append(r.Compare, reconcile.Comparison{Column: column, Field: field})
	})
	if err != nil {
		f.wrong("compare", err.Error())
	}
}

// eachPair reads lines such as "paid = success". Names of columns may hold the
// equals sign, what follows it may not.
func eachPair(text string, take func(left, right string)) error {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		at := strings.LastIndex(line, "=")
		if at < 0 {
			return fmt.Errorf("%q has no equals sign", line)
		}
		take(strings.TrimSpace(line[:at]), strings.TrimSpace(line[at+1:]))
	}
	return nil
}

// formatOf goes by the file's name where nothing was chosen.
func formatOf(chosen, fileName string) reconcile.ReportFormat {
	name := strings.ToLower(fileName)
	switch {
	case chosen != "":
		return reconcile.ReportFormat(chosen)
	case strings.HasSuffix(name, ".jsonl"), strings.HasSuffix(name, ".ndjson"), strings.HasSuffix(name, ".json"):
		return reconcile.ReportJSONL
	default:
		return reconcile.ReportCSV
	}
}

func (f *reportForm) wrong(name, text string) { f.Wrong[name] = text }

// refuse puts what the store says beside the input that it is about. What it says of
// a line is about the file.
func (f *reportForm) refuse(invalid *commands.Invalid) {
	f.Problem = "Nothing was compared, and nothing has changed. What you typed is kept; the file has to be chosen again."
	for _, field := range invalid.Fields {
		name, _, _ := strings.Cut(field.Pointer, ".")
		switch {
		case name == "columns":
			name = field.Pointer
		case name == "" || strings.HasPrefix(name, "/"):
			name = "file"
		}
		f.wrong(name, sentence(field.Detail))
	}
	if len(f.Wrong) == 0 {
		f.wrong("file", invalid.Detail)
	}
}

func newReportForm() *reportForm {
	return &reportForm{Columns: map[string]string{}, Wrong: map[string]string{}}
}

func (s *Server) reportNew(v *visit) error {
	f := newReportForm()
	f.Upstream = v.query("upstream")
	return s.showReportForm(v, http.StatusOK, f)
}

func (s *Server) showReportForm(v *visit, status int, f *reportForm) (err error) {
	if f.Upstreams, err = s.upstreamNames(v); err != nil {
		return err
	}
	f.Fields = reportFields
	f.From, f.Until = fieldMoment(f.From), fieldMoment(f.Until)
	return v.renderStatus(status, "report_new.html", "New settlement report", f)
}

// errUploadCut: the file did not come to its end.
var errUploadCut = errors.New("the upload ended early")
