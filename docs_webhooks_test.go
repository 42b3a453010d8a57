package executor_test

import (
	"net/http"
	"regexp"
	"strconv"
	"testing"
	"time"

	"executor/client"
)

// The signature that the page makes by hand is one that our own client believes.
func TestTheSignatureOfWebhooksOnThePage(t *testing.T) {
	page := readFile(t, "docs/integrators.md")
	given := regexp.MustCompile(`(?m)^\$ secret=(\S+) id=(\S+) at=(\d+)$`).FindStringSubmatch(page)
	body := regexp.MustCompile(`(?m)^\$ body='(.*)'$`).FindStringSubmatch(page)
	signature := regexp.MustCompile(`(?m)^\$ printf .* openssl .*\n(.*)$`).FindStringSubmatch(page)
	if given == nil || body == nil || signature == nil {
		t.Fatal("docs/integrators.md does not make a signature")
	}
	header := http.Header{"Webhook-Id": {given[2]}, "Webhook-Timestamp": {given[3]}, "Webhook-Signature": {"v1," + signature[1]}}
	seconds, _ := strconv.ParseInt(given[3], 10, 64)
	now := client.WebhookOptions{Now: func() time.Time { return time.Unix(seconds, 0) }}
	event, err := client.VerifyWebhook([]string{given[1]}, header, []byte(body[1]), now)
	if err != nil || event.Type != client.WebhookTest || event.ID != given[2] {
		t.Errorf("%+v, %v", event, err)
	}
}
