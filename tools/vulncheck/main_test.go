package main

import (
	"strings"
	"testing"
)

const scanned = `
{"osv": {"id": "GO-1", "summary": "one"}}
{"osv": {"id": "GO-2", "summary": "two"}}
{"finding": {"osv": "GO-1", "fixed_version": "v1.26.9", "trace": [{"module": "stdlib", "version": "v1.26.8", "function": "Read"}]}}
{"finding": {"osv": "GO-2", "fixed_version": "v2", "trace": [{"module": "example.com/m", "version": "v1", "function": "Do"}]}}
{"finding": {"osv": "GO-3", "trace": [{"module": "example.com/n", "version": "v1"}]}}`

func TestJudge(t *testing.T) {
	for _, tt := range []struct{ allowed, want string }{
		{"", "not allowed: GO-2"},
		{"# comment\nGO-2 only reached with the user's own input", ""},
		{"GO-2 reason\nGO-9 reason", "GO-9 (in allowed.txt"},
	} {
		found, err := read(strings.NewReader(scanned))
		if err != nil || len(found) != 2 {
			t.Fatalf("read = %v, %v; want the two that are called", found, err)
		}
		allowed, err := parseAllowed(tt.allowed)
		if err != nil {
			t.Fatal(err)
		}
		err = judge(found, allowed)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("allowed %q: %v, want %q", tt.allowed, err, tt.want)
		}
	}
	if _, err := parseAllowed("GO-2"); err == nil {
		t.Error("an exception without a reason was accepted")
	}
}
