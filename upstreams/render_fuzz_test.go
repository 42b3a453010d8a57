package upstreams

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzRender: a body is sent as it came, whatever is in it; with a key in it, taking
// the key out gives it back. A parameter stays one segment. What is refused names its
// place.
func FuzzRender(f *testing.F) {
	for _, body := range []string{"", "{}", "null", ` { "a" : 1e400 } `, `{"key":"k"}`, `{"meta":{"key":"k","x":[1,2]}}`, `{"meta":{}}`, `{"meta":7}`, `{"meta":{"a":"\ud800"}}`, `{"\u006deta":{"k":1}}`,
		`{"a":1,"a":2}`, "\xff", "[[[", "a=1&b=%00", "{\"a\":\"\u2028\"}", `{"meta":{"k\u0065y":"other"}}`, "\ufeff{}"} {
		f.Add([]byte(body), "k", "a/b")
		f.Add([]byte(body), `"\`, "..")
	}
	plain := operation(f, "path: /a/{p}/z\nbody: json")
	raw := operation(f, "path: /a/{p}/z\nbody: raw")
	inside := operation(f, "path: /a/{p}/z\nbody: json\nidempotency: {kind: keyed, retention: 24h, key: {in: body, name: /meta/key}}")
	form := operation(f, "path: /a/{p}/z\nbody: form\nidempotency: {kind: keyed, retention: 24h, key: {in: body, name: /key}}")
	f.Fuzz(func(t *testing.T, body []byte, key, param string) {
		in := Input{Key: key, Body: body, HasBody: true, Params: map[string]string{"p": param}}
		sent, err := raw.Render(in)
		if err != nil {
			wantPlaces(t, err, "/params/p")
			return
		}
		if !bytes.Equal(sent.Body, body) {
			t.Fatalf("%q is sent as %q", body, sent.Body)
		}
		parts := strings.Split(sent.Path, "/")
		if back, err := url.PathUnescape(parts[len(parts)-2]); err != nil || len(parts) != 5 || back != param {
			t.Fatalf("%q is sent as %s", param, sent.Path)
		}
		if got, err := plain.Render(in); err != nil {
			wantPlaces(t, err, "/body")
		} else if !bytes.Equal(got.Body, body) || !json.Valid(body) || !utf8.Valid(body) {
			t.Fatalf("%q is sent as %q", body, got.Body)
		}
		checkInside(t, inside, in)
		if got, err := form.Render(in); err != nil {
			wantPlaces(t, err, "/body", "/idempotency_key")
		} else if values, err := url.ParseQuery(string(got.Body)); err != nil || len(values["key"]) != 1 || values.Get("key") != key {
			t.Fatalf("%q is sent as %q, %v", body, got.Body, err)
		}
	})
}

// checkInside: the key is the one thing that is added, where it has to be.
func checkInside(t *testing.T, o *Operation, in Input) {
	t.Helper()
	got, err := o.Render(in)
	if err != nil {
		wantPlaces(t, err, "/body", "/idempotency_key")
		return
	}
	added := `"key":` + quoteJSON(in.Key)
	at := bytes.LastIndex(got.Body, []byte(added))
	without := func(from int) bool {
		return string(got.Body[:from])+string(got.Body[at+len(added):]) == string(in.Body)
	}
	if !bytes.Equal(got.Body, in.Body) && (at < 1 || !without(at) && !without(at-1)) {
		t.Fatalf("%q is sent as %q", in.Body, got.Body)
	}
	var document struct{ Meta map[string]any }
	if err := json.Unmarshal(got.Body, &document); err != nil || document.Meta["key"] != in.Key {
		t.Fatalf("%q is sent as %q, %v", in.Body, got.Body, err)
	}
}

// wantPlaces: every complaint is about one of the places.
func wantPlaces(t *testing.T, err error, places ...string) {
	t.Helper()
	bad, ok := err.(*InputError)
	if !ok || len(bad.Fields) == 0 {
		t.Fatalf("refused with %v", err)
	}
	for _, field := range bad.Fields {
		within := func(place string) bool { return field.Pointer == place || strings.HasPrefix(field.Pointer, place+"/") }
		if !slices.ContainsFunc(places, within) || field.Code == "" || field.Detail == "" || !utf8.ValidString(field.Detail) {
			t.Fatalf("%+v is about none of %q", field, places)
		}
	}
}
