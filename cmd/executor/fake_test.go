package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
)

// fakeService answers as the API would, and remembers what it was asked.
type fakeService struct {
	env map[string]string // of a command line that talks to it

	mu      sync.Mutex
	answers map[string][]fakeAnswer // by method and path; the last one is repeated
	asked   []string                // method, path and query, If-Match and body
}

type fakeAnswer struct {
	status int
	body   string
}

func newFakeService(t *testing.T) *fakeService {
	t.Helper()
	f := &fakeService{answers: map[string][]fakeAnswer{}}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	f.env = map[string]string{"EXECUTOR_URL": server.URL, "EXECUTOR_API_KEY": "exk_x"}
	return f
}

// on says how a call is answered; several answers come one after the other.
func (f *fakeService) on(call string, status int, bodies ...string) *fakeService {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(bodies) == 0 {
		bodies = []string{""}
	}
	for _, body := range bodies {
		f.answers[call] = append(f.answers[call], fakeAnswer{status, body})
	}
	return f
}

func (f *fakeService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	asked := r.Method + " " + r.URL.RequestURI()
	if match := r.Header.Get("If-Match"); match != "" {
		asked += " " + match
	}
	if len(body) > 0 {
		asked += " " + string(body)
	}
	f.asked = append(f.asked, asked)
	call := r.Method + " " + r.URL.Path
	list := f.answers[call]
	if len(list) > 1 {
		f.answers[call] = list[1:]
	}
	f.mu.Unlock()
	if len(list) == 0 {
		list = []fakeAnswer{{http.StatusNotFound, problemJSON(404, "not_found", "There is nothing there.", "")}}
	}
	media := "application/json"
	if list[0].status >= 300 {
		media = "application/problem+json"
	}
	w.Header().Set("Content-Type", media)
	w.WriteHeader(list[0].status)
	_, _ = io.WriteString(w, list[0].body)
}

func problemJSON(status int, code, detail, more string) string {
	return fmt.Sprintf(`{"type": "/problems/%[2]s", "title": "T", "status": %[1]d, "code": %[2]q, "detail": %[3]q, "request_id": "r1"%[4]s}`, status, code, detail, more)
}

// takeAsked gives what was asked since the last time.
func (f *fakeService) takeAsked() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	asked := f.asked
	f.asked = nil
	return asked
}

// wantAsked compares what was asked since the last time.
func (f *fakeService) wantAsked(t *testing.T, want ...string) {
	t.Helper()
	if got := f.takeAsked(); !slices.Equal(got, want) {
		t.Errorf("asked\n%q\nwant\n%q", got, want)
	}
}
