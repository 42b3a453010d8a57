package web_test

import (
	"net/http"
	"testing"

	"executor/webhooks"
)

// TestAReceiverIsAskedAndVouchedFor in the browser: what waits is seen, who may not
// decide is not offered to, a reason is needed, and it goes on record.
func TestAReceiverIsAskedAndVouchedFor(t *testing.T) {
	s := newSite(t)
	to := newReceiver(t)
	e := s.hook(t, to.URL)
	if _, err := s.pool.Exec(t.Context(), `UPDATE webhook_endpoints SET verified_at = NULL, verified_by = ''`); err != nil {
		t.Fatal(err)
	}
	at := "/webhooks/" + e.ID.String()
	ada := s.as(t, "ada")
	ada.get("/webhooks").has(t, "not verified", "gets nothing but a challenge")
	p := ada.get(at)
	p.has(t, "not verified", "Ask the receiver again", "Confirm it yourself", "not yet")
	p.lacks(t, "Send a test event</summary>")
	s.as(t, "vera").get(at).lacks(t, "Confirm it yourself")
	if refused := s.as(t, "otto").post(at+"/confirm", "seen", p.seen(t), "reason", "mine"); refused.status != http.StatusForbidden {
		t.Errorf("an operator confirms: %d", refused.status)
	}
	asked := ada.post(at+"/challenge", "seen", p.seen(t), "reason", "it has its secret now")
	asked.has(t, "The receiver is being asked.", "webhook.challenge")
	asked.lacks(t, "Send it once more</h2>")
	if none := ada.post(at+"/confirm", "seen", p.seen(t), "reason", ""); none.status != http.StatusUnprocessableEntity {
		t.Errorf("confirmed without a reason: %d", none.status)
	}
	ada.post(at+"/confirm", "seen", p.seen(t), "reason", "their firewall strips the answer").has(t, "Confirmed.", "a person vouches for the receiver", "Send a test event")
	again := ada.post(at+"/confirm", "seen", p.seen(t), "reason", "twice")
	if again.status != http.StatusConflict {
		t.Errorf("confirmed twice: %d", again.status)
	}
	if e, err := s.hooks.Get(t.Context(), tenant, e.ID); err != nil || e.VerifiedBy != webhooks.VerifiedByPerson {
		t.Errorf("%+v, %v", e, err)
	}
	ada.get("/audit?action=webhook.confirm").has(t, "their firewall strips the answer")
}
