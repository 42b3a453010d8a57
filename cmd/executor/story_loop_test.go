//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"executor/internal/testkit"
)

// loop has a command sent to the deployment itself, by a way that no address shows:
// through somebody who passes it on. It is refused there, and nothing more comes of it.
func (s *stage) loop(t *testing.T) {
	passOn := func(p *peer) {
		arrived, ok := p.ReadRequest()
		if !ok {
			return
		}
		request, err := http.NewRequest(arrived.Method, s.env["EXECUTOR_URL"]+"/v1/commands", bytes.NewReader(arrived.Body))
		if err != nil {
			t.Error(err)
			return
		}
		request.Header = arrived.Header
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Error(err)
			return
		}
		defer answer.Body.Close()
		body, _ := io.ReadAll(answer.Body)
		p.Send(testkit.Reply(answer.StatusCode, string(body)))
	}
	s.one(t, story{
		name: "an upstream that is this deployment", kind: "none", script: passOn,
		attempts: []string{"response_received refused 421"}, ends: "rejected refused refused",
	}).submit(t).end(t)
}
