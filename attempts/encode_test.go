package attempts

import (
	"net/url"
	"testing"

	"executor/upstreams"
)

func TestEncode(t *testing.T) {
	base := &url.URL{Scheme: "https", Host: "upstream.test:8443"}
	tests := []struct {
		name   string
		r      WireRequest
		target Target
		want   string
	}{
		{"post, fresh", payment(), Target{Base: base, Fresh: true},
			"POST /payments?x=1 HTTP/1.1\r\nHost: upstream.test:8443\r\nUser-Agent: executor/1\r\nContent-Type: application/json\r\n" +
				"Idempotency-Key: key-1\r\nAccept-Encoding: identity\r\nContent-Length: 14\r\nConnection: close\r\n\r\n"},
		{"get", WireRequest{Method: "GET", Path: "/"}, Target{Base: base},
			"GET / HTTP/1.1\r\nHost: upstream.test:8443\r\nUser-Agent: executor/1\r\nAccept-Encoding: identity\r\n\r\n"},
		{"hop", WireRequest{Method: "GET", Path: "/"}, Target{Base: base, Hop: "0123abc"},
			"GET / HTTP/1.1\r\nHost: upstream.test:8443\r\nUser-Agent: executor/1\r\nX-Executor-Hop: 0123abc\r\nAccept-Encoding: identity\r\n\r\n"},
		{"empty put", WireRequest{Method: "PUT", Path: "/a"}, Target{Base: base},
			"PUT /a HTTP/1.1\r\nHost: upstream.test:8443\r\nUser-Agent: executor/1\r\nAccept-Encoding: identity\r\nContent-Length: 0\r\n\r\n"},
		{"own names and host", WireRequest{Method: "GET", Path: "/a", Host: "h", Headers: []upstreams.Header{
			{Name: "user-agent", Value: "mine"}, {Name: "accept-encoding", Value: "gzip"}, {Name: "X", Value: "a\tb\xc3\xa9"}}}, Target{Base: base},
			"GET /a HTTP/1.1\r\nHost: h\r\nuser-agent: mine\r\naccept-encoding: gzip\r\nX: a\tb\xc3\xa9\r\n\r\n"},
	}
	for _, tt := range tests {
		got, err := Encode(tt.r, tt.target)
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: Encode = %q, %v\nwant %q", tt.name, got, err, tt.want)
		}
	}
}

func TestSecured(t *testing.T) {
	strict := secured(nil, "upstream.test.")
	if strict.ServerName != "upstream.test" || len(strict.NextProtos) != 1 || strict.NextProtos[0] != "http/1.1" || strict.InsecureSkipVerify {
		t.Errorf("secured: %+v", strict)
	}
}
