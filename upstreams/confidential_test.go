package upstreams

import (
	"slices"
	"testing"
)

// TestConfidentialIsWhatIsRedacted, to be found elsewhere: values, and of names those
// that may be somebody's. The words of an interface stand everywhere.
func TestConfidentialIsWhatIsRedacted(t *testing.T) {
	o := operation(t, "redact: {request: [/customer], response: [/secret]}")
	request := Request{Body: []byte(`{"customer":{"postal_code":"10115 Berlin","by_mail":{"ann@example.com":{"description":"vip-customer"}},"n":[{"telephone":4930123456}],"last_name":"Short"},"amount":12345678}`)}
	var got []string
	for _, s := range o.Confidential(request, nil, []byte(`{"secret":"a \"quoted\" one","reference":"pay_12345678"}`)) {
		got = append(got, s.Reveal())
	}
	want := []string{"10115 Berlin", "ann@example.com", "vip-customer", "4930123456", `a \"quoted\" one`, `a "quoted" one`}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
