package reconcile

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode"
)

// csvBuffer is how much of the file is read ahead: the least that encoding/csv
// takes as it is.
const csvBuffer = 4096

// csvLines reads CSV after RFC 4180. Cells are data, whatever they look like.
type csvLines struct {
	settings reportSettings
	csv      *csv.Reader
	budget   *recordBudget
	header   []string
	fields   map[string]int // place of each field that has a column
	compare  []int
	line     int // on which the next record begins, at the earliest
	number   int
	offset   int64
}

// newCSVLines reads the header and finds the columns.
func newCSVLines(settings reportSettings, file io.Reader) (*csvLines, error) {
	budget := &recordBudget{Reader: file}
	buffered := bufio.NewReaderSize(budget, csvBuffer)
	l := &csvLines{settings: settings, budget: budget, line: 1, fields: map[string]int{}}
	budget.refill()
	if bom, _ := buffered.Peek(len(utf8BOM)); bytes.Equal(bom, utf8BOM) {
		_, _ = buffered.Discard(len(utf8BOM))
	}
	l.csv = csv.NewReader(buffered)
	l.csv.ReuseRecord = true
	if settings.Delimiter != "" {
		l.csv.Comma = rune(settings.Delimiter[0])
	}
	header, err := l.record()
	if errors.Is(err, io.EOF) {
		return nil, badLine(1, 0, "the file is empty; a CSV report begins with a header line")
	}
	if err != nil {
		return nil, err
	}
	l.header = slices.Clone(header)
	if err := l.checkHeader(); err != nil {
		return nil, err
	}
	return l, l.findColumns()
}

var utf8BOM = []byte{0xEF, 0xBB, 0xBF}

func (l *csvLines) next() (reportLine, error) {
	record, err := l.record()
	if err != nil {
		return reportLine{}, err
	}
	l.number++
	line, _ := l.csv.FieldPos(0)
	r := reading{settings: l.settings, reportLine: reportLine{Number: l.number, Line: line, Content: l.content(record)}}
	for _, field := range reportFields {
		if i, ok := l.fields[field]; ok {
			r.take(field, &record[i])
		}
	}
	for i, c := range l.settings.Compare {
		r.compare(c, &record[l.compare[i]])
	}
	return r.done(), nil
}

// record reads the next record within the bound of one.
func (l *csvLines) record() ([]string, error) {
	l.budget.refill()
	record, err := l.csv.Read()
	var parse *csv.ParseError
	switch {
	case errors.Is(err, io.EOF):
		return nil, io.EOF
	case errors.Is(err, errLongRecord):
		return nil, badLine(l.line, 0, "a line is longer than %d bytes; perhaps a quote is not closed", maxReportLine)
	case errors.Is(err, csv.ErrFieldCount):
		line, _ := l.csv.FieldPos(0)
		return nil, badLine(line, 0, "there are %d cells, the header has %d", len(record), len(l.header))
	case errors.As(err, &parse):
		return nil, badLine(parse.Line, parse.Column, "%s; the record begins on line %d", parse.Err, parse.StartLine)
	case err != nil:
		return nil, err
	}
	length := l.csv.InputOffset() - l.offset
	l.offset += length
	last, _ := l.csv.FieldPos(len(record) - 1)
	l.line = last + strings.Count(record[len(record)-1], "\n") + 1
	if length > maxReportLine {
		first, _ := l.csv.FieldPos(0)
		return nil, badLine(first, 0, "the line is longer than %d bytes", maxReportLine)
	}
	return record, l.checkRecord(record)
}

func (l *csvLines) checkRecord(record []string) error {
	for i, cell := range record {
		if err := checkText(cell); err != nil {
			line, column := l.csv.FieldPos(i)
			return badLine(line, column, "%s", err)
		}
	}
	return nil
}

// checkHeader refuses names that could not be told apart, or that are no names: a
// file whose lines end in a lone CR would be one long header.
func (l *csvLines) checkHeader() error {
	if len(l.header) > maxColumns {
		return badLine(1, 0, "there are more than %d columns", maxColumns)
	}
	for i, name := range l.header {
		line, column := l.csv.FieldPos(i)
		switch {
		case strings.ContainsFunc(name, unicode.IsControl):
			return badLine(line, column, "the name of a column holds a control character; lines end in LF or CRLF")
		case name != "" && slices.Contains(l.header[:i], name):
			return badLine(line, column, "there are two columns %q", clip(name))
		}
	}
	return nil
}

// findColumns finds the columns of the fields and of the comparisons.
func (l *csvLines) findColumns() error {
	for _, field := range reportFields {
		name, asked := l.settings.Columns[field]
		if !asked {
			name = field
		}
		if i := slices.Index(l.header, name); i >= 0 {
			l.fields[field] = i
		} else if asked {
			return l.noColumn(name)
		}
	}
	for _, c := range l.settings.Compare {
		i := slices.Index(l.header, c.Column)
		if i < 0 {
			return l.noColumn(c.Column)
		}
		l.compare = append(l.compare, i)
	}
	if _, ok := l.fields[fieldState]; !ok {
		return l.noColumn(fieldState)
	}
	if !slices.ContainsFunc(namingFields, func(f string) bool { _, ok := l.fields[f]; return ok }) {
		return badLine(1, 0, "no column names a command: say which one is the %s; the columns are %s",
			strings.Join(namingFields, ", or the "), l.names())
	}
	return nil
}

func (l *csvLines) noColumn(name string) error {
	return badLine(1, 0, "there is no column %q; the columns are %s", clip(name), l.names())
}

func (l *csvLines) names() string { return clipList(strings.Join(l.header, ", ")) }

// clipList shortens a list for a message.
func clipList(s string) string {
	if len(s) <= 400 {
		return s
	}
	return strings.ToValidUTF8(s[:400], "") + "…"
}

// content is the record as a JSON object, in the order of the columns.
func (l *csvLines) content(record []string) string {
	var b bytes.Buffer
	encode := json.NewEncoder(&b)
	encode.SetEscapeHTML(false)
	b.WriteByte('{')
	for i, cell := range record {
		if i > 0 {
			b.WriteByte(',')
		}
		_ = encode.Encode(l.header[i]) // texts always encode
		b.Truncate(b.Len() - 1)        // the line feed behind it
		b.WriteByte(':')
		_ = encode.Encode(cell)
		b.Truncate(b.Len() - 1)
	}
	b.WriteByte('}')
	return b.String()
}

// recordBudget ends the reading of one record that would take all memory. What
// is read ahead of a record may belong to the next one.
type recordBudget struct {
	io.Reader
	left int
}

var errLongRecord = errors.New("the line is too long")

func (b *recordBudget) refill() { b.left = maxReportLine + csvBuffer }

func (b *recordBudget) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errLongRecord
	}
	n, err := b.Reader.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}
