package commands

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"net/textproto"
	"slices"

	"github.com/google/uuid"

	"executor/internal/bodyfiles"
	"executor/outcome"
)

// The identity of a request: a repeated key must come with the same upstream,
// operation, params, query, headers, content type and body bytes. Deadline,
// timeout, not_before, priority and metadata do not count: they say how to
// handle the intent, not what it is. JSON is compared as bytes, not as a
// document: the bytes are what is sent.
//
// One SHA-256 a field is kept, so that a mismatch can be named after the
// submission itself is long gone.
var identityFields = []string{"upstream", "operation", "params", "query", "headers", "content_type", "body"}

// The body of a one-shot command is never written anywhere: of it a keyed hash is
// kept, so that nobody can try out guesses against the row.
type identity struct {
	hashes []byte
	kind   outcome.Body
}

// identityOf makes what is kept of a submission.
func (s *Store) identityOf(sub Submission) identity {
	fields := identityValues(sub)
	hashes := make([]byte, 0, len(fields)*sha256.Size)
	for _, f := range fields[:bodyField] {
		sum := sha256.Sum256(f)
		hashes = append(hashes, sum[:]...)
	}
	kind := sub.bodyKind()
	if kind == outcome.BodyOneShot {
		return identity{slices.Concat(hashes, s.box.Tag(fields[bodyField]), s.box.Mark()), kind}
	}
	sum := sha256.Sum256(fields[bodyField])
	return identity{append(hashes, sum[:]...), kind}
}

// bodyField is the place of the body among the fields: the last one.
var bodyField = len(identityFields) - 1

// identityValues are the fields of a submission, in the order of identityFields.
func identityValues(s Submission) [][]byte {
	return [][]byte{
		[]byte(s.Upstream), []byte(s.Operation), flatten(s.Params), flatten(s.Query), flatten(canonicalHeaders(s.Headers)),
		[]byte(s.ContentType), bodyValue(s),
	}
}

// bodyValue begins with a byte that keeps the kinds of bodies apart: none, bytes, a
// file, parts.
func bodyValue(s Submission) []byte {
	switch {
	case s.BodyFile != nil:
		return appendFile([]byte{2}, *s.BodyFile)
	case len(s.Parts) > 0:
		b := []byte{3}
		for _, p := range s.Parts {
			b = appendTexts(b, p.Name, p.Filename, p.ContentType)
			if p.File != nil {
				b = appendFile(append(b, 2), *p.File)
			} else {
				b = appendTexts(append(b, 1), string(p.Body))
			}
		}
		return b
	case s.HasBody:
		return append([]byte{1}, s.Body...)
	default:
		return []byte{0}
	}
}

func appendFile(b []byte, f bodyfiles.File) []byte {
	return binary.AppendVarint(appendTexts(b, f.Path, f.SHA256), f.Size)
}

func appendTexts(b []byte, texts ...string) []byte {
	for _, s := range texts {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	return b
}

// canonicalHeaders gives each name its one spelling. A name given in two
// spellings is never accepted: joined by a newline, which no value holds, its
// values equal no accepted one.
func canonicalHeaders(headers map[string]string) map[string]string {
	canonical := make(map[string]string, len(headers))
	for _, given := range slices.Sorted(maps.Keys(headers)) {
		name, value := textproto.CanonicalMIMEHeaderKey(given), headers[given]
		if earlier, twice := canonical[name]; twice {
			value = earlier + "\n" + value
		}
		canonical[name] = value
	}
	return canonical
}

// flatten writes a map so that equal maps and only they have equal bytes.
func flatten(m map[string]string) []byte {
	var b []byte
	for _, name := range slices.Sorted(maps.Keys(m)) {
		b = appendTexts(b, name, m[name])
	}
	return b
}

// mismatch compares a submission with what is kept of the command that its key belongs
// to; nil if it is the same.
func (s *Store) mismatch(id uuid.UUID, kept identity, sub Submission) *KeyMismatch {
	names := s.differing(kept, sub)
	if len(names) == 0 {
		return nil
	}
	return &KeyMismatch{CommandID: id, Differs: names, Blind: slices.Equal(names, identityFields[bodyField:]) && s.blind(kept)}
}

// blind reports whether the hash of a one-shot body was made under a key that is not
// here any more. Its mark stands behind the hashes.
func (s *Store) blind(kept identity) bool {
	mark := kept.hashes[min(len(identityFields)*sha256.Size, len(kept.hashes)):]
	return kept.kind == outcome.BodyOneShot && len(mark) > 0 && (s.box == nil || !s.box.Knows(mark))
}

// differing names the fields in which a submission differs from what is kept of
// another one. Whether a body may be sent again is not what it is: the same bytes are
// the same request, one-shot or not.
func (s *Store) differing(kept identity, sub Submission) []string {
	var names []string
	for i, value := range identityValues(sub) {
		from, to := i*sha256.Size, (i+1)*sha256.Size
		if len(kept.hashes) < to || !s.same(kept, i, kept.hashes[from:to], value) {
			names = append(names, identityFields[i])
		}
	}
	return names
}

func (s *Store) same(kept identity, field int, hash, value []byte) bool {
	if field == bodyField && kept.kind == outcome.BodyOneShot {
		return s.box != nil && s.box.Tagged(hash, value)
	}
	sum := sha256.Sum256(value)
	return bytes.Equal(hash, sum[:])
}
