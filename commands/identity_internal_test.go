package commands

import (
	"maps"
	"net/textproto"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// text draws what fields are made of; few letters make near misses likely, such
// as a name that runs into its value.
func text() *rapid.Generator[string] { return rapid.StringN(0, 4, -1) }

func requests() *rapid.Generator[Submission] {
	texts := rapid.MapOfN(text(), text(), 0, 3)
	headers := rapid.MapOfN(rapid.StringMatching(`X-[A-C]{1,2}`), text(), 0, 3)
	return rapid.Custom(func(t *rapid.T) Submission {
		return Submission{
			Upstream: text().Draw(t, "upstream"), Operation: text().Draw(t, "operation"),
			Params: texts.Draw(t, "params"), Query: texts.Draw(t, "query"), Headers: headers.Draw(t, "headers"),
			Body: rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(t, "body"), HasBody: rapid.Bool().Draw(t, "has body"),
			ContentType: text().Draw(t, "content type"),
		}
	})
}

// sameIn compares field by field, without any hash.
func sameIn(field string, a, b Submission) bool {
	switch field {
	case "upstream":
		return a.Upstream == b.Upstream
	case "operation":
		return a.Operation == b.Operation
	case "params":
		return maps.Equal(a.Params, b.Params)
	case "query":
		return maps.Equal(a.Query, b.Query)
	case "headers":
		return maps.Equal(canonical(a.Headers), canonical(b.Headers))
	case "content_type":
		return a.ContentType == b.ContentType
	default:
		return a.HasBody == b.HasBody && (!a.HasBody || string(a.Body) == string(b.Body))
	}
}

func canonical(headers map[string]string) map[string]string {
	m := make(map[string]string)
	for name, value := range headers {
		m[textproto.CanonicalMIMEHeaderKey(name)] = value
	}
	return m
}

// TestFieldHashes: two requests differ in exactly the fields whose hashes
// differ, whichever fields are the same.
func TestFieldHashes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := requests().Draw(t, "a"), requests().Draw(t, "b")
		mix := func(from *Submission) {
			for _, field := range identityFields {
				if rapid.Bool().Draw(t, "same "+field) {
					copyField(field, from, a)
				}
			}
		}
		mix(&b)
		var want []string
		for _, field := range identityFields {
			if !sameIn(field, a, b) {
				want = append(want, field)
			}
		}
		if got := differing(fieldHashes(a), fieldHashes(b)); !slices.Equal(got, want) {
			t.Errorf("differ in %v, want %v", got, want)
		}
	})
}

// copyField gives a submission one field of another one, in other storage and,
// where it does not count, in another spelling.
func copyField(field string, to *Submission, from Submission) {
	switch field {
	case "upstream":
		to.Upstream = from.Upstream
	case "operation":
		to.Operation = from.Operation
	case "params":
		to.Params = maps.Clone(from.Params)
	case "query":
		to.Query = maps.Clone(from.Query)
	case "headers":
		to.Headers = make(map[string]string)
		for name, value := range from.Headers {
			to.Headers[strings.ToLower(name)] = value
		}
	case "content_type":
		to.ContentType = from.ContentType
	default:
		to.Body, to.HasBody = slices.Clone(from.Body), from.HasBody
	}
}

// TestHashesHoldStill: the same submission hashes alike however its maps are
// walked, one header in two spellings included.
func TestHashesHoldStill(t *testing.T) {
	s := Submission{Headers: map[string]string{"x-a": "1", "X-A": "2", "X-a": "3"}}
	first := fieldHashes(s)
	for range 100 {
		if names := differing(first, fieldHashes(s)); len(names) > 0 {
			t.Fatalf("the same submission differs from itself in %v", names)
		}
	}
}

// TestHashesOfAnotherLength: hashes that are no list of ours differ in all that
// is missing.
func TestHashesOfAnotherLength(t *testing.T) {
	whole := fieldHashes(Submission{})
	if got := differing(whole[:40], whole); !slices.Equal(got, identityFields[1:]) {
		t.Errorf("differ in %v", got)
	}
	if got := differing(nil, whole); !slices.Equal(got, identityFields) {
		t.Errorf("differ in %v", got)
	}
}
