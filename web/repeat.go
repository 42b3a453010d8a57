package web

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"executor/commands"
)

// shellLine is a command line to copy.
type shellLine struct {
	ID, Title, Line string
}

// repeatView shows how the same is done outside of the page.
type repeatView struct {
	Lines []shellLine
	Lost  []string // parts of the submission that cannot be shown as they came
}

// longestLine is how large a body may be to stand in a command line.
const longestLine = 4 << 10

// repeatOf writes the lines. Secrets stand in them as variables only.
func repeatOf(c commands.Command, asked commands.Asked) repeatView {
	view := repeatView{Lost: asked.Lost}
	view.add("Show it with the command line", "executor get "+c.ID.String())
	view.add("Show it with curl", `curl -sS -H "Authorization: Bearer $EXECUTOR_API_KEY" "$EXECUTOR_URL/v1/commands/`+c.ID.String()+`"`)
	if len(asked.Submission.Body) > longestLine && !slices.Contains(view.Lost, "body") {
		view.Lost = append(view.Lost, "body")
	}
	if len(view.Lost) == 0 {
		if line, ok := submitLine(asked.Submission); ok {
			view.add("Submit it again with the command line", line)
		}
		view.add("Submit it again with curl", curlLine(asked.Submission))
	}
	return view
}

func (r *repeatView) add(title, line string) {
	id := "line-" + string(rune('a'+len(r.Lines)))
	r.Lines = append(r.Lines, shellLine{ID: id, Title: title, Line: line})
}

// submitLine is the submission for our own command line; false where that cannot
// say it: an empty body.
func submitLine(s commands.Submission) (string, bool) {
	if s.HasBody && len(s.Body) == 0 {
		return "", false
	}
	words := []string{"executor submit --upstream " + shellQuote(s.Upstream), "--operation " + shellQuote(s.Operation), "--key " + shellQuote(s.Key)}
	for _, group := range []struct {
		flag   string
		values map[string]string
	}{{"--param", s.Params}, {"--query", s.Query}, {"--header", s.Headers}, {"--metadata", s.Metadata}} {
		for _, name := range slices.Sorted(maps.Keys(group.values)) {
			words = append(words, group.flag+" "+shellQuote(name+"="+group.values[name]))
		}
	}
	if s.Priority != "" && s.Priority != commands.PriorityNormal {
		words = append(words, "--priority "+shellQuote(string(s.Priority)))
	}
	if s.ContentType != "" {
		words = append(words, "--content-type "+shellQuote(s.ContentType))
	}
	if f := s.BodyFile; f != nil {
		return joinLine(append(words, "--body-ref "+shellQuote(fmt.Sprintf("%s;size=%d;sha256=%s", f.Path, f.Size, f.SHA256)))), true
	}
	if !s.HasBody {
		return joinLine(words), true
	}
	if body := string(s.Body); inArgument(body) && !strings.HasPrefix(body, "@") && body != "-" {
		return joinLine(append(words, "--body "+shellQuote(body))), true
	}
	return shellPrint(s.Body) + " | " + joinLine(append(words, "--body -")), true
}

// curlLine is the submission for curl.
func curlLine(s commands.Submission) string {
	words := []string{
		`curl -sS -X POST "$EXECUTOR_URL/v1/commands"`, `-H "Authorization: Bearer $EXECUTOR_API_KEY"`,
		`-H ` + shellQuote("Idempotency-Key: "+s.Key), `-H 'Content-Type: application/json'`,
	}
	document := submissionJSON(s)
	if inArgument(string(document)) {
		return joinLine(append(words, "--data-binary "+shellQuote(string(document))))
	}
	return shellPrint(document) + " | " + joinLine(append(words, "--data-binary @-"))
}

// joinLine breaks a long line where a shell lets one.
func joinLine(words []string) string { return strings.Join(words, " \\\n  ") }

// submissionJSON is the submission as the REST API takes it. A JSON body stands in
// it byte for byte.
func submissionJSON(s commands.Submission) []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	member := func(name string, value []byte) {
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.WriteString(`"` + name + `":`)
		b.Write(value)
	}
	member("upstream", plainJSON(s.Upstream))
	member("operation", plainJSON(s.Operation))
	for _, group := range []struct {
		name   string
		values map[string]string
	}{{"params", s.Params}, {"query", s.Query}, {"headers", s.Headers}, {"metadata", s.Metadata}} {
		if len(group.values) > 0 {
			member(group.name, plainJSON(group.values))
		}
	}
	if s.Priority != "" && s.Priority != commands.PriorityNormal {
		member("priority", plainJSON(s.Priority))
	}
	if s.ContentType != "" {
		member("content_type", plainJSON(s.ContentType))
	}
	switch {
	case s.BodyFile != nil:
		member("body_ref", plainJSON(s.BodyFile))
	case !s.HasBody:
	case json.Valid(s.Body):
		member("body", s.Body)
	default:
		member("body_base64", plainJSON(base64.StdEncoding.EncodeToString(s.Body)))
	}
	b.WriteByte('}')
	return b.Bytes()
}

// plainJSON encodes what always encodes, without escaping for HTML.
func plainJSON(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
