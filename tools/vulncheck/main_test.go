package main

import (
	"strings"
	"testing"
	"time"
)

const scanned = `
{"osv": {"id": "GO-1", "summary": "one"}}
{"osv": {"id": "GO-2", "summary": "two"}}
{"finding": {"osv": "GO-1", "fixed_version": "v1.26.9", "trace": [{"module": "stdlib", "version": "v1.26.8", "function": "Read"}]}}
{"finding": {"osv": "GO-1", "fixed_version": "v1.26.9", "trace": [{"module": "stdlib", "version": "v1.26.8"}]}}
{"finding": {"osv": "GO-2", "fixed_version": "v2", "trace": [{"module": "example.com/m", "version": "v1", "function": "Do"}]}}
{"finding": {"osv": "GO-3", "trace": [{"module": "example.com/n", "version": "v1"}]}}`

func TestJudge(t *testing.T) {
	const one, two = "GO-1 stdlib 2026-05-01 no server of ours\n", "GO-2 example.com/m 2026-05-01 only with the user's own input\n"
	for _, tt := range []struct{ name, allowed, day, want string }{
		{"nothing allowed", "", "2026-04-30", "not allowed: GO-1, GO-2"},
		{"all allowed", "# comment\n\n" + one + two, "2026-04-30", ""},
		{"on the last day", one + two, "2026-05-01", ""},
		{"after it", one + two, "2026-05-02", "GO-1 (allowed until 2026-05-01), GO-2"},
		{"for another module", one + strings.Replace(two, "m ", "n ", 1), "2026-04-30", "not allowed: GO-2"},
		{"not needed any more", one + two + "GO-9 example.com/m 2026-05-01 reason", "2026-04-30", "GO-9 (in allowed.txt"},
		{"a newer Go", one + two + "GO-8 stdlib 2026-05-01 reason", "2026-04-30", ""},
	} {
		found, err := read(strings.NewReader(scanned))
		if err != nil || len(found) != 3 || len(called(found)) != 2 {
			t.Fatalf("read = %v, %v; want three, two of them called", found, err)
		}
		allowed, err := parseAllowed(tt.allowed)
		if err != nil {
			t.Fatal(err)
		}
		day, _ := time.Parse(time.DateOnly, tt.day)
		err = judge(called(found), allowed, day.Add(12*time.Hour))
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestAnExceptionIsWhole(t *testing.T) {
	for _, line := range []string{"GO-2", "GO-2 stdlib 2026-05-01", "GO-2 stdlib sometime reason", "GO-2 2026-05-01 stdlib reason"} {
		if _, err := parseAllowed(line); err == nil {
			t.Errorf("%q was accepted", line)
		}
	}
	if _, err := parseAllowed(allowedText); err != nil {
		t.Error(err)
	}
}
