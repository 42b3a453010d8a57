package upstreams

import (
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"
)

const payment = `
path: /accounts/{account}/payments
query: {version: 2, of: "a/{account}"}
caller_query: [expand]
caller_headers: [X-Trace, Accept]
idempotency: {kind: keyed, retention: 24h, key: {max_length: 40}, retry_headers: {X-Retry: 1}}`

func TestRender(t *testing.T) {
	o := operation(t, payment, "headers: {Accept: application/json, X-Fixed: yes}")
	got, err := o.Render(Input{
		Key: "k 1", Params: map[string]string{"account": "a/b?x=1#f;é"},
		Query: map[string]string{"expand": "a&b=c +"}, Headers: map[string]string{"accept": "text/plain", "X-TRACE": "t"},
		Body: []byte(`{"amount": 9007199254740993}`), HasBody: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := Request{
		Method: "POST",
		Path:   "/v2/accounts/a%2Fb%3Fx%3D1%23f%3B%C3%A9/payments?of=a%2Fa%2Fb%3Fx%3D1%23f%3B%C3%A9&version=2&expand=a%26b%3Dc%20%2B",
		Headers: []Header{
			{"Accept", "text/plain"}, {"X-Fixed", "yes"}, {"X-Trace", "t"}, {"Idempotency-Key", "k 1"}, {"Content-Type", "application/json"},
		},
		Body: []byte(`{"amount": 9007199254740993}`), ContentType: "application/json",
		Identity: Identity{In: "header", Name: "Idempotency-Key", Key: "k 1"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	same(t, "retry headers", o.RetryHeaders(), []Header{{"X-Retry", "1"}})
}

func TestRenderRefuses(t *testing.T) {
	o := operation(t, payment)
	ok := func() Input {
		return Input{Key: "k", Params: map[string]string{"account": "a"}, Body: []byte(`{}`), HasBody: true}
	}
	tests := []struct {
		name          string
		change        func(*Input)
		pointer, code string
	}{
		{"no parameter", func(in *Input) { in.Params = nil }, "/params/account", "required"},
		{"empty", func(in *Input) { in.Params["account"] = "" }, "/params/account", "invalid"},
		{"dot", func(in *Input) { in.Params["account"] = "." }, "/params/account", "invalid"},
		{"dots", func(in *Input) { in.Params["account"] = ".." }, "/params/account", "invalid"},
		{"line break", func(in *Input) { in.Params["account"] = "a\r\nb" }, "/params/account", "invalid"},
		{"NUL", func(in *Input) { in.Params["account"] = "a\x00" }, "/params/account", "invalid"},
		{"broken UTF-8", func(in *Input) { in.Params["account"] = "a\xff" }, "/params/account", "invalid"},
		{"too long", func(in *Input) { in.Params["account"] = strings.Repeat("a", maxTarget) }, "/params", "too_long"},
		{"unknown parameter", func(in *Input) { in.Params["a/b~"] = "x" }, "/params/a~1b~0", "unknown"},
		{"query", func(in *Input) { in.Query = map[string]string{"version": "3"} }, "/query/version", "forbidden"},
		{"query value", func(in *Input) { in.Query = map[string]string{"expand": "\n"} }, "/query/expand", "invalid"},
		{"header", func(in *Input) { in.Headers = map[string]string{"Authorization": "x"} }, "/headers/Authorization", "forbidden"},
		{"key header", func(in *Input) { in.Headers = map[string]string{"idempotency-key": "x"} }, "/headers/idempotency-key", "forbidden"},
		{"header value", func(in *Input) { in.Headers = map[string]string{"X-Trace": "a\r\nHost: b"} }, "/headers/X-Trace", "invalid"},
		{"header value NUL", func(in *Input) { in.Headers = map[string]string{"X-Trace": "a\x00"} }, "/headers/X-Trace", "invalid"},
		{"header value space", func(in *Input) { in.Headers = map[string]string{"X-Trace": "a "} }, "/headers/X-Trace", "invalid"},
		{"header value umlaut", func(in *Input) { in.Headers = map[string]string{"X-Trace": "ä"} }, "/headers/X-Trace", "invalid"},
		{"header twice", func(in *Input) { in.Headers = map[string]string{"X-Trace": "a", "x-trace": "b"} }, "/headers/x-trace", "invalid"},
		{"no key", func(in *Input) { in.Key = "" }, "/idempotency_key", "required"},
		{"long key", func(in *Input) { in.Key = strings.Repeat("k", 41) }, "/idempotency_key", "too_long"},
		{"odd key", func(in *Input) { in.Key = "k\n" }, "/idempotency_key", "invalid"},
		{"no body", func(in *Input) { in.HasBody, in.Body = false, nil }, "/body", "required"},
		{"no JSON", func(in *Input) { in.Body = []byte("amount=1") }, "/body", "invalid"},
		{"member twice", func(in *Input) { in.Body = []byte(`{"a":1,"a":2}`) }, "/body", "invalid"},
		{"body UTF-8", func(in *Input) { in.Body = []byte("{\"a\":\"\xff\"}") }, "/body", "invalid"},
		{"deep", func(in *Input) { in.Body = []byte(strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)) }, "/body", "invalid"},
		{"other type", func(in *Input) { in.ContentType = "text/plain" }, "/content_type", "invalid"},
		{"other charset", func(in *Input) { in.ContentType = "application/json; charset=latin1" }, "/content_type", "invalid"},
		{"type with a line break", func(in *Input) { in.ContentType = "application/json\r\nHost: b" }, "/content_type", "invalid"},
	}
	for _, tt := range tests {
		in := ok()
		tt.change(&in)
		_, err := o.Render(in)
		var bad *InputError
		if !errors.As(err, &bad) || len(bad.Fields) != 1 || bad.Fields[0].Pointer != tt.pointer || bad.Fields[0].Code != tt.code || bad.Fields[0].Detail == "" {
			t.Errorf("%s: %v, want %s %s", tt.name, err, tt.pointer, tt.code)
		}
	}
	in := Input{Query: map[string]string{"a": ""}, Headers: map[string]string{"b": ""}}
	var bad *InputError
	if _, err := o.Render(in); !errors.As(err, &bad) || len(bad.Fields) != 5 {
		t.Errorf("everything at once: %v", err)
	}
}

// TestRenderBodies: each encoding, and the places of a key.
// TestAHopelessSubmission is not answered name by name: the answer to a megabyte of
// names would be one of many.
func TestAHopelessSubmission(t *testing.T) {
	o := operation(t, payment)
	many := make(map[string]string, 10_000)
	for i := range 10_000 {
		many["n"+strconv.Itoa(i)] = ""
	}
	for name, in := range map[string]Input{
		"params": {Key: "k", Params: many}, "query": {Key: "k", Query: many}, "headers": {Key: "k", Headers: many},
	} {
		_, err := o.Render(in)
		var bad *InputError
		if !errors.As(err, &bad) || len(bad.Fields) > maxInputProblems {
			t.Errorf("%s: %.200v", name, err)
		}
	}
}

func TestRenderBodies(t *testing.T) {
	id := uuid.MustParse("01890000-0000-7000-8000-000000000001")
	tests := []struct {
		name, operation, contentType, body string
		want, wantType                     string // the body, or the pointer and code of the problem
	}{
		{"vendor JSON", "body: json", "application/vnd.api+json", `{"a":1}`, `{"a":1}`, "application/vnd.api+json"},
		{"bytes untouched", "body: json", "", " {\"a\" :1.0e2,\n\"é\":\"\\u00e9\"} ", " {\"a\" :1.0e2,\n\"é\":\"\\u00e9\"} ", "application/json"},
		{"raw", "body: raw", "text/csv; charset=utf-8", "a,b\n\xff", "a,b\n\xff", "text/csv; charset=utf-8"},
		{"raw without a type", "body: raw", "", "x", "x", "application/octet-stream"},
		{"none", "method: DELETE", "", "", "", ""},
		{"none, but one came", "body: none", "", "{}", "/body", "forbidden"},
		{"form", "body: form", "", `{"b":"x y&z","a":12.50,"c":true,"d":[1,"é"],"m[k]":"v"}`, "b=x+y%26z&a=12.50&c=true&d=1&d=%C3%A9&m%5Bk%5D=v", formType},
		{"form as it is", "body: form", formType, "b=1&a=%20x", "b=1&a=%20x", formType},
		{"deep form", "body: form", "", `{"a":{"b":1}}`, "/body/a", "invalid"},
		{"null in a form", "body: form", "", `{"a":null}`, "/body/a", "invalid"},
		{"form of a list", "body: form", "", `[1]`, "/body", "invalid"},
		{"broken form", "body: form", formType, `a=%zz`, "/body", "invalid"},
		{"form of text", "body: form", "text/plain", `a`, "/content_type", "invalid"},

		{"key last", keyed("json", "/key"), "", `{ "a": 1 }`, `{ "a": 1,"key":"k\"1" }`, "application/json"},
		{"key alone", keyed("json", "/key"), "", `{ }`, `{"key":"k\"1" }`, "application/json"},
		{"key inside", keyed("json", "/meta/key"), "", `{"meta":{"x":[1]},"z":2}`, `{"meta":{"x":[1],"key":"k\"1"},"z":2}`, "application/json"},
		{"key there", keyed("json", "/key"), "", `{"key": "k\u00221", "a":1}`, `{"key": "k\u00221", "a":1}`, "application/json"},
		{"another key there", keyed("json", "/key"), "", `{"key":"other"}`, "/body/key", "conflict"},
		{"a number there", keyed("json", "/key"), "", `{"key":1}`, "/body/key", "conflict"},
		{"no object for it", keyed("json", "/meta/key"), "", `{"a":1}`, "/body/meta", "required"},
		{"a list for it", keyed("json", "/meta/key"), "", `{"meta":[]}`, "/body/meta", "invalid"},
		{"a list as body", keyed("json", "/key"), "", `[]`, "/body", "invalid"},
		{"escaped pointer", keyed("json", "/a~1b~0"), "", `{}`, `{"a/b~":"k\"1"}`, "application/json"},
		{"key in a form", keyed("form", "/key"), "", `{"a":1}`, "a=1&key=k%221", formType},
		{"key in a form, there", keyed("form", "/key"), "", `{"key":"k\"1","a":1}`, "key=k%221&a=1", formType},
		{"key in a form, another there", keyed("form", "/key"), "", `{"key":"x"}`, "/body/key", "conflict"},
		{"key in an encoded form", keyed("form", "/key"), formType, `a=%20`, "a=%20&key=k%221", formType},
		{"key in an empty form", keyed("form", "/key"), formType, ``, "key=k%221", formType},
		{"key in an encoded form, there", keyed("form", "/key"), formType, `key=k%221`, "key=k%221", formType},
		{"key in an encoded form, twice", keyed("form", "/key"), formType, `key=k%221&key=x`, "/body/key", "conflict"},
	}
	for _, tt := range tests {
		o := operation(t, tt.operation)
		got, err := o.Render(Input{Key: `k"1`, CommandID: id, Body: []byte(tt.body), HasBody: tt.body != "" || tt.contentType != "", ContentType: tt.contentType})
		var bad *InputError
		if errors.As(err, &bad) {
			got.Body, got.ContentType = []byte(bad.Fields[0].Pointer), bad.Fields[0].Code
		}
		if string(got.Body) != tt.want || got.ContentType != tt.wantType {
			t.Errorf("%s: %q %q, want %q %q", tt.name, got.Body, got.ContentType, tt.want, tt.wantType)
		}
	}
}

func keyed(body, name string) string {
	return "body: " + body + "\nidempotency: {kind: keyed, retention: 24h, key: {in: body, name: " + name + "}}"
}

func TestKeyPlaces(t *testing.T) {
	id := uuid.MustParse("01890000-0000-7000-8000-000000000001")
	in := Input{Key: "a b&c", CommandID: id, Body: []byte(`{}`), HasBody: true}
	query := operation(t, "idempotency: {kind: keyed, retention: 24h, key: {in: query, name: request id}}")
	if got, err := query.Render(in); err != nil || got.Path != "/v2/payments?request%20id=a%20b%26c" || got.Identity != (Identity{"query", "request id", "a b&c"}) {
		t.Errorf("query: %+v %v", got, err)
	}
	own := operation(t, "idempotency: {kind: keyed, retention: 24h, key: {from: command_id, name: X-Request}}")
	if got, err := own.Render(in); err != nil || got.Identity != (Identity{"header", "X-Request", id.String()}) || !slices.Contains(got.Headers, Header{"X-Request", id.String()}) {
		t.Errorf("command id: %+v %v", got, err)
	}
	unkeyed := operation(t, "idempotency: {kind: natural}")
	if got, err := unkeyed.Render(in); err != nil || got.Identity != (Identity{}) || len(got.Headers) != 1 {
		t.Errorf("no key: %+v %v", got, err)
	}
	successes := operation(t, "idempotency: {kind: keyed, retention: 24h, preserves: success}")
	if got, err := successes.Render(in); err != nil || got.Identity.Key != "a b&c" {
		t.Errorf("a key that is not relied on is sent all the same: %+v %v", got, err)
	}
}

// TestRenderHitsOnlyTheTemplatedPath: whatever the parameters hold, the path has
// the segments of the template, and each decodes to what was given.
func TestRenderHitsOnlyTheTemplatedPath(t *testing.T) {
	o := operation(t, "path: /a/{x}/b/{y}.json\nquery: {q: '{x}'}\ncaller_query: [c]\nbody: none")
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[./%?#;&=\\ +:@a-f0-9]{0,12}`), rapid.SampledFrom([]string{"../admin", "a/b?x=1#f", "%2e%2e", "%2F", "..;", "//", ".", "..", "", "é"}))
		x, y, c := text.Draw(t, "x"), text.Draw(t, "y"), text.Draw(t, "c")
		got, err := o.Render(Input{Params: map[string]string{"x": x, "y": y}, Query: map[string]string{"c": c}})
		bad := func(s string) bool { return s == "" || isDots(s) || !plainText(s) }
		if bad(x) || bad(y) || !plainText(c) {
			if err == nil {
				t.Fatalf("%q %q %q was accepted as %s", x, y, c, got.Path)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path, query, _ := strings.Cut(got.Path, "?")
		segments := strings.Split(path, "/")
		want := []string{"", "v2", "a", x, "b", y + ".json"}
		if len(segments) != len(want) {
			t.Fatalf("%s has other segments", path)
		}
		for i, s := range segments {
			if decoded, err := url.PathUnescape(s); err != nil || decoded != want[i] {
				t.Fatalf("segment %q decodes to %q, want %q", s, decoded, want[i])
			}
		}
		values, err := url.ParseQuery(query)
		if err != nil || len(values) != 2 || values.Get("q") != x || values.Get("c") != c {
			t.Fatalf("query %q: %v %v", query, values, err)
		}
		u, err := url.Parse("https://ledger.example" + got.Path)
		if err != nil || u.Host != "ledger.example" || u.Fragment != "" || u.JoinPath().EscapedPath() != path {
			t.Fatalf("%q parses as %v: %v", got.Path, u, err)
		}
	})
}

// TestInsertLeavesEveryOtherByte: removing what was inserted gives the body back.
func TestInsertLeavesEveryOtherByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := rapid.MapOf(rapid.String(), rapid.OneOf(rapid.Int().AsAny(), rapid.String().AsAny(), rapid.SliceOf(rapid.Bool()).AsAny())).Draw(t, "members")
		delete(members, "key")
		indent := rapid.SampledFrom([]string{"", " ", "\t"}).Draw(t, "indent")
		body, err := json.MarshalIndent(members, "", indent)
		if err != nil {
			t.Fatal(err)
		}
		value := rapid.StringMatching(`[!-~]{1,20}`).Draw(t, "value")
		got, bad := insertMember(body, []string{"key"}, value)
		if bad != nil {
			t.Fatal(bad)
		}
		var document map[string]any
		if err := json.Unmarshal(got, &document); err != nil || document["key"] != value || len(document) != len(members)+1 {
			t.Fatalf("%s: %v", got, err)
		}
		added := `"key":` + quoteJSON(value)
		rest := strings.Replace(strings.Replace(string(got), ","+added, "", 1), added, "", 1)
		if rest != string(body) {
			t.Fatalf("%q became %q", body, got)
		}
	})
}
