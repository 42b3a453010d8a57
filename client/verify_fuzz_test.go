package client

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// FuzzVerifyWebhook: whatever a stranger writes into the headers, only a request with
// the right signature is taken, and only a fresh one; and no error tells a secret.
func FuzzVerifyWebhook(f *testing.F) {
	key := []byte(strings.Repeat("a", 32))
	now := time.Unix(1_790_000_000, 0)
	right := func(id, stamp, body string) string {
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%s.%s", id, stamp, body)
		return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	f.Add(eventID, "1790000000", right(eventID, "1790000000", successBody), successBody)
	f.Add(eventID, "1790000000", "v1,AAAA "+right(eventID, "1790000000", successBody)+" v2,x", successBody)
	f.Add(eventID, "1789990000", right(eventID, "1789990000", successBody), successBody)
	f.Add("", "", "", "")
	f.Add(eventID, "-9223372036854775808", right(eventID, "-9223372036854775808", "{}"), "{}")
	f.Add(eventID, "99999999999999999999", "v1, v1,=,v1a,\x00", `{"type":7}`)
	f.Add(eventID, " 1790000000", right(eventID, " 1790000000", `{"type":"x","data":{"outcome":{"state":"odd"}}}`), `{"type":"x","data":{"outcome":{"state":"odd"}}}`)
	f.Fuzz(func(t *testing.T, id, stamp, signatures, body string) {
		header := http.Header{}
		header.Set(HeaderWebhookID, id)
		header.Set(HeaderWebhookTimestamp, stamp)
		header.Set(HeaderWebhookSignature, signatures)
		event, err := VerifyWebhook([]string{secretA}, header, []byte(body), WebhookOptions{Now: func() time.Time { return now }})
		signed := id != "" && slices.Contains(strings.Fields(signatures), right(id, stamp, body))
		age := now.Sub(event.SentAt)
		var not *Unverified
		switch {
		case err == nil && (!signed || event.ID != id || event.Type == "" || age > WebhookTolerance || age < -WebhookTolerance):
			t.Fatalf("taken, signed %t, %s old: %+v", signed, age, event)
		case err != nil && (!errors.As(err, &not) || not.Detail == "" || signed && not.Reason == UnverifiedSignature):
			t.Fatalf("signed %t, refused with %v", signed, err)
		case err != nil && strings.Contains(err.Error(), string(key)):
			t.Fatalf("the error tells the secret: %v", err)
		}
	})
}
