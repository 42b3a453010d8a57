package upstreams

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"
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
