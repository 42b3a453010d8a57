package api

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"executor/commands"
)

// BenchmarkSubmit is what the API itself adds to a submit: everything but the
// store and the network.
func BenchmarkSubmit(b *testing.B) {
	server := NewServer(Config{
		Commands: &fakeCommands{}, Keys: fakeKeys{"exk_w": {Tenant: "default", Name: "w", Scopes: []string{"commands:write"}}},
		Log: slog.New(slog.DiscardHandler),
	})
	routes := server.Routes()
	body := `{"upstream":"ledger","operation":"pay","params":{"account":"a1"},"body":{"amount":9007199254740993,"currency":"EUR","memo":"` +
		strings.Repeat("x", 400) + `"},"metadata":{"order":"42"}}`
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest("POST", "/v1/commands", strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer exk_w")
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(keyHeader, "order-42")
		w := discard{header: http.Header{}}
		if routes.ServeHTTP(&w, r); w.status != http.StatusAccepted {
			b.Fatalf("status %d", w.status)
		}
	}
}

// discard is a response writer that keeps the status only.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }

// BenchmarkDecodeSubmission and BenchmarkScan show what strictness costs.
func BenchmarkDecodeSubmission(b *testing.B) {
	src := []byte(`{"upstream":"ledger","operation":"pay","params":{"account":"a1"},"body":{"items":[` +
		strings.Repeat(`{"sku":"abc","n":12,"price":19.99},`, 100) + `{}]},"metadata":{"order":"42"}}`)
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decodeSubmission(src); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWriteCommand(b *testing.B) {
	c := doneCommand(`{"id":"pay_9","amount":100}`)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = io.Discard.Write(view(c, writeCommand))
	}
}

var _ Commands = (*commands.Store)(nil)
