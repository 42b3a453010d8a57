package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A server without a part does not have the part's calls, and all others.
func TestServerWithoutItsParts(t *testing.T) {
	bare := newRig(t, func(c *Config) {
		c.Reviews, c.Lookups, c.Notices, c.Reports, c.Webhooks, c.Audit = nil, nil, nil, nil, nil, nil
	})
	routes := bare.server.Routes()
	for _, op := range operations() {
		r := httptest.NewRequest(op.method, pathOf(op.pattern), strings.NewReader("{}"))
		r.Header.Set("Authorization", "Bearer exk_unknown")
		w := httptest.NewRecorder()
		routes.ServeHTTP(w, r)
		if lacks := bare.server.lacks(op); lacks != (w.Code == http.StatusNotFound || w.Code == http.StatusMethodNotAllowed) {
			t.Errorf("%s: it lacks it is %v, the answer is %d", op.id, lacks, w.Code)
		}
	}
	bare.do("GET", "/v1/commands").want(200)
}
