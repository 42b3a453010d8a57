package commands

import (
	"maps"
	"net/textproto"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"executor/internal/bodyfiles"
	"executor/internal/seal"
	"executor/upstreams"
)

// text draws what fields are made of; few letters make near misses likely, such
// as a name that runs into its value.
func text() *rapid.Generator[string] { return rapid.StringN(0, 4, -1) }

func requests() *rapid.Generator[Submission] {
	texts := rapid.MapOfN(text(), text(), 0, 3)
	headers := rapid.MapOfN(rapid.StringMatching(`X-[A-C]{1,2}`), text(), 0, 3)
	return rapid.Custom(func(t *rapid.T) Submission {
		s := Submission{
			Upstream: text().Draw(t, "upstream"), Operation: text().Draw(t, "operation"),
			Params: texts.Draw(t, "params"), Query: texts.Draw(t, "query"), Headers: headers.Draw(t, "headers"),
			Body: rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(t, "body"), HasBody: rapid.Bool().Draw(t, "has body"),
			ContentType: text().Draw(t, "content type"), OneShot: rapid.Bool().Draw(t, "one shot"),
		}
		switch rapid.IntRange(0, 2).Draw(t, "kind of body") {
		case 1:
			s.BodyFile = &bodyfiles.File{Path: text().Draw(t, "path"), Size: rapid.Int64Range(0, 2).Draw(t, "size"), SHA256: text().Draw(t, "sha256")}
		case 2:
			s.Parts = rapid.SliceOfN(parts(), 0, 3).Draw(t, "parts")
		}
		return s
	})
}

func parts() *rapid.Generator[upstreams.Part] {
	return rapid.Custom(func(t *rapid.T) upstreams.Part {
		p := upstreams.Part{Name: text().Draw(t, "name"), Filename: text().Draw(t, "filename"), ContentType: text().Draw(t, "type")}
		if rapid.Bool().Draw(t, "file") {
			p.File = &bodyfiles.File{Path: text().Draw(t, "path"), Size: 1, SHA256: text().Draw(t, "sha256")}
		} else {
			p.Body = rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(t, "body")
		}
		return p
	})
}

// hashing stands for a store with a key for the bodies that it must not keep.
func hashing(t testing.TB) *Store {
	t.Helper()
	box, err := seal.New([]byte("0123456789abcdef0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	return &Store{box: box}
}

// sameBody compares two bodies, whatever may be done with them.
func sameBody(a, b Submission) bool {
	switch {
	case a.BodyFile != nil || b.BodyFile != nil:
		return a.BodyFile != nil && b.BodyFile != nil && *a.BodyFile == *b.BodyFile
	case len(a.Parts) > 0 || len(b.Parts) > 0:
		return slices.EqualFunc(a.Parts, b.Parts, func(p, q upstreams.Part) bool {
			return p.Name == q.Name && p.Filename == q.Filename && p.ContentType == q.ContentType && string(p.Body) == string(q.Body) &&
				(p.File == nil) == (q.File == nil) && (p.File == nil || *p.File == *q.File)
		})
	default:
		return a.HasBody == b.HasBody && (!a.HasBody || string(a.Body) == string(b.Body))
	}
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
		return sameBody(a, b)
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
	store := hashing(t)
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
		if got := store.differing(store.identityOf(a), b); !slices.Equal(got, want) {
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
		to.BodyFile, to.Parts = from.BodyFile, slices.Clone(from.Parts)
	}
}

// TestHashesHoldStill: the same submission hashes alike however its maps are
// walked, one header in two spellings included.
func TestHashesHoldStill(t *testing.T) {
	s := Submission{Headers: map[string]string{"x-a": "1", "X-A": "2", "X-a": "3"}}
	store := hashing(t)
	first := store.identityOf(s)
	for range 100 {
		if names := store.differing(first, s); len(names) > 0 {
			t.Fatalf("the same submission differs from itself in %v", names)
		}
	}
}

// TestHashesOfAnotherLength: hashes that are no list of ours differ in all that
// is missing.
func TestHashesOfAnotherLength(t *testing.T) {
	store := hashing(t)
	whole := store.identityOf(Submission{})
	if got := store.differing(identity{hashes: whole.hashes[:40]}, Submission{}); !slices.Equal(got, identityFields[1:]) {
		t.Errorf("differ in %v", got)
	}
	if got := store.differing(identity{}, Submission{}); !slices.Equal(got, identityFields) {
		t.Errorf("differ in %v", got)
	}
}
