package webhooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"executor/internal/egress"
)

// sign gives the value of the header webhook-signature: a v1 signature for each
// key, of which a receiver needs one (Standard Webhooks 1.0.0).
func sign(keys []egress.Secret, id string, at time.Time, payload []byte) string {
	signatures := make([]string, len(keys))
	for i, key := range keys {
		mac := hmac.New(sha256.New, []byte(key.Reveal()))
		fmt.Fprintf(mac, "%s.%s.%s", id, stamp(at), payload)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return strings.Join(signatures, " ")
}

// stamp is the value of the header webhook-timestamp.
func stamp(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }
