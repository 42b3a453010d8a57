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
	for _, s := range o.Confidential(request, nil, []byte("\uFEFF"+`{"secret":"a \"quoted\" one","reference":"pay_12345678"}`)) {
		got = append(got, s.Reveal())
	}
	want := []string{"10115 Berlin", "ann@example.com", "vip-customer", "4930123456", `a \"quoted\" one`, `a "quoted" one`}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestConfidentialIsInPartsAndFieldsToo: a step names the part or field.
func TestConfidentialIsInPartsAndFieldsToo(t *testing.T) {
	const parts = "--b\r\nContent-Disposition: form-data; name=\"pan\"\r\n\r\n4111 1111\r\n" +
		"--b\r\nContent-Disposition: form-data; name=\"doc\"\r\nContent-Type: application/json\r\n\r\n{\"pin\":\"pin-12345\",\"x\":\"elsewhere\"}\r\n" +
		"--b\r\nContent-Disposition: form-data; name=\"other\"\r\n\r\nin the open\r\n--b--\r\n"
	for kind, request := range map[string]Request{
		"multipart": {Headers: []Header{{"Content-Type", "multipart/form-data; boundary=b"}}, Body: []byte(parts)},
		"form":      {Body: []byte("pan=4111+1111&other=in+the+open")},
	} {
		o := operation(t, "body: "+kind+"\nredact: {request: [/pan, /doc/pin]}")
		var got []string
		for _, s := range o.Confidential(request, nil, nil) {
			got = append(got, s.Reveal())
		}
		want := []string{"4111 1111", "pin-12345"}
		if kind == "form" {
			want = want[:1]
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", kind, got, want)
		}
	}
}
