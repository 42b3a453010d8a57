package attempts

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"executor/upstreams"
)

// FuzzEncode: what is written is one request, which a server reads as the one that
// was meant, to the byte; nothing of it becomes another header or another request.
func FuzzEncode(f *testing.F) {
	for _, value := range []string{"x", "a\r\nX-Injected: 1", "a\tb", "", " ", "a\x00", "é\xff", "chunked"} {
		f.Add("POST", "/a?b=c", "X-Odd", value, []byte("{}"), true)
		f.Add("GET", "/", "Transfer-Encoding", value, []byte{}, false)
	}
	f.Add("POST", "/\r\nHost: x", "X", "x", []byte("\r\n\r\nGET / HTTP/1.1\r\n\r\n"), true)
	f.Add("PO ST", "//x", "X:Y", "x", []byte{0}, true)
	f.Add("CONNECT", "/#", "Proxy-Connection", "x", []byte("x"), true)
	f.Add("put", "/%2e%2e/%00", "content-LENGTH", "0", []byte("x"), false)
	base := &url.URL{Scheme: "http", Host: "upstream.test"}
	f.Fuzz(func(t *testing.T, method, path, name, value string, body []byte, fresh bool) {
		head, err := Encode(WireRequest{Method: method, Path: path, Headers: []upstreams.Header{{Name: name, Value: value}}, Body: body}, Target{Base: base, Fresh: fresh})
		if err != nil {
			return
		}
		wire := bufio.NewReader(bytes.NewReader(append(head, body...)))
		got, err := http.ReadRequest(wire)
		if err != nil {
			// net/http is stricter about targets than we are; never about headers.
			if !strings.Contains(err.Error(), "invalid") && !strings.Contains(err.Error(), "malformed") {
				t.Fatalf("%q: %v", head, err)
			}
			return
		}
		sent, err := io.ReadAll(got.Body)
		if err != nil || got.Method != method || got.RequestURI != path || got.Host != base.Host || len(got.TransferEncoding) > 0 {
			t.Fatalf("%q is read as %s %s of %s, %v, %v", head, got.Method, got.RequestURI, got.Host, got.TransferEncoding, err)
		}
		if expectsBody(method) && !bytes.Equal(sent, body) {
			t.Fatalf("the body %q is read as %q", body, sent)
		}
		if values := got.Header.Values(name); len(values) != 1 || values[0] != strings.Trim(value, " \t") {
			t.Fatalf("%q is read with %s as %q", head, name, values)
		}
		if rest, _ := io.ReadAll(wire); len(rest) > 0 {
			t.Fatalf("%q is left over", rest)
		}
	})
}
