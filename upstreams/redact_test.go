package upstreams

import (
	"slices"
	"testing"
)

func TestRedactHeaders(t *testing.T) {
	o := operation(t, "redact: {headers: [x-card]}", "auth: {type: header, name: X-Ledger, value: file:ledger}")
	got := o.Redact([]Header{{"Authorization", "Bearer a"}, {"X-Ledger", "b"}, {"x-card", "c"}, {"Set-Cookie", "d"}, {"Proxy-Authorization", "e"}, {"X-Api-Key", "f"}, {"Idempotency-Key", "k"}, {"Accept", "g"}})
	want := []Header{{"Authorization", redacted}, {"X-Ledger", redacted}, {"x-card", redacted}, {"Set-Cookie", redacted}, {"Proxy-Authorization", redacted}, {"X-Api-Key", redacted}, {"Idempotency-Key", "k"}, {"Accept", "g"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestRedactBody(t *testing.T) {
	pointers := "redact: {request: [/card/number, /secrets, /list/1/pin, /a~1b], response: [/client_secret]}"
	json, form := operation(t, pointers), operation(t, "body: form\n"+pointers)
	tests := []struct {
		name      string
		operation *Operation
		request   bool
		body      string
		want      string
	}{
		{"nested", json, true, `{ "card" : {"number": "4242", "exp":1.0}, "z":1e2 }`, `{ "card" : {"number": "[redacted]", "exp":1.0}, "z":1e2 }`},
		{"whole object", json, true, `{"secrets":{"a":[1,2]},"b":2}`, `{"secrets":"[redacted]","b":2}`},
		{"list", json, true, `{"list":[{"pin":1},{"pin":2, "x":3}]}`, `{"list":[{"pin":1},{"pin":"[redacted]", "x":3}]}`},
		{"escaped", json, true, `{"a/b":true}`, `{"a/b":"[redacted]"}`},
		{"nothing there", json, true, `{"x":1}`, `{"x":1}`},
		{"response", json, false, `{"client_secret":null,"card":{"number":1}}`, `{"client_secret":"[redacted]","card":{"number":1}}`},
		{"behind a byte order mark", json, false, "\uFEFF" + `{"client_secret":"abc"}`, `{"client_secret":"[redacted]"}`},
		{"a request behind one", json, true, "\uFEFF" + `{"secrets":"abc"}`, redacted},
		{"cut", json, false, `{"client_secret":"abc`, redacted},
		{"twice", json, false, `{"client_secret":"a","client_secret":"b"}`, redacted},
		{"a page", json, false, `<html>client_secret=abc`, redacted},
		{"empty", json, false, ``, ``},
		{"form", form, true, `a=1&secrets=x%20y&secrets=z&b`, `a=1&secrets=%5Bredacted%5D&secrets=%5Bredacted%5D&b`},
		{"broken form", form, true, `%zz=1`, redacted},
	}
	for _, tt := range tests {
		if got := string(tt.operation.RedactBody([]byte(tt.body), tt.request)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	plain := operation(t, "")
	if got := string(plain.RedactBody([]byte("<html>"), false)); got != "<html>" {
		t.Errorf("nothing to redact: %s", got)
	}
}
