package api

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestIdempotencyKey(t *testing.T) {
	tests := []struct {
		values []string
		want   string
		code   ProblemCode
	}{
		{nil, "", ProblemCodeMissingIdempotencyKey},
		{[]string{"abc"}, "abc", ""},
		{[]string{`"abc"`}, "abc", ""},
		{[]string{` "abc" `}, "abc", ""},
		{[]string{`"a\"b\\c"`}, `a"b\c`, ""},
		{[]string{`a"b`}, `a"b`, ""},
		{[]string{"with space"}, "with space", ""},
		{[]string{strings.Repeat("k", 255)}, strings.Repeat("k", 255), ""},
		{[]string{`"` + strings.Repeat("k", 255) + `"`}, strings.Repeat("k", 255), ""},
		{[]string{strings.Repeat("k", 256)}, "", ProblemCodeInvalidIdempotencyKey},
		{[]string{""}, "", ProblemCodeInvalidIdempotencyKey},
		{[]string{`""`}, "", ProblemCodeInvalidIdempotencyKey},
		{[]string{`"abc`}, "", ProblemCodeInvalidIdempotencyKey},
		{[]string{`"abc";p=1`}, "", ProblemCodeInvalidIdempotencyKey},
		{[]string{`"a\b"`}, "", ProblemCodeInvalidIdempotencyKey},
		{[]string{`"a\`}, "", ProblemCodeInvalidIdempotencyKey},
		{[]string{"é"}, "", ProblemCodeInvalidIdempotencyKey},
		{[]string{"a\tb"}, "", ProblemCodeInvalidIdempotencyKey},
		{[]string{"a", "a"}, "", ProblemCodeInvalidIdempotencyKey},
	}
	for _, tt := range tests {
		key, err := idempotencyKey(http.Header{keyHeader: tt.values})
		if tt.code != "" {
			if err == nil || problemFor(err).code != tt.code || problemFor(err).fields[0].Header != keyHeader {
				t.Errorf("%q: %q, %v; want %s", tt.values, key, err, tt.code)
			}
			continue
		}
		if err != nil || key != tt.want {
			t.Errorf("%q: %q, %v; want %q", tt.values, key, err, tt.want)
		}
	}
}

func TestPreferredWait(t *testing.T) {
	tests := []struct {
		values []string
		want   time.Duration
		asked  bool
	}{
		{nil, 0, false},
		{[]string{"wait=5"}, 5 * time.Second, true},
		{[]string{"wait=0"}, 0, true},
		{[]string{"wait=600"}, maxWait, true},
		{[]string{`respond-async, Wait = "7"; x=y`}, 7 * time.Second, true},
		{[]string{"respond-async", "wait=3"}, 3 * time.Second, true},
		{[]string{"wait=2, wait=9"}, 2 * time.Second, true},
		{[]string{"wait=-1"}, 0, false},
		{[]string{"wait=soon"}, 0, false},
		{[]string{"wait"}, 0, false},
		{[]string{"return=minimal"}, 0, false},
	}
	for _, tt := range tests {
		got, asked := preferredWait(http.Header{"Prefer": tt.values})
		if got != tt.want || asked != tt.asked {
			t.Errorf("%q: %s, %v; want %s, %v", tt.values, got, asked, tt.want, tt.asked)
		}
	}
}

func TestRequestID(t *testing.T) {
	for given, taken := range map[string]bool{
		"": false, "abc-123_4.5:6/7+8=": true, "a b": false, "a\"b": false, "é": false, strings.Repeat("x", 128): true, strings.Repeat("x", 129): false,
	} {
		got := requestID(http.Header{"X-Request-Id": {given}})
		if got == "" || (got == given) != taken {
			t.Errorf("request id for %q is %q", given, got)
		}
	}
}

func TestMatches(t *testing.T) {
	for given, want := range map[string]bool{`"7"`: true, `W/"7"`: true, `"1", "7"`: true, `*`: true, `"8"`: false, `7`: false, ``: false} {
		if got := matches(http.Header{"If-None-Match": {given}}, `"7"`); got != want {
			t.Errorf("If-None-Match: %s matches \"7\" = %v", given, got)
		}
	}
}

func TestBearer(t *testing.T) {
	for given, want := range map[string]string{"Bearer exk_a": "exk_a", "bearer  exk_a": "exk_a", "Basic eDp5": "", "exk_a": "", "": ""} {
		got, ok := bearer(http.Header{"Authorization": {given}})
		if ok != (want != "") || ok && got != want {
			t.Errorf("bearer of %q = %q, %v", given, got, ok)
		}
	}
	if _, ok := bearer(http.Header{"Authorization": {"Bearer a", "Bearer b"}}); ok {
		t.Error("two Authorization headers were taken")
	}
}
