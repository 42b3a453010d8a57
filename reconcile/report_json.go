package reconcile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// jsonLines reads one JSON object a line, strictly: no name twice, numbers digit
// by digit. Empty lines say nothing.
type jsonLines struct {
	settings reportSettings
	in       *bufio.Reader
	paths    map[string][]string
	compare  [][]string
	line     int
	number   int
}

func newJSONLines(settings reportSettings, file io.Reader) *jsonLines {
	l := &jsonLines{settings: settings, in: bufio.NewReaderSize(file, maxReportLine+1), paths: map[string][]string{}}
	for _, field := range reportFields {
		name := settings.Columns[field]
		if name == "" {
			name = field
		}
		l.paths[field] = memberPath(name)
	}
	for _, c := range settings.Compare {
		l.compare = append(l.compare, memberPath(c.Column))
	}
	return l
}

// memberPath reads the name of a member, or a JSON pointer to one.
func memberPath(name string) []string {
	if strings.HasPrefix(name, "/") {
		return pointerPath(name)
	}
	return []string{name}
}

func (l *jsonLines) next() (reportLine, error) {
	for {
		text, err := l.read()
		if err != nil {
			return reportLine{}, err
		}
		if len(bytes.TrimSpace(text)) > 0 {
			return l.parse(text)
		}
	}
}

// read returns the next line, without its end.
func (l *jsonLines) read() ([]byte, error) {
	text, err := l.in.ReadSlice('\n')
	l.line++
	switch {
	case errors.Is(err, bufio.ErrBufferFull), len(text) > maxReportLine+1:
		return nil, badLine(l.line, 0, "the line is longer than %d bytes", maxReportLine)
	case errors.Is(err, io.EOF) && len(text) > 0: // the last one need not be ended
	case err != nil:
		return nil, err
	}
	if l.line == 1 {
		text = bytes.TrimPrefix(text, utf8BOM)
	}
	return bytes.TrimRight(text, "\r\n"), nil
}

func (l *jsonLines) parse(text []byte) (reportLine, error) {
	object, err := l.object(text)
	if err != nil {
		return reportLine{}, err
	}
	l.number++
	r := reading{settings: l.settings, reportLine: reportLine{Number: l.number, Line: l.line, Content: string(text)}}
	for _, field := range reportFields {
		value, err := textAt(object, l.paths[field])
		if err != nil {
			return reportLine{}, badLine(l.line, 0, "%s: %s", field, err)
		}
		if value != nil && value.composed {
			r.problem("%s is not a text or a number", field)
			continue
		}
		r.take(field, value.pointer())
	}
	for i, c := range l.settings.Compare {
		value, err := textAt(object, l.compare[i])
		if err != nil {
			return reportLine{}, badLine(l.line, 0, "%s: %s", c.Column, err)
		}
		r.compare(c, value.pointer())
	}
	return r.done(), nil
}

func (l *jsonLines) object(text []byte) (map[string]any, error) {
	if err := checkText(string(text)); err != nil {
		return nil, badLine(l.line, 0, "%s", err)
	}
	value, err := strictJSON(text)
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return nil, badLine(l.line, int(syntax.Offset), "%s", syntax)
	case err != nil:
		return nil, badLine(l.line, 0, "%s", err)
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, badLine(l.line, 0, "each line is a JSON object")
	}
	return object, nil
}

// maxReportDepth bounds how deep JSON may be nested.
const maxReportDepth = 64

// strictJSON decodes one JSON document: numbers keep their digits, and an object
// that holds a name twice is refused.
func strictJSON(text []byte) (any, error) {
	var whole json.RawMessage
	if err := json.Unmarshal(text, &whole); err != nil {
		return nil, err // the place of a syntax error
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return strictValue(decoder, 0)
}

func strictValue(d *json.Decoder, depth int) (any, error) {
	if depth > maxReportDepth {
		return nil, fmt.Errorf("it is nested more than %d levels deep", maxReportDepth)
	}
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		return strictObject(d, depth)
	case json.Delim('['):
		return strictList(d, depth)
	default:
		return token, nil
	}
}

func strictObject(d *json.Decoder, depth int) (any, error) {
	object := map[string]any{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, _ := token.(string)
		if _, twice := object[name]; twice {
			return nil, fmt.Errorf("it names %q twice", clip(name))
		}
		if object[name], err = strictValue(d, depth+1); err != nil {
			return nil, err
		}
	}
	_, err := d.Token()
	return object, err
}

func strictList(d *json.Decoder, depth int) (any, error) {
	var list []any
	for d.More() {
		value, err := strictValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	_, err := d.Token()
	return list, err
}
