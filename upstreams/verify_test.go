package upstreams

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	reference "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"executor/internal/egress"
)

var (
	noticeTime = time.Unix(1_700_000_000, 0)
	whsec      = "whsec_" + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef01234567"))
)

const noticeBody = `{"id":"evt_1","data":{"key":"k1","state":"done"}}`

func mac(key, content string) []byte {
	h := hmac.New(sha256.New, []byte(key))
	h.Write([]byte(content))
	return h.Sum(nil)
}

// standardHeaders signs as Standard Webhooks says.
func standardHeaders(secret, id string, at time.Time, body string) http.Header {
	key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	seconds := strconv.FormatInt(at.Unix(), 10)
	return http.Header{
		"Webhook-Id": {id}, "Webhook-Timestamp": {seconds},
		"Webhook-Signature": {"v1," + base64.StdEncoding.EncodeToString(mac(string(key), id+"."+seconds+"."+body))},
	}
}

func secrets(values ...string) []egress.Secret {
	var list []egress.Secret
	for _, v := range values {
		list = append(list, egress.NewSecret(v))
	}
	return list
}

// checkVerify compares the outcome with a piece of the reason, "" for none.
func checkVerify(t *testing.T, name string, err error, reason string) {
	t.Helper()
	var bad *UnverifiedNotice
	switch {
	case reason == "" && err != nil:
		t.Errorf("%s: %v", name, err)
	case reason != "" && (!errors.As(err, &bad) || !strings.Contains(bad.Reason, reason)):
		t.Errorf("%s: %v, want %q", name, err, reason)
	}
}

func TestVerifyStandardWebhooks(t *testing.T) {
	n := &Notices{Signature: Signature{Scheme: SchemeStandardWebhooks, Tolerance: 5 * time.Minute}}
	good := func() http.Header { return standardHeaders(whsec, "msg_1", noticeTime, noticeBody) }
	with := func(change func(h http.Header)) http.Header { h := good(); change(h); return h }
	other := "whsec_" + base64.StdEncoding.EncodeToString([]byte("another key of some length"))
	tests := []struct {
		name    string
		header  http.Header
		body    string
		now     time.Time
		secrets []string
		reason  string
	}{
		{"right", good(), noticeBody, noticeTime, []string{whsec}, ""},
		{"a secret without its prefix", good(), noticeBody, noticeTime, []string{strings.TrimPrefix(whsec, "whsec_")}, ""},
		{"the old one of two secrets", good(), noticeBody, noticeTime, []string{other, whsec}, ""},
		{"one of two secrets is broken", good(), noticeBody, noticeTime, []string{"whsec_%", whsec}, ""},
		{"two signatures during a rotation", with(func(h http.Header) {
			h["Webhook-Signature"][0] = standardHeaders(other, "msg_1", noticeTime, noticeBody)["Webhook-Signature"][0] + " v2,x " + h["Webhook-Signature"][0]
		}), noticeBody, noticeTime, []string{whsec}, ""},
		{"just in time", good(), noticeBody, noticeTime.Add(5 * time.Minute), []string{whsec}, ""},
		{"just not too early", good(), noticeBody, noticeTime.Add(-5 * time.Minute), []string{whsec}, ""},
		{"too old", good(), noticeBody, noticeTime.Add(5*time.Minute + time.Second), []string{whsec}, "from 5m1s ago"},
		{"from the future", good(), noticeBody, noticeTime.Add(-6 * time.Minute), []string{whsec}, "from 6m ahead"},
		{"another body", good(), noticeBody + " ", noticeTime, []string{whsec}, "no signature is right"},
		{"another id", with(func(h http.Header) { h.Set("Webhook-Id", "msg_2") }), noticeBody, noticeTime, []string{whsec}, "no signature is right"},
		{"another time", with(func(h http.Header) { h.Set("Webhook-Timestamp", "1700000001") }), noticeBody, noticeTime, []string{whsec}, "no signature is right"},
		{"another secret", good(), noticeBody, noticeTime, []string{other}, "no signature is right"},
		{"no secret", good(), noticeBody, noticeTime, nil, "none of our secrets"},
		{"no id", with(func(h http.Header) { h.Del("Webhook-Id") }), noticeBody, noticeTime, []string{whsec}, "Webhook-Id is missing"},
		{"two ids", with(func(h http.Header) { h.Add("Webhook-Id", "msg_2") }), noticeBody, noticeTime, []string{whsec}, "is there 2 times"},
		{"no time", with(func(h http.Header) { h.Del("Webhook-Timestamp") }), noticeBody, noticeTime, []string{whsec}, "Webhook-Timestamp is missing"},
		{"a time with a sign", with(func(h http.Header) { h.Set("Webhook-Timestamp", "+1700000000") }), noticeBody, noticeTime, []string{whsec}, "not a number"},
		{"a time in hex", with(func(h http.Header) { h.Set("Webhook-Timestamp", "0x1") }), noticeBody, noticeTime, []string{whsec}, "not a number"},
		{"a time beyond all", with(func(h http.Header) { h.Set("Webhook-Timestamp", "9223372036854775807") }), noticeBody, noticeTime, []string{whsec}, "not a number"},
		{"no signature", with(func(h http.Header) { h.Del("Webhook-Signature") }), noticeBody, noticeTime, []string{whsec}, "no v1 signature"},
		{"an asymmetric one only", with(func(h http.Header) { h.Set("Webhook-Signature", "v1a,abcd") }), noticeBody, noticeTime, []string{whsec}, "no v1 signature"},
		{"an empty one", with(func(h http.Header) { h.Set("Webhook-Signature", "v1,") }), noticeBody, noticeTime, []string{whsec}, "no signature is right"},
		{"a flood", with(func(h http.Header) { h.Set("Webhook-Signature", strings.Repeat("v1,AAAA ", 21)) }), noticeBody, noticeTime, []string{whsec}, "more than 20"},
	}
	for _, tt := range tests {
		err := n.Verify(secrets(tt.secrets...), tt.header, []byte(tt.body), tt.now)
		checkVerify(t, tt.name, err, tt.reason)
		if err != nil && strings.Contains(err.Error(), strings.TrimPrefix(whsec, "whsec_")) {
			t.Errorf("%s: the secret is in the error", tt.name)
		}
	}
}

// TestVerifyWhatTheReferenceSigns holds Verify against the library of the
// specification's authors.
func TestVerifyWhatTheReferenceSigns(t *testing.T) {
	signer, err := reference.NewWebhook(whsec)
	if err != nil {
		t.Fatal(err)
	}
	n := &Notices{Signature: Signature{Scheme: SchemeStandardWebhooks, Tolerance: 5 * time.Minute}}
	for _, body := range []string{noticeBody, "", "\xff\x00", strings.Repeat("ü", 10_000)} {
		signature, err := signer.Sign("msg_2", noticeTime, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		header := http.Header{"Webhook-Id": {"msg_2"}, "Webhook-Timestamp": {strconv.FormatInt(noticeTime.Unix(), 10)}, "Webhook-Signature": {signature}}
		checkVerify(t, body, n.Verify(secrets(whsec), header, []byte(body), noticeTime), "")
	}
}

func TestVerifyHMAC(t *testing.T) {
	plain := Signature{Scheme: SchemeHMAC, Header: "X-Signature", Tolerance: time.Minute}
	timed := plain
	timed.TimestampHeader = "X-Time"
	sum := mac("key", noticeBody)
	at := strconv.FormatInt(noticeTime.Unix(), 10)
	stamped := mac("key", at+"."+noticeBody)
	b64, raw := base64.StdEncoding.EncodeToString(sum), base64.RawURLEncoding.EncodeToString(sum)
	tests := []struct {
		name      string
		signature Signature
		header    string
		time      string // of X-Time
		body      string
		now       time.Time
		reason    string
	}{
		{"hex", plain, hex.EncodeToString(sum), "", noticeBody, noticeTime, ""},
		{"hex in capitals", plain, strings.ToUpper(hex.EncodeToString(sum)), "", noticeBody, noticeTime, ""},
		{"with its name", plain, "sha256=" + hex.EncodeToString(sum), "", noticeBody, noticeTime, ""},
		{"base64", plain, b64, "", noticeBody, noticeTime, ""},
		{"base64 with its name", plain, "sha256=" + b64, "", noticeBody, noticeTime, ""},
		{"base64 for URLs", plain, raw, "", noticeBody, noticeTime, ""},
		{"without a time it does not age", plain, b64, "", noticeBody, noticeTime.Add(24 * time.Hour), ""},
		{"another body", plain, b64, "", noticeBody + "\n", noticeTime, "no signature is right"},
		{"half of it", plain, hex.EncodeToString(sum[:16]), "", noticeBody, noticeTime, "no HMAC-SHA256"},
		{"no signature", plain, "hello", "", noticeBody, noticeTime, "no HMAC-SHA256"},
		{"missing", plain, "", "", noticeBody, noticeTime, "X-Signature is missing"},

		{"with a time inside", plain, "t=" + at + ",v1=" + hex.EncodeToString(stamped), "", noticeBody, noticeTime, ""},
		{"several, one is right", plain, "t=" + at + ", v1=" + hex.EncodeToString(sum) + ", v1=" + hex.EncodeToString(stamped) + ",v0=x", "", noticeBody, noticeTime, ""},
		{"too old", plain, "t=" + at + ",v1=" + hex.EncodeToString(stamped), "", noticeBody, noticeTime.Add(61 * time.Second), "from 1m1s ago"},
		{"from the future", plain, "t=" + at + ",v1=" + hex.EncodeToString(stamped), "", noticeBody, noticeTime.Add(-61 * time.Second), "ahead"},
		{"two times", plain, "t=" + at + ",t=1,v1=" + hex.EncodeToString(stamped), "", noticeBody, noticeTime, "two times"},
		{"another time", plain, "t=1700000001,v1=" + hex.EncodeToString(stamped), "", noticeBody, noticeTime, "no signature is right"},
		{"no time", plain, "v1=" + hex.EncodeToString(stamped) + ",", "", noticeBody, noticeTime, "no t= and v1="},
		{"only another version", plain, "t=" + at + ",v0=" + hex.EncodeToString(stamped), "", noticeBody, noticeTime, "no t= and v1="},
		{"a time moved into the body", plain, hex.EncodeToString(stamped), "", at + "." + noticeBody, noticeTime.Add(time.Hour), "begins like a signed time"},

		{"a header for the time", timed, hex.EncodeToString(stamped), at, noticeBody, noticeTime, ""},
		{"too old by the header", timed, hex.EncodeToString(stamped), at, noticeBody, noticeTime.Add(2 * time.Minute), "from 2m ago"},
		{"the time is not signed", timed, hex.EncodeToString(sum), at, noticeBody, noticeTime, "no signature is right"},
		{"the header is missing", timed, hex.EncodeToString(stamped), "", noticeBody, noticeTime, "X-Time is missing"},
		{"the header is no time", timed, hex.EncodeToString(stamped), "now", noticeBody, noticeTime, "not a number"},
		{"two ways to tell the time", timed, "t=" + at + ",v1=" + hex.EncodeToString(stamped), at, noticeBody, noticeTime, "a time of its own"},
	}
	for _, tt := range tests {
		n, header := &Notices{Signature: tt.signature}, http.Header{}
		if tt.header != "" {
			header.Set("X-Signature", tt.header)
		}
		if tt.time != "" {
			header.Set("X-Time", tt.time)
		}
		checkVerify(t, tt.name, n.Verify(secrets("old", "key"), header, []byte(tt.body), tt.now), tt.reason)
		checkVerify(t, tt.name+", wrong secret", n.Verify(secrets("other", ""), header, []byte(tt.body), tt.now), " ")
	}
	twice := http.Header{"X-Signature": {b64, b64}}
	checkVerify(t, "two headers", (&Notices{Signature: plain}).Verify(secrets("key"), twice, []byte(noticeBody), noticeTime), "2 times")
}

// FuzzVerify: whatever a stranger writes into the headers is refused, with a
// reason that is text.
func FuzzVerify(f *testing.F) {
	good := standardHeaders("whsec_c3RyYW5nZXI=", "m", noticeTime, noticeBody)
	f.Add(good.Get("Webhook-Signature"), "1700000000", "t=1700000000,v1=00", noticeBody)
	f.Add("v1, v1,= v1,\x00", "-0", "t=,v1=,,t", "1.2")
	f.Add("v1,"+strings.Repeat("A", 43)+"=", "99999999999999999999", "sha256="+strings.Repeat("0", 64), "")
	f.Fuzz(func(t *testing.T, signature, at, plain, body string) {
		header := http.Header{"Webhook-Id": {"m"}, "Webhook-Timestamp": {at}, "Webhook-Signature": {signature}, "X-Signature": {plain}, "X-Time": {at}}
		for _, s := range []Signature{
			{Scheme: SchemeStandardWebhooks, Tolerance: time.Minute},
			{Scheme: SchemeHMAC, Header: "X-Signature", Tolerance: time.Minute},
			{Scheme: SchemeHMAC, Header: "X-Signature", TimestampHeader: "X-Time", Tolerance: time.Minute},
		} {
			err := (&Notices{Signature: s}).Verify(secrets(whsec, "key"), header, []byte(body), noticeTime)
			checkVerify(t, s.Scheme, err, " ")
		}
	})
}
