package reconcile_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"executor/outcome"
	"executor/reconcile"
	"executor/upstreams"
)

// FuzzReceive sends whatever comes, signed and unsigned: it is taken in whole or
// refused with a reason, and moves only the command that it names.
func FuzzReceive(f *testing.F) {
	r := newNoticeRig(f)
	bystander := r.attempted(f, "bystander", "charge", "", "")
	for _, body := range []string{
		"", "{}", "null", "[]", `{"about":"k1","state":"done"}`, `{"about":{"id":"x"},"state":"failed"}`, `{"about":7}`, `{"about":{"reference":"\u0000"}}`,
		"{\"about\":\"\xff\xfe\",\"state\":\"done\"}", `{"about":"k1","about":"k2"}`, `{"about":["k1"],"state":1e999}`, "{\"about\":\"a\\u0000b\",\"state\":\"done\"}",
	} {
		f.Add("evt", body, "X-Any", "value", true)
		f.Add("evt\x00", body, "Webhook-Signature", "v1,AAAA v1, v2,x", false)
	}
	f.Add("", "{}", "Webhook-Timestamp", "99999999999999999999", false)
	f.Fuzz(func(t *testing.T, event, body, name, value string, right bool) {
		header := signed(event, body, time.Now(), newSecret)
		if !right {
			header = signed(event, body+" ", time.Now(), newSecret)
		}
		header[http.CanonicalHeaderKey(name)] = append(header[http.CanonicalHeaderKey(name)], value)
		before := r.count(t, `SELECT count(*) FROM notices`)
		got, err := r.store.Receive(t.Context(), "default", "up", header, []byte(body))
		kept := r.count(t, `SELECT count(*) FROM notices`) - before
		var (
			unverified *upstreams.UnverifiedNotice
			unreadable *upstreams.UnreadableNotice
		)
		switch {
		case err == nil && !right:
			t.Fatal("an unsigned notice is taken in")
		case err == nil && kept == 1 == got.Duplicate:
			t.Fatalf("%+v keeps %d", got, kept)
		case err != nil && kept != 0:
			t.Fatalf("%v, and it is kept", err)
		case err != nil && !errors.As(err, &unverified) && !errors.As(err, &unreadable) && !errors.Is(err, reconcile.ErrNoticeTooLarge):
			t.Fatalf("refused with %v", err)
		}
		r.wantState(t, bystander, outcome.StateUnresolved)
	})
}
