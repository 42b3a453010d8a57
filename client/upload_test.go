package client

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// serveUnread is serve without reading what is sent.
func serveUnread(t *testing.T, handle http.HandlerFunc) (*httptest.Server, *Client) {
	t.Helper()
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	c, err := New(Config{URL: s.URL, APIKey: "exk_secret"})
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

// counted is a source that counts what is taken from it, without an end up to most.
type counted struct{ n, most int }

func (c *counted) Read(b []byte) (int, error) {
	c.n += len(b)
	if c.n > c.most && c.most > 0 {
		return 0, http.ErrBodyReadAfterClose
	}
	return len(b), nil
}

// failing is a source that breaks.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
