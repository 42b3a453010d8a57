package api

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"

	"github.com/google/uuid"

	"executor/internal/apikeys"
)

// call is what is known of a request before its handler runs.
type call struct {
	requestID string
	held      held // of its body
	key       apikeys.Key
	query     map[string][]string
}

type callKey struct{}

func callOf(r *http.Request) *call { return r.Context().Value(callKey{}).(*call) }

// frame gives every answer its request id and the headers that keep browsers
// from guessing or keeping it, and turns a panic into a problem.
func (s *Server) frame(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{requestID: requestID(r.Header), held: held{all: s.bodies}}
		defer c.held.release()
		r = r.WithContext(context.WithValue(r.Context(), callKey{}, c))
		h := w.Header()
		h.Set("X-Request-Id", c.requestID)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		answer := &answer{ResponseWriter: w}
		defer s.recovered(answer, r)
		next.ServeHTTP(answer, r)
	})
}

// recovered answers for a handler that panicked.
func (s *Server) recovered(w *answer, r *http.Request) {
	cause := recover()
	if cause == nil {
		return
	}
	if cause == http.ErrAbortHandler {
		panic(cause)
	}
	err := fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
	if w.begun {
		s.log.Error("request failed after its answer had begun", "request_id", callOf(r).requestID, "path", r.URL.Path, "error", err)
		panic(http.ErrAbortHandler) // a cut answer, not one that looks whole
	}
	s.fail(w, r, err)
}

// answer knows whether a response has begun.
type answer struct {
	http.ResponseWriter
	begun bool
}

func (a *answer) WriteHeader(status int) {
	a.begun = true
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	a.begun = true
	return a.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// requestID takes the caller's X-Request-Id if it is fit for a log line, else
// makes one.
func requestID(h http.Header) string {
	given := h.Get("X-Request-Id")
	fit := func(c rune) bool {
		return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("-_.:/+=", c)
	}
	if given == "" || len(given) > 128 || strings.ContainsFunc(given, func(c rune) bool { return !fit(c) }) {
		return uuid.NewString()
	}
	return given
}
