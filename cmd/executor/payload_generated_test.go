//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"executor/client"
)

// TestWhatIsAcceptedIsSent generates submissions: each is refused with a problem that
// names a place, or accepted, sent byte for byte and shown as what it is. A failure of
// ours is neither.
func TestWhatIsAcceptedIsSent(t *testing.T) {
	s := newOddStage(t)
	var accepted, refused atomic.Int32
	number := 1000
	rapid.Check(t, func(rt *rapid.T) {
		number++
		p := payload{number: number, where: "generated"}
		request := generated(rt, &p)
		header := map[string]string{"Content-Type": "application/json", "Idempotency-Key": request.key, "Prefer": "wait=30"}
		answer := s.ask(t, http.MethodPost, "/v1/commands", header, request.write())
		list := s.requests(number)
		switch {
		case answer.status == http.StatusBadRequest || answer.status == http.StatusUnprocessableEntity:
			refused.Add(1)
			var problem client.Problem
			if err := json.Unmarshal(answer.body, &problem); err != nil || len(problem.Errors) == 0 || len(list) > 0 {
				rt.Fatalf("sent %d times, refused with %s", len(list), answer.body)
			}
		case answer.status != http.StatusOK || len(list) != 1:
			rt.Fatalf("sent %d times: %d %s of\n%s", len(list), answer.status, answer.body, request.write())
		case !bytes.Equal(list[0].Body, request.body) || list[0].Target != request.target || list[0].Header.Get("X-Odd") != request.header:
			rt.Fatalf("sent to %q, header %q: %q\nwant to %q, header %q: %q", list[0].Target, list[0].Header.Get("X-Odd"), list[0].Body, request.target, request.header, request.body)
		case !json.Valid(answer.body) || !sameMetadata(answer.body, request.members["metadata"]):
			rt.Fatalf("shown as %s", answer.body)
		default:
			accepted.Add(1)
		}
	})
	if accepted.Load() == 0 || refused.Load() == 0 {
		t.Errorf("%d were accepted and %d refused", accepted.Load(), refused.Load())
	}
	if n := s.entries(`"level":"ERROR"`); n > 0 {
		t.Errorf("%d errors in the log:\n%s", n, s.log)
	}
}

// sameMetadata compares what is shown with what was given, as encoding/json reads
// both.
func sameMetadata(shown []byte, given string) bool {
	var command struct{ Metadata map[string]string }
	want := map[string]string{}
	if json.Unmarshal(shown, &command) != nil || json.Unmarshal([]byte(given), &want) != nil || len(want) != len(command.Metadata) {
		return false
	}
	for name, value := range want {
		if got, ok := command.Metadata[name]; !ok || got != value {
			return false
		}
	}
	return true
}

// generated is a request with odd values in all its places.
func generated(rt *rapid.T, p *payload) rawSubmission {
	param, query, header := oddString(rt, "param"), oddString(rt, "query"), oddString(rt, "header")
	if header == `""` || rapid.IntRange(0, 2).Draw(rt, "plain") > 0 { // most headers are not refused
		header = strconv.Quote(rapid.StringMatching(`[!-~]([ -~]{0,20}[!-~])?`).Draw(rt, "a header"))
		header = strings.ReplaceAll(header, `\x7f`, "")
	}
	body := oddJSON(rt, 3)
	s := rawSubmission{key: fmt.Sprintf("generated-%d", p.number), body: bytes.Trim([]byte(body), " \t\r\n"), header: decoded(header)}
	s.members = map[string]string{
		"upstream": `"odd"`, "operation": `"json"`, "body": body, "query": `{"q":` + query + `}`, "headers": `{"x-odd":` + header + `}`,
		"params":   jsonObject(map[string]string{"n": strconv.Itoa(p.number), "p": param}),
		"metadata": `{` + oddString(rt, "label") + `:` + oddString(rt, "metadata") + `}`,
	}
	s.target = fmt.Sprintf("/json/%d/%s?q=%s", p.number, percent(decoded(param)), percent(decoded(query)))
	return s
}

// oddString is the JSON text of a string, most of them good.
func oddString(rt *rapid.T, label string) string {
	var b strings.Builder
	for range rapid.IntRange(0, 4).Draw(rt, label) {
		kind := rapid.IntRange(0, 99).Draw(rt, "kind")
		switch {
		case kind < 40:
			b.WriteString(rapid.SampledFrom([]string{"a", "B", "7", "-", ".", "..", "/", "%2F", "+", "&", "=", "'", "<", "č", "支", "😀", "\u202e", "\u2028", "\U0010ffff", "\ufffe"}).Draw(rt, "text"))
		case kind < 70:
			c, _ := json.Marshal(string(rapid.Rune().Draw(rt, "rune")))
			b.Write(c[1 : len(c)-1])
		case kind < 97:
			b.WriteString(rapid.SampledFrom([]string{`\"`, `\\`, `\/`, `\u0041`, `\u00e9`, `\ud83d\ude00`, `\u202E`, `\uFFFF`}).Draw(rt, "escape"))
		default:
			b.WriteString(rapid.SampledFrom([]string{`\u0000`, `\ud800`, `\udc00`, "\xff", `\n`, "\x01", `\x`}).Draw(rt, "bad"))
		}
	}
	return `"` + b.String() + `"`
}

// oddJSON is the text of a document, written as no encoder would.
func oddJSON(rt *rapid.T, depth int) string {
	space := func() string { return rapid.SampledFrom([]string{"", "", " ", "\n\t"}).Draw(rt, "space") }
	kind := rapid.IntRange(0, 9).Draw(rt, "value")
	if depth == 0 {
		kind %= 6
	}
	switch kind {
	case 0, 1:
		return space() + oddString(rt, "string")
	case 2, 3:
		return space() + rapid.StringMatching(`-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,6})?`).Draw(rt, "number")
	case 4:
		return rapid.SampledFrom([]string{"true", "false", "[ ]", "{}"}).Draw(rt, "word")
	case 5:
		return "[null]" // null alone counts as no body
	}
	var parts []string
	for i := range rapid.IntRange(0, 3).Draw(rt, "length") {
		part := oddJSON(rt, depth-1)
		if kind > 7 {
			part = fmt.Sprintf(`%s"%d%s:%s`, space(), i, oddString(rt, "name")[1:], part)
		}
		parts = append(parts, part+space())
	}
	if kind > 7 {
		return space() + "{" + strings.Join(parts, ",") + "}" + space()
	}
	return "[" + strings.Join(parts, ",") + "]"
}
