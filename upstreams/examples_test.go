package upstreams

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"executor/outcome"
)

var update = flag.Bool("update", false, "rewrite the golden files and the explanation in examples/stripe.yaml")

func example(t testing.TB, name string) (*Profile, string) {
	t.Helper()
	src, err := os.ReadFile("../examples/" + name)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Parse("examples/"+name, src)
	if err != nil {
		t.Fatal(err)
	}
	return p, string(src)
}

// TestStripeExplanation holds the comment at the end of the Stripe profile equal
// to what Explain says.
func TestStripeExplanation(t *testing.T) {
	p, src := example(t, "stripe.yaml")
	var table bytes.Buffer
	if _, err := p.Explain().WriteTo(&table); err != nil {
		t.Fatal(err)
	}
	var comment strings.Builder
	for line := range strings.Lines(table.String()) {
		comment.WriteString(strings.TrimRight("#   "+line, " \n") + "\n")
	}
	const marker = "`executor profiles explain` prints it:\n#\n"
	before, got, ok := strings.Cut(src, marker)
	if !ok {
		t.Fatal("examples/stripe.yaml has no explanation")
	}
	if *update {
		if err := os.WriteFile("../examples/stripe.yaml", []byte(before+marker+comment.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != comment.String() {
		t.Errorf("the explanation in examples/stripe.yaml is not the real one; run go test ./upstreams -run StripeExplanation -update\nwant:\n%s", comment.String())
	}
}

func TestExamplesWarnOnlyOfWhatTheyMean(t *testing.T) {
	want := map[string][]string{
		"ledger.yaml": {"no_lookup", "retention_unknown", "no_lookup"}, // to show how a person decides, and what cannot be repeated
		"stripe.yaml": {},
	}
	for name, codes := range want {
		p, _ := example(t, name)
		got := []string{}
		for _, w := range p.Warnings {
			got = append(got, w.Code)
		}
		if strings.Join(got, " ") != strings.Join(codes, " ") {
			t.Errorf("%s: warnings %v, want codes %v", name, p.Warnings, codes)
		}
	}
}

// TestStripeLookup asks Stripe's search with an odd key and reads what it may say.
func TestStripeLookup(t *testing.T) {
	p, _ := example(t, "stripe.yaml")
	o := p.Operations["create_payment_intent"]
	q := Question{Key: `a" OR b:"\`, Body: []byte("amount=2000&currency=eur&metadata%5Bidempotency_key%5D=x")}
	request, err := o.Ask(o.Lookups[0], q)
	const want = "/v1/payment_intents/search?limit=2&query=metadata%5B%22idempotency_key%22%5D%3A%22a%5C%22%20OR%20b%3A%5C%22%5C%5C%22"
	if err != nil || request.Path != want {
		t.Errorf("%s, %v", request.Path, err)
	}
	intent := func(members string) string { return `{"data":[{"id":"pi_1",` + members + `}]}` }
	const ours = `"metadata":{"idempotency_key":"a\" OR b:\"\\"}`
	for _, tt := range []struct {
		body    string
		finding outcome.Finding
	}{
		{`{"data":[]}`, outcome.FindingAbsent},
		{intent(`"amount":2000,"status":"succeeded",` + ours), outcome.FindingApplied},
		{intent(`"amount":2000,"status":"processing",` + ours), outcome.FindingPending},
		{intent(`"amount":2000,"status":"requires_confirmation","last_payment_error":null,` + ours), outcome.FindingApplied},
		{intent(`"amount":2000,"status":"requires_payment_method","last_payment_error":null,` + ours), outcome.FindingApplied},
		{intent(`"amount":2000,"status":"requires_payment_method","last_payment_error":{"code":"card_declined"},` + ours), outcome.FindingRefused},
		{intent(`"amount":2000,"status":"canceled",` + ours), outcome.FindingRefused},
		{intent(`"amount":2001,"status":"succeeded",` + ours), outcome.FindingUnknown},
		{intent(`"amount":2000,"status":"succeeded","metadata":{"idempotency_key":"other"}`), outcome.FindingUnknown},
		{intent(`"amount":2000,"status":"succeeded","metadata":{}`), outcome.FindingUnknown},
		{`{"data":[{},{}]}`, outcome.FindingUnknown},
	} {
		if got := o.Find(o.Lookups[0], q, reply(200, tt.body)); got.Finding != tt.finding || (got.Reference == "pi_1") != (tt.finding == outcome.FindingApplied || tt.finding == outcome.FindingRefused) {
			t.Errorf("%s: %+v", tt.body, got)
		}
	}
}
