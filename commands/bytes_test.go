package commands_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"executor/commands"
)

// TestBodiesAreKeptByteForByte: what is stored for sending is what came.
func TestBodiesAreKeptByteForByte(t *testing.T) {
	tests := []struct {
		name, operation string
		body            []byte
	}{
		{"numbers beyond 2^53", "charge", []byte(`{"amount":9007199254740993,"id":1234567890123456789,"rate":1.0,"e":1e2}`)},
		{"spaces, order and escapes", "charge", []byte("{ \"b\" :1,\n\t\"a\":\"\\u00e9\\/é\"  }")},
		{"escaped NUL", "charge", []byte(`{"a":"\u0000"}`)},
		{"no object", "charge", []byte(`182295565`)},
		{"raw NUL", "upload", []byte("a\x00b")},
		{"raw, no UTF-8", "upload", []byte{0xff, 0xfe, 0x80, 0}},
		{"raw, empty", "upload", []byte{}},
		{"raw, large", "upload", bytes.Repeat([]byte{0, 1, 2, 0xff}, 1<<18)},
	}
	r := newRig(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := submission(tt.name, tt.operation)
			s.Body = tt.body
			c := r.submit(t, s)
			var stored []byte
			r.scan(t, `SELECT body FROM command_requests WHERE command_id = $1`, []any{c.ID}, &stored)
			if !bytes.Equal(stored, tt.body) {
				t.Errorf("stored %.60q, want %.60q", stored, tt.body)
			}
			p, err := r.store.DryRun(t.Context(), s)
			if err != nil || !bytes.Equal(p.Body, tt.body) || p.Existing == nil {
				t.Errorf("dry run: %.60q, existing %v, %v", p.Body, p.Existing, err)
			}
			other := s
			other.Body = append(bytes.Clone(tt.body), ' ')
			var m *commands.KeyMismatch
			if _, err := r.store.Submit(t.Context(), other); !errors.As(err, &m) {
				t.Errorf("one more byte under the same key: %v", err)
			}
		})
	}
}

// TestTheBytesAreTheRequest: the same document in other bytes is another request,
// and never a second command.
func TestTheBytesAreTheRequest(t *testing.T) {
	r := newRig(t)
	s := submission("k", "charge")
	s.Body = []byte(`{"amount":1,"to":"é"}`)
	c := r.submit(t, s)
	for _, body := range []string{
		`{"to":"é","amount":1}`, `{"amount": 1,"to":"é"}`, `{"amount":1.0,"to":"é"}`, `{"amount":1e0,"to":"é"}`, `{"amount":1,"to":"\u00e9"}`, "{\"amount\":1,\"to\":\"e\u0301\"}",
	} {
		s.Body = []byte(body)
		var m *commands.KeyMismatch
		if _, err := r.store.Submit(t.Context(), s); !errors.As(err, &m) || m.CommandID != c.ID || len(m.Differs) != 1 || m.Differs[0] != "body" {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// TestEmptyBodyIsNotNoBody: an operation that sends raw bytes may send none of
// them, but is not submitted without a body.
func TestEmptyBodyIsNotNoBody(t *testing.T) {
	r := newRig(t)
	empty, none := submission("empty", "upload"), submission("none", "upload")
	empty.Body = []byte{}
	none.Body, none.HasBody = nil, false
	r.submit(t, empty)
	var bad *commands.Invalid
	if _, err := r.store.Submit(t.Context(), none); !errors.As(err, &bad) || bad.Fields[0].Pointer != "/body" {
		t.Errorf("no body: %v", err)
	}
	none.Key = "empty"
	var m *commands.KeyMismatch
	if _, err := r.store.Submit(t.Context(), none); !errors.As(err, &m) || m.Differs[0] != "body" {
		t.Errorf("no body under the key of an empty one: %v", err)
	}
}

// TestKeyInBody: the key is written in as the last member of its object, every
// other byte stays, and what is compared is what the caller sent.
func TestKeyInBody(t *testing.T) {
	r := newRig(t)
	s := submission("k-1", "pay_in_body")
	s.Body = []byte("{\"amount\": 9007199254740993 , \"meta\": { \"a\" : 1.0 }\n}")
	c := r.submit(t, s)
	var stored string
	r.scan(t, `SELECT convert_from(body, 'UTF8') FROM command_requests WHERE command_id = $1`, []any{c.ID}, &stored)
	if want := strings.Replace(string(s.Body), "1.0", `1.0,"key":"k-1"`, 1); stored != want {
		t.Errorf("stored %q, want %q", stored, want)
	}
	if c.Record.Identity.In != "body" || c.Record.Identity.Key != "k-1" {
		t.Errorf("identity %+v", c.Record.Identity)
	}
	if a, err := r.store.Submit(t.Context(), s); err != nil || !a.Replayed {
		t.Errorf("repeat: %+v, %v", a, err)
	}
	s.Key = "k-2"
	s.Body = []byte(`{"meta":{"key":"another"}}`)
	var bad *commands.Invalid
	if _, err := r.store.Submit(t.Context(), s); !errors.As(err, &bad) || bad.Fields[0].Code != "conflict" {
		t.Errorf("another value in the key's place: %v", err)
	}
}

// TestRequestIsRenderedOnce: a profile applied later changes nothing about a
// command that was accepted under an earlier version.
func TestRequestIsRenderedOnce(t *testing.T) {
	r := newRig(t)
	s := submission("k", "pay")
	s.Params["account"] = "a/b?c#d %"
	s.Query = map[string]string{"mode": "a&b=c"}
	s.Headers = map[string]string{"x-trace": "t1"}
	c := r.submit(t, s)
	r.apply(t, strings.Replace(profile, "https://up.example/v2", "https://elsewhere.example", 1))
	var method, path, headers string
	r.scan(t, `SELECT method, path, headers::text FROM command_requests WHERE command_id = $1`, []any{c.ID}, &method, &path, &headers)
	if method != "POST" || path != "/v2/accounts/a%2Fb%3Fc%23d%20%25/payments?mode=a%26b%3Dc" {
		t.Errorf("%s %s", method, path)
	}
	for _, want := range []string{`"X-Trace"`, `"t1"`, `"Idempotency-Key"`, `"k"`, `"application/json"`} {
		if !strings.Contains(headers, want) {
			t.Errorf("headers %s lack %s", headers, want)
		}
	}
	if got := r.get(t, c.ID); got.ProfileVersion != 1 {
		t.Errorf("profile version %d", got.ProfileVersion)
	}
}
