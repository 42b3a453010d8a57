package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"executor/commands"
	"executor/internal/bodyfiles"
	"executor/upstreams"
)

func TestDecodeSubmission(t *testing.T) {
	deadline := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	tests := []struct {
		name, src string
		want      commands.Submission
	}{
		{"least", `{"upstream":"u","operation":"o"}`, commands.Submission{Upstream: "u", Operation: "o"}},
		{
			"everything", `{
				"upstream": "ledger", "operation": "pay", "params": {"account": "a1", "n": 12.50, "yes": true, "big": 9007199254740993},
				"query": {"q": false}, "headers": {"X-A": "b"}, "body": {"amount": 9007199254740993, "e": 1e400, "z": "\u0000\ud800"},
				"timeout": "15m", "not_before": "2026-12-01T00:00:00Z", "priority": "high", "metadata": {"order": "42"}}`,
			commands.Submission{
				Upstream: "ledger", Operation: "pay", Params: map[string]string{"account": "a1", "n": "12.50", "yes": "true", "big": "9007199254740993"},
				Query: map[string]string{"q": "false"}, Headers: map[string]string{"X-A": "b"},
				Body: []byte(`{"amount": 9007199254740993, "e": 1e400, "z": "\u0000\ud800"}`), HasBody: true,
				Timeout: 15 * time.Minute, NotBefore: &deadline, Priority: commands.PriorityHigh, Metadata: map[string]string{"order": "42"},
			},
		},
		{
			"null counts as left out",
			`{"upstream":"u","operation":"o","params":null,"query":null,"headers":null,"body":null,"body_base64":null,"content_type":null,
			  "deadline":null,"timeout":null,"not_before":null,"priority":null,"metadata":null}`,
			commands.Submission{Upstream: "u", Operation: "o"},
		},
		{
			"raw bytes", `{"upstream":"u","operation":"o","body_base64":"AP8=","content_type":"application/x-thing","deadline":"2026-12-01T00:00:00Z"}`,
			commands.Submission{Upstream: "u", Operation: "o", Body: []byte{0, 0xFF}, HasBody: true, ContentType: "application/x-thing", Deadline: &deadline},
		},
		{"empty raw bytes", `{"upstream":"u","operation":"o","body_base64":""}`, commands.Submission{Upstream: "u", Operation: "o", Body: []byte{}, HasBody: true}},
		{"a body may be any JSON", `{"upstream":"u","operation":"o","body": "x" }`, commands.Submission{Upstream: "u", Operation: "o", Body: []byte(`"x"`), HasBody: true}},
		{"escaped text", `{"upstream":"\u0075","operation":"o"}`, commands.Submission{Upstream: "u", Operation: "o"}},
	}
	for _, tt := range tests {
		got, err := decodeSubmission([]byte(tt.src))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.name, diff)
		}
	}
}

const digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// TestDecodeBodies: references and parts come as they were written; one one-shot
// part makes the whole body so.
func TestDecodeBodies(t *testing.T) {
	decode := func(members string) commands.Submission {
		t.Helper()
		sub, err := decodeSubmission([]byte(`{"upstream":"u","operation":"o",` + members + `}`))
		if err != nil {
			t.Fatal(err)
		}
		return sub
	}
	file := &bodyfiles.File{Path: "a/b.pdf", Size: 7, SHA256: digest}
	reference := `{"path":"a/b.pdf","size":7,"sha256":"` + digest + `"}`
	if got := decode(`"body_ref":` + reference + `,"parts":null,"body_kind":null`); got.HasBody || got.OneShot || *got.BodyFile != *file {
		t.Errorf("%+v", got)
	}
	if got := decode(`"body":{"a":1},"body_kind":"one_shot"`); !got.OneShot || string(got.Body) != `{"a":1}` {
		t.Errorf("%+v", got)
	}
	got := decode(`"parts":[{"name":"a","value":"é","filename":"f"},{"content_type":"text/json","body":{"n": 1e400},"name":"b"},
		{"name":"c","body":[]},{"name":"d","body_base64":"AP8=","body_kind":"one_shot"},{"name":"e","body_ref":` + reference + `}]`)
	want := []upstreams.Part{
		{Name: "a", Filename: "f", Body: []byte("é")}, {Name: "b", ContentType: "text/json", Body: []byte(`{"n": 1e400}`)},
		{Name: "c", ContentType: "application/json", Body: []byte(`[]`)}, {Name: "d", Body: []byte{0, 0xff}}, {Name: "e", File: file},
	}
	if diff := cmp.Diff(want, got.Parts); diff != "" || !got.OneShot {
		t.Errorf("one shot %v, parts %s", got.OneShot, diff)
	}
}

func TestDecodeSubmissionComplains(t *testing.T) {
	with := func(member string) string { return `{"upstream":"u","operation":"o",` + member + `}` }
	labels := func(n int, name, value string) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf("%q:%q", fmt.Sprintf("%s%d", name, i), value))
		}
		return `"metadata":{` + strings.Join(list, ",") + `}`
	}
	tests := []struct{ src, pointer, code string }{
		{`[]`, "", "type"},
		{`{"operation":"o"}`, "/upstream", "required"},
		{`{"upstream":"u"}`, "/operation", "required"},
		{`{"upstream":"","operation":"o"}`, "/upstream", "required"},
		{`{"upstream":null,"operation":"o"}`, "/upstream", "type"},
		{`{"upstream":7,"operation":"o"}`, "/upstream", "type"},
		{`{"upstream":"` + strings.Repeat("x", 101) + `","operation":"o"}`, "/upstream", "too_long"},
		{`{"upstream":"a\u0000","operation":"o"}`, "/upstream", "nul_character"},
		{`{"upstream":"u","operation":"\ud800"}`, "/operation", "lone_surrogate"},
		{`{"Upstream":"u","upstream":"u","operation":"o"}`, "/Upstream", "unknown_field"},
		{with(`"body_ref":"x"`), "/body_ref", "type"},
		{with(`"body_ref":{}`), "/body_ref", "invalid"},
		{with(`"body_ref":{"path":"../x","size":1,"sha256":"` + digest + `"}`), "/body_ref", "invalid"},
		{with(`"body_ref":{"path":"x","size":1.5,"sha256":"` + digest + `"}`), "/body_ref/size", "format"},
		{with(`"body_ref":{"path":"x","size":"1","sha256":"` + digest + `"}`), "/body_ref/size", "type"},
		{with(`"body_ref":{"path":"x","size":1,"sha256":"` + digest + `","tenant":"other"}`), "/body_ref/tenant", "unknown_field"},
		{with(`"body":1,"body_ref":{"path":"x","size":1,"sha256":"` + digest + `"}`), "/body_ref", "exclusive"},
		{with(`"body":1,"parts":[{"name":"a","value":"1"}]`), "/parts", "exclusive"},
		{with(`"parts":{}`), "/parts", "type"},
		{with(`"parts":[]`), "/parts", "too_few"},
		{with(`"parts":[1]`), "/parts/0", "type"},
		{with(`"parts":[{"name":"a"}]`), "/parts/0", "exclusive"},
		{with(`"parts":[{"name":"a","value":"1","body":1}]`), "/parts/0", "exclusive"},
		{with(`"parts":[{"name":"a","value":1}]`), "/parts/0/value", "type"},
		{with(`"parts":[{"name":"a","value":"1","size":1}]`), "/parts/0/size", "unknown_field"},
		{with(`"parts":[{"name":"a","body_kind":"x","value":"1"}]`), "/parts/0/body_kind", "unknown_value"},
		{with(`"parts":[{"name":"a","body_ref":{"path":"/x","size":1,"sha256":"` + digest + `"}}]`), "/parts/0/body_ref", "invalid"},
		{with(`"body":1,"body_kind":"reopenable"`), "/body_kind", "unknown_value"},
		{with(`"body":1,"body_kind":true`), "/body_kind", "type"},
		{with(`"idempotency_key":"k"`), "/idempotency_key", "unknown_field"},
		{with(`"params":[]`), "/params", "type"},
		{with(`"params":{"a":null}`), "/params/a", "type"},
		{with(`"params":{"a":{}}`), "/params/a", "type"},
		{with(`"params":{"a":"\u0000"}`), "/params/a", "nul_character"},
		{with(`"params":{"a\u0000":"x"}`), "/params/a\x00", "nul_character"},
		{with(`"params":{"":"x"}`), "/params/", "required"},
		{with(`"query":{"a":[1]}`), "/query/a", "type"},
		{with(`"headers":{"a":1}`), "/headers/a", "type"},
		{with(`"body":1,"body_base64":"AA=="`), "/body_base64", "exclusive"},
		{with(`"body_base64":"AA"`), "/body_base64", "format"},
		{with(`"body_base64":"A-_="`), "/body_base64", "format"},
		{with(`"body_base64":1`), "/body_base64", "type"},
		{with(`"content_type":"a\nb"`), "/content_type", "format"},
		{with(`"deadline":"tomorrow"`), "/deadline", "format"},
		{with(`"deadline":"2026-12-01"`), "/deadline", "format"},
		{with(`"deadline":"2026-12-01T00:00:00Z","timeout":"5m"`), "/timeout", "exclusive"},
		{with(`"timeout":"5"`), "/timeout", "format"},
		{with(`"timeout":"-5s"`), "/timeout", "format"},
		{with(`"timeout":"0s"`), "/timeout", "format"},
		{with(`"timeout":90`), "/timeout", "type"},
		{with(`"not_before":1`), "/not_before", "type"},
		{with(`"priority":"urgent"`), "/priority", "unknown_value"},
		{with(`"metadata":[]`), "/metadata", "type"},
		{with(`"metadata":{"a":1}`), "/metadata/a", "type"},
		{with(`"metadata":{"a":"\u0000"}`), "/metadata/a", "nul_character"},
		{with(labels(51, "n", "v")), "/metadata", "too_many"},
		{with(labels(1, strings.Repeat("n", 40), "v")), "/metadata/" + strings.Repeat("n", 40) + "0", "too_long"},
		{with(labels(1, "n", strings.Repeat("é", 501))), "/metadata/n0", "too_long"},
	}
	for _, tt := range tests {
		_, err := decodeSubmission([]byte(tt.src))
		f := problemFor(err)
		if err == nil || f.code != ProblemCodeInvalidRequest || len(f.fields) != 1 {
			t.Errorf("%.90s: %v", tt.src, err)
			continue
		}
		if f.fields[0].Pointer != tt.pointer || f.fields[0].Code != tt.code {
			t.Errorf("%.90s: %s at %q, want %s at %q", tt.src, f.fields[0].Code, f.fields[0].Pointer, tt.code, tt.pointer)
		}
	}
}

func TestDecodeSubmissionNamesEveryFault(t *testing.T) {
	_, err := decodeSubmission([]byte(`{"operation":1,"params":{"a":null},"colour":"red","timeout":"x"}`))
	var got []string
	for _, f := range problemFor(err).fields {
		got = append(got, f.Pointer)
	}
	if diff := cmp.Diff([]string{"/operation", "/params/a", "/colour", "/timeout", "/upstream"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestDecodeSubmissionAcceptsItsLimits(t *testing.T) {
	var labels []string
	for i := range maxMetadata {
		labels = append(labels, fmt.Sprintf("%q:%q", fmt.Sprintf("%s%02d", strings.Repeat("é", 38), i), strings.Repeat("é", 500)))
	}
	sub, err := decodeSubmission([]byte(`{"upstream":"u","operation":"o","metadata":{` + strings.Join(labels, ",") + `}}`))
	if err != nil || len(sub.Metadata) != maxMetadata {
		t.Errorf("%d names, %v", len(sub.Metadata), err)
	}
}

func TestDecodeBatch(t *testing.T) {
	items, err := decodeBatch([]byte(`{"commands":[
		{"idempotency_key":"k1","upstream":"u","operation":"o","body":[1, 2]},
		{"upstream":"u","operation":"o"},
		{"idempotency_key":"","upstream":"u","operation":"o","x":1},
		7]}`))
	if err != nil {
		t.Fatal(err)
	}
	if items[0].err != nil || items[0].sub.Key != "k1" || string(items[0].sub.Body) != "[1, 2]" {
		t.Errorf("first item: %+v", items[0])
	}
	want := [][]string{nil, {"/commands/1/idempotency_key"}, {"/commands/2/idempotency_key", "/commands/2/x"}, {"/commands/3"}}
	for i, item := range items {
		var got []string
		if item.err != nil {
			for _, f := range problemFor(item.err).fields {
				got = append(got, f.Pointer)
			}
		}
		if diff := cmp.Diff(want[i], got); diff != "" {
			t.Errorf("item %d: %s", i, diff)
		}
	}
}

func TestDecodeBatchRefusesTheWhole(t *testing.T) {
	many := `{"commands":[` + strings.Repeat(`{},`, maxBatch) + `{}]}`
	for src, want := range map[string]string{
		`{}`: "/commands", `{"commands":[]}`: "/commands", `{"commands":{}}`: "/commands", `{"commands":[{}],"x":1}`: "/x", many: "/commands",
		`{"commands":[{"body":{"a":1,"a":2}}]}`: "/commands/0/body/a",
	} {
		_, err := decodeBatch([]byte(src))
		if err == nil || problemFor(err).fields[0].Pointer != want {
			t.Errorf("%.60s: %v, want a complaint at %s", src, err, want)
		}
	}
}

// FuzzSubmit holds the reader against encoding/json: what it accepts is JSON,
// and the body is taken as its bytes stand in the document.
func FuzzSubmit(f *testing.F) {
	for _, seed := range []string{
		`{"upstream":"u","operation":"o","body":{"a":[1,2.50,"\u0000\ud800"]},"params":{"p":1e400},"metadata":{"k":"v"}}`,
		`{"upstream":"u","operation":"o","body_base64":"AP8=","timeout":"1m"}`, `{"a":1,"a":2}`, `[`, "{\"\xff\":0}", `{"body":"\u00`, `{"":{"":{"":0}}}`,
		`{"upstream":"\ud83d\ude00","operation":"\"\\\/\b\f\n\r\t"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		r := newJSONReader(src)
		scanned := r.document(r.skip)
		sub, err := decodeSubmission(src)
		if scanned != nil && (err == nil || problemFor(err).code == ProblemCodeInternalError) {
			t.Fatalf("the scan says %v, the submission %v", scanned, err)
		}
		if (scanned == nil) && !json.Valid(src) {
			t.Fatal("accepted what encoding/json refuses")
		}
		if _, err := decodeBatch(src); err != nil && problemFor(err).code == ProblemCodeInternalError {
			t.Fatal(err)
		}
		if err != nil {
			return
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(src, &members); err != nil {
			t.Fatal(err)
		}
		var upstream string
		if err := json.Unmarshal(members["upstream"], &upstream); err != nil || upstream != sub.Upstream {
			t.Fatalf("upstream %q, encoding/json has %q", sub.Upstream, upstream)
		}
		if body, ok := members["body"]; ok && sub.HasBody && !bytes.Equal(body, sub.Body) {
			t.Fatalf("body %q, encoding/json has %q", sub.Body, body)
		}
	})
}
