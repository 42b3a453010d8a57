package reconcile_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"executor/internal/simulator"
	"executor/outcome"
)

// door takes notices over HTTP, as the API does.
func (r *noticeRig) door(t testing.TB) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err == nil {
			_, err = r.store.Receive(q.Context(), "default", "up", q.Header, body)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestNoticesOfTheSimulator: copies, out of order, wrong and stale, in every scheme.
func TestNoticesOfTheSimulator(t *testing.T) {
	schemes := map[string]struct {
		verify   string
		receiver simulator.Receiver
	}{
		"standard webhooks": {`{scheme: standard-webhooks, secret: env:EXECUTOR_SECRET_NEW}`, simulator.Receiver{Secret: newSecret}},
		"one header": {`{scheme: hmac-sha256, header: Sig, secret: [env:EXECUTOR_SECRET_NEW, env:EXECUTOR_SECRET_OLD]}`,
			simulator.Receiver{Scheme: "hmac-sha256", Header: "Sig", Secrets: []string{"another", oldSecret}}},
		"two headers": {`{scheme: hmac-sha256, header: Sig, timestamp_header: At, secret: env:EXECUTOR_SECRET_NEW}`,
			simulator.Receiver{Scheme: "hmac-sha256", Header: "Sig", TimeIn: "At", Secret: newSecret}},
	}
	for name, scheme := range schemes {
		t.Run(name, func(t *testing.T) {
			r := newNoticeRig(t)
			before, _, _ := strings.Cut(fmt.Sprintf(noticeProfile, "up", "default"), "notices:")
			r.apply(t, before+`notices:
  verify: `+scheme.verify+`
  event_id: json.id
  command: json.data.idempotency_key
  findings:
    - {when: json.data.state == "done", finding: applied, reference: json.data.id}
    - {when: json.data.state == "pending", finding: pending}
  weight: conclusive
`)
			sim := simulator.New(simulator.Config{})
			defer sim.Close()
			scheme.receiver.URL = r.door(t)
			if err := sim.SetReceiver(scheme.receiver); err != nil {
				t.Fatal(err)
			}
			id := r.attempted(t, "order-1", "charge", "", "")
			send := func(n simulator.Notice, want ...int) {
				t.Helper()
				n.Payment = "order-1"
				first := len(sim.Notices())
				if _, err := sim.Notify(n); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				if err := sim.Wait(ctx, func() bool { return len(sim.Notices()) == first+len(want) }); err != nil {
					t.Fatal(err)
				}
				for i, sent := range sim.Notices()[first:] {
					if sent.Status != want[i] {
						t.Errorf("answered %d %s, want %d", sent.Status, sent.Error, want[i])
					}
				}
			}
			send(simulator.Notice{WrongSignature: true}, 401)
			send(simulator.Notice{Shift: "-6m"}, 401)
			send(simulator.Notice{Shift: "6m"}, 401)
			r.wantState(t, id, outcome.StateUnresolved)
			send(simulator.Notice{Shift: "-4m", Copies: 3, AtOnce: true, ID: "evt_done"}, 202, 202, 202)
			send(simulator.Notice{States: []string{"done", "pending"}}, 202, 202)
			send(simulator.Notice{ID: "evt_done"}, 202)
			r.wantState(t, id, outcome.StateSuccess)
			r.wantNotices(t, id, "done settled", "done none", "done none")
		})
	}
}
