package executor_test

import (
	"net/http"
	"regexp"
	"testing"
	"time"

	"executor/internal/egress"
	"executor/upstreams"
)

// The pieces of profiles that the page shows, of lookups and notices, hold as they
// stand, and nothing about them is worth a warning.
func TestThePiecesOfProfilesParse(t *testing.T) {
	page := readFile(t, profilesPage)
	const base = "version: 1\nupstream: shop\nbase_url: https://shop.example\noperations:\n  create_charge:\n    method: POST\n    path: /charges\n" +
		"    idempotency: {kind: keyed, retention: 24h}\n    result: {require: [has(json.id)]}\n"
	blocks := regexp.MustCompile("(?ms)^```yaml\n((?:    lookup|notices):\n.*?)^```$").FindAllStringSubmatch(page, -1)
	if len(blocks) != 2 {
		t.Fatalf("%s shows %d pieces", profilesPage, len(blocks))
	}
	p := parseProfile(t, profilesPage, base+blocks[0][1]+blocks[1][1])
	if len(p.Warnings) > 0 || p.Notices == nil || len(p.Operations["create_charge"].Lookups) != 2 {
		t.Errorf("%+v", p.Warnings)
	}
}

// The signatures that the page makes are those that are believed.
func TestTheSignaturesOfThePage(t *testing.T) {
	page := readFile(t, profilesPage)
	printed := regexp.MustCompile(`(?m)^\$ printf .* openssl .*\n(.*)$`).FindAllStringSubmatch(page, -1)
	body := regexp.MustCompile(`(?m)^\$ body='(.*)'$`).FindStringSubmatch(page)
	if len(printed) != 2 || body == nil {
		t.Fatalf("%s shows %d signatures", profilesPage, len(printed))
	}
	header := http.Header{
		"Webhook-Id": {"msg_1"}, "Webhook-Timestamp": {"1767225600"}, "Webhook-Signature": {"v1," + printed[0][1]}, "X-Signature": {printed[1][1]},
	}
	for secret, signature := range map[string]upstreams.Signature{
		"whsec_bm90LWEtcmVhbC1zZWNyZXQtb2YtYW55b25l": {Scheme: upstreams.SchemeStandardWebhooks, Tolerance: time.Minute},
		"not-a-real-secret":                          {Scheme: upstreams.SchemeHMAC, Header: "X-Signature", Tolerance: time.Minute},
	} {
		n := &upstreams.Notices{Signature: signature}
		if err := n.Verify([]egress.Secret{egress.NewSecret(secret)}, header, []byte(body[1]), time.Unix(1767225600, 0)); err != nil {
			t.Error(err)
		}
	}
}
