package client_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"executor/client"
)

// A receiver verifies the body as it came, knows a repeat by the event's id, and
// answers 2xx only for what it has kept.
func ExampleVerifyWebhook() {
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYq=" // from `executor webhooks create`
	seen := map[string]bool{}                                           // a table of your own, with a unique event id
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			http.Error(w, "cannot be read", http.StatusBadRequest)
			return
		}
		event, err := client.VerifyWebhook([]string{secret}, r.Header, body, client.WebhookOptions{})
		var forged *client.Unverified
		switch {
		case errors.As(err, &forged):
			http.Error(w, forged.Detail, http.StatusUnauthorized)
			return
		case err != nil:
			http.Error(w, "the secret is wrong here", http.StatusInternalServerError)
			return
		}
		if !seen[event.ID] && event.Outcome != nil {
			seen[event.ID] = true
			fmt.Println(event.Key, client.Match(event.Outcome,
				func(o client.Success) string { return "is paid: " + o.Result.Reference },
				func(o client.Rejected) string { return "was refused: " + o.Rejection.Message },
				func(client.Unresolved) string { return "is not known yet; another event will tell" },
				func(client.Cancelled) string { return "was not paid" },
			))
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer receiver.Close()
	fmt.Println(deliver(receiver.URL, secret))
	fmt.Println(deliver(receiver.URL, secret)) // at least once
	// Output:
	// order-42 is paid: pay_9
	// 204 No Content
	// 204 No Content
}

// deliver stands in for the service.
func deliver(url, secret string) string {
	body := `{"type": "command.success", "timestamp": "2026-11-01T00:00:31Z", "data": {"id": "0193", "idempotency_key": "order-42", "sequence": 2,
		"previous_state": "unresolved", "outcome": {"state": "success", "decided_at": "2026-11-01T00:00:31Z", "result": {"status": 201, "reference": "pay_9"}}}}`
	key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("evt_1." + stamp + "." + body))
	req, _ := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	req.Header.Set("webhook-id", "evt_1")
	req.Header.Set("webhook-timestamp", stamp)
	req.Header.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error()
	}
	_ = res.Body.Close()
	return res.Status
}
