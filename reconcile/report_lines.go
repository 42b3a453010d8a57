package reconcile

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"executor/commands"
	"executor/outcome"
)

// MaxReportBytes is how large a report may be unless the request says otherwise.
const MaxReportBytes = 512 << 20

const (
	maxReportLine  = 64 << 10 // bytes of one line
	maxReportValue = 1 << 10  // bytes of a value that is looked up or compared
	maxReportLines = 1 << 30  // they are counted in 32 bits
	maxColumns     = 1000
)

// reportLine is a line of a report as it is stored.
type reportLine struct {
	Number    int
	Line      int // where it begins in the file, from 1
	Reference string
	Key       string
	CommandID *uuid.UUID
	Word      string
	Finding   outcome.Finding
	Code      string
	Message   string
	Given     []*string // values of the compared columns; nil where there is none
	Problem   string    // why it cannot be compared
	Content   string
}

// lineReader reads the lines of a file one by one, io.EOF after the last. A file
// that cannot be read to its end is a *commands.Invalid that names the line.
type lineReader interface {
	next() (reportLine, error)
}

// openReport begins to read a file.
func openReport(p *reportPlan, file io.Reader) (lineReader, error) {
	if p.Format == ReportCSV {
		return newCSVLines(p.settings, file)
	}
	return newJSONLines(p.settings, file), nil
}

// badLine is a file that cannot be read, and where. A column of 0 is not known;
// columns count bytes from 1.
func badLine(line, column int, format string, args ...any) *commands.Invalid {
	place := fmt.Sprintf("line %d", line)
	if column > 0 {
		place += fmt.Sprintf(", column %d", column)
	}
	return badReport("/"+fmt.Sprint(line), "malformed", "%s: %s", place, fmt.Sprintf(format, args...))
}

// checkText refuses what no text of the database can hold.
func checkText(s string) error {
	if i := strings.IndexByte(s, 0); i >= 0 {
		return errors.New("there is a NUL byte")
	}
	if !utf8.ValidString(s) {
		return errors.New("the text is not UTF-8; convert the file first")
	}
	return nil
}

// reading fills a line from the texts of its fields. A line that cannot be
// compared keeps what it says and its first problem.
type reading struct {
	settings reportSettings
	reportLine
}

func (r *reading) problem(format string, args ...any) {
	if r.Problem == "" {
		r.Problem = fmt.Sprintf(format, args...)
	}
}

// take gives the line the value of a field; nil for none.
func (r *reading) take(field string, value *string) {
	if value == nil {
		return
	}
	text := r.bounded(field, *value)
	switch field {
	case fieldCommand:
		r.takeCommand(text)
	case fieldKey:
		r.Key = text
	case fieldReference:
		r.Reference = text
	case fieldState:
		r.Word = text
	case fieldCode:
		r.Code = text
	case fieldMessage:
		r.Message = text
	}
}

// compare adds the value of the next compared column.
func (r *reading) compare(c Comparison, value *string) {
	if value != nil {
		value = new(r.bounded(c.Column, *value))
	}
	r.Given = append(r.Given, value)
}

func (r *reading) takeCommand(text string) {
	if text == "" {
		return
	}
	id, err := uuid.Parse(text)
	if err != nil {
		r.problem("%q is no command ID", clip(text))
		return
	}
	r.CommandID = &id
}

// bounded keeps values small that are looked up or compared. One that is cut is
// never compared.
func (r *reading) bounded(name, text string) string {
	if len(text) <= maxReportValue {
		return text
	}
	r.problem("%s holds more than %d bytes", name, maxReportValue)
	return strings.ToValidUTF8(text[:maxReportValue], "")
}

// done gives the state its meaning and finishes the line.
func (r *reading) done() reportLine {
	if r.CommandID == nil && r.Key == "" && r.Reference == "" {
		r.problem("the line names no command: %s are empty", strings.Join(namingFields, ", "))
	}
	finding, ok := r.settings.finding(r.Word)
	switch {
	case ok:
		r.Finding = finding
	case strings.TrimSpace(r.Word) == "":
		r.problem("the line has no state")
	default:
		r.problem("nobody said what the state %q means", clip(r.Word))
	}
	return r.reportLine
}

// clip shortens a value for a message.
func clip(s string) string {
	if len(s) <= 60 {
		return s
	}
	return strings.ToValidUTF8(s[:60], "") + "…"
}

// countingReader counts what is read and refuses a file that is too large.
type countingReader struct {
	io.Reader
	n, most int64
}

var errReportTooLarge = errors.New("the file is too large")

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if r.n += int64(n); r.n > r.most {
		return 0, errReportTooLarge
	}
	return n, err
}
