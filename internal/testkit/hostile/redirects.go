package hostile

import (
	"fmt"
	"net/http"
	"net/url"
)

// Redirects has Home answer with a redirect to each target in turn, and to itself,
// and calls ask, which has to make one request to home and to take the redirect for
// its answer: it fails the test where a connection more is made, or one to a trap.
func (t *Traps) Redirects(ask func(home *url.URL, status int, what string)) {
	t.t.Helper()
	home := &url.URL{Scheme: "http", Host: Home.String() + ":" + HomePort}
	statuses := []int{301, 302, 303, 307, 308}
	for i, location := range append(Targets(t.t), Target{URL: home.String() + "/other", Why: "same host"}) {
		status := statuses[i%len(statuses)]
		what := fmt.Sprintf("%d to %s", status, location)
		t.Answer(func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Location"] = []string{location.Through("http", "redirect")}
			w.WriteHeader(status)
		})
		before := t.Home()
		t.Watch(what, func() { ask(home, status, what) })
		if n := t.Home() - before; n != 1 {
			t.t.Fatalf("%s: %d connections", what, n)
		}
	}
}
