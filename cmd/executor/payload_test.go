//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"executor/client"
)

//go:embed testdata/payloads.txt
var payloadLines string

// payload is one line of testdata/payloads.txt.
type payload struct {
	name, where string
	value       []byte
	refused     string // status and place; "" for what is accepted

	number int    // of its line among the cases: stands in the path of its request
	key    string // as the executor shall understand it
}

// oddOperations send whatever is not refused, each body in its own way, and get it
// back.
func oddOperations() map[string]settings {
	operation := func(body string) settings {
		return settings{
			"method": "POST", "path": `"/` + body + `/{n}/{p}"`, "body": body, "caller_query": "[q]", "caller_headers": "[X-Odd]",
			"idempotency": keyed(),
		}
	}
	return map[string]settings{"json": operation("json"), "raw": operation("raw"), "form": operation("form")}
}

// payloads reads the corpus.
func payloads(t *testing.T) []payload {
	t.Helper()
	var list []payload
	for line := range strings.Lines(payloadLines) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		name, rest, _ := strings.Cut(line, " | ")
		where, rest, _ := strings.Cut(rest, " | ")
		last := strings.LastIndex(rest, " | ")
		if last < 0 {
			t.Fatalf("not a case: %s", line)
		}
		text, err := strconv.Unquote(rest[:last])
		if err != nil {
			t.Fatalf("%s: %v: %s", name, err, rest[:last])
		}
		p := payload{name: name, where: where, value: spelled(text), refused: rest[last+3:], number: len(list)}
		if p.refused == "accepted" {
			p.refused = ""
		}
		list = append(list, p)
	}
	return list
}

// spelled is the value that a text stands for: @ begins those that are too long to
// be written down.
func spelled(text string) []byte {
	what, number, found := strings.Cut(strings.TrimPrefix(text, "@"), " ")
	n, _ := strconv.Atoi(number)
	switch {
	case !strings.HasPrefix(text, "@") || !found:
	case what == "nested":
		return []byte(nested(n))
	case what == "digits":
		return bytes.Repeat([]byte("7"), n)
	case what == "text":
		return fmt.Appendf(nil, "%s", bytes.Repeat([]byte("x"), n))
	case what == "wide":
		return []byte(strings.Repeat("😀", n))
	case what == "every":
		every := make([]byte, 256)
		for i := range every {
			every[i] = byte(i)
		}
		return every
	case what == "bytes":
		return bytes.Repeat([]byte{0, 1, 0xfe, 0xff, '\r', '\n', 'x'}, n/7)
	case what == "members":
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"%x":0`, i)
		}
		return []byte("{" + b.String()[1:] + "}")
	}
	return []byte(text)
}

// submission is a request under construction: the members of its document, each as
// JSON text, and what its first request on the wire has to be.
type rawSubmission struct {
	key      string // the header as it is written
	members  map[string]string
	document []byte // in place of the members

	target string
	body   []byte
	header string
}

// of makes the request of a payload.
func (p *payload) submission() rawSubmission {
	s := rawSubmission{key: fmt.Sprintf("payload-%03d", p.number), members: map[string]string{"upstream": `"odd"`, "operation": `"json"`, "body": `{"a":1}`}}
	params, text := map[string]string{"n": strconv.Itoa(p.number), "p": `"x"`}, string(p.value)
	if !strings.HasPrefix(text, `"`) && (p.where == "header" || p.where == "metadata" || p.where == "param") && strings.Trim(text, "x😀") == "" {
		text = `"` + text + `"` // of those that are spelled
	}
	operation, param, query := "json", "x", ""
	s.body = []byte(s.members["body"])
	switch p.where {
	case "document":
		s.document = p.value
	case "body":
		if rest, fill := bytes.CutPrefix(p.value, []byte("@fill ")); fill {
			more, _ := strconv.Atoi(string(rest))
			s.members["params"], s.members["body"] = jsonObject(params), ""
			p.value = []byte(`"` + strings.Repeat("x", 1<<20+more-len(s.write())-2) + `"`)
		}
		s.members["body"], s.body = string(p.value), bytes.Trim(p.value, " \t\r\n")
	case "json-bytes", "bytes", "form-bytes":
		operation = map[string]string{"json-bytes": "json", "bytes": "raw", "form-bytes": "form"}[p.where]
		delete(s.members, "body")
		s.members["body_base64"], s.body = `"`+base64.StdEncoding.EncodeToString(p.value)+`"`, p.value
		if operation == "form" {
			s.members["content_type"] = `"application/x-www-form-urlencoded"`
		}
	case "form":
		operation, s.members["body"] = "form", text
		s.body = []byte("a+b=c%26d%3D%C3%A9&n=1e400&u=%00%E2%80%A8&l=x&l=true&l=-0")
	case "param":
		params["p"] = text
		if param = decoded(text); !strings.HasPrefix(text, `"`) {
			param = text // a number goes as it is written
		}
	case "query":
		s.members["query"], query = `{"q":`+text+`}`, "?q="+percent(decoded(text))
	case "header":
		s.members["headers"], s.header = `{"X-Odd":`+text+`}`, decoded(text)
	case "metadata":
		s.members["metadata"] = `{"odd":` + text + `}`
	case "label":
		s.members["metadata"] = `{` + text + `:"odd"}`
	case "key":
		s.key = text
	}
	s.members["operation"], s.members["params"] = `"`+operation+`"`, jsonObject(params)
	s.target = "/" + operation + "/" + params["n"] + "/" + percent(param) + query
	p.key = s.understood()
	return s
}

// understood is the key without the quotes that a caller may put around it.
func (s rawSubmission) understood() string {
	if len(s.key) > 1 && s.key[0] == '"' && s.key[len(s.key)-1] == '"' {
		return strings.ReplaceAll(s.key[1:len(s.key)-1], `\"`, `"`)
	}
	return s.key
}

// write makes the document.
func (s rawSubmission) write() []byte {
	if s.document != nil {
		return s.document
	}
	return []byte(jsonObject(s.members))
}

// jsonObject writes members whose values are JSON texts.
func jsonObject(members map[string]string) string {
	var b strings.Builder
	for _, name := range []string{"upstream", "operation", "n", "p", "params", "query", "headers", "content_type", "body", "body_base64", "metadata"} {
		if value, ok := members[name]; ok {
			fmt.Fprintf(&b, ",%q:%s", name, value)
		}
	}
	return "{" + b.String()[1:] + "}"
}

// decoded is the string that a JSON text stands for.
func decoded(text string) (s string) {
	_ = json.Unmarshal([]byte(text), &s) // what is no string will be refused
	return s
}

// percent writes a text as one segment of a path or one value of a query.
func percent(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// answer is what the API says.
type rawAnswer struct {
	status int
	header http.Header
	body   []byte
}

// ask makes a request of the API that no client of ours would make.
func (s *oddStage) ask(t testing.TB, method, path string, header map[string]string, body []byte) rawAnswer {
	t.Helper()
	request, err := http.NewRequestWithContext(bounded(t), method, s.env["EXECUTOR_URL"]+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+s.env["EXECUTOR_API_KEY"])
	for name, value := range header {
		request.Header[name] = []string{value}
	}
	response, err := s.caller.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return rawAnswer{response.StatusCode, response.Header, got}
}

// TestPayloadsArriveOrAreRefused: what is accepted is sent byte for byte, told byte
// for byte, and shown everywhere without harm; the rest is refused at the door, in
// words and with its place, and nothing of it is left.
func TestPayloadsArriveOrAreRefused(t *testing.T) {
	s := newOddStage(t)
	list := payloads(t)
	answers := s.submitPayloads(t, list)
	for i := range list {
		p, answer := &list[i], answers[i]
		t.Run(p.name, func(t *testing.T) {
			if p.refused != "" {
				s.refused(t, p, answer)
				return
			}
			if answer.status != http.StatusAccepted {
				t.Fatalf("%d %.300s", answer.status, answer.body)
			}
			s.arrived(t, p, decode[client.Command](t, string(answer.body)))
		})
	}
	t.Run("all of them in lists", func(t *testing.T) { s.listed(t, list) })
	if n := s.entries(`"level":"ERROR"`); n > 0 {
		t.Errorf("%d errors in the log:\n%s", n, s.log)
	}
}

// submitPayloads submits all of them, several at a time.
func (s *oddStage) submitPayloads(t *testing.T, list []payload) []rawAnswer {
	t.Helper()
	answers, room := make([]rawAnswer, len(list)), make(chan struct{}, submitting)
	var all sync.WaitGroup
	for i := range list {
		request := list[i].submission()
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			header := map[string]string{"Content-Type": "application/json", "Idempotency-Key": request.key}
			answers[i] = s.ask(t, http.MethodPost, "/v1/commands", header, request.write())
		})
	}
	all.Wait()
	return answers
}

// refused: the problem names the place, and there is no such command.
func (s *oddStage) refused(t *testing.T, p *payload, answer rawAnswer) {
	t.Helper()
	problem := decode[client.Problem](t, string(answer.body))
	got := strconv.Itoa(answer.status)
	if len(problem.Errors) > 0 {
		got = strings.TrimSuffix(fmt.Sprintf("%d %s%s", answer.status, problem.Errors[0].Pointer, problem.Errors[0].Header), " ")
	}
	place, _, _ := strings.Cut(got, "*")
	if !strings.HasPrefix(got, p.refused) || place == "" || answer.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("refused with %s, want %s: %.400s", got, p.refused, answer.body)
	}
	harmless(t, "the problem", answer.body)
	if p.where == "key" {
		return
	}
	if found := s.ask(t, http.MethodGet, "/v1/commands?key="+percent(p.key), nil, nil); !bytes.Contains(found.body, []byte(`"data":[]`)) {
		t.Errorf("there is a command all the same: %d %.300s", found.status, found.body)
	}
	if n := len(s.requests(p.number)); n > 0 {
		t.Errorf("it was sent %d times", n)
	}
}
