package commands

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"net/textproto"
	"slices"
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

func fieldHashes(s Submission) []byte {
	body := []byte{0} // no body and an empty one differ
	if s.HasBody {
		body = append([]byte{1}, s.Body...)
	}
	fields := [][]byte{
		[]byte(s.Upstream), []byte(s.Operation), flatten(s.Params), flatten(s.Query), flatten(canonicalHeaders(s.Headers)),
		[]byte(s.ContentType), body,
	}
	hashes := make([]byte, 0, len(fields)*sha256.Size)
	for _, f := range fields {
		sum := sha256.Sum256(f)
		hashes = append(hashes, sum[:]...)
	}
	return hashes
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
		for _, s := range []string{name, m[name]} {
			b = binary.AppendUvarint(b, uint64(len(s)))
			b = append(b, s...)
		}
	}
	return b
}

// differing names the fields in which two requests differ.
func differing(a, b []byte) []string {
	var names []string
	for i, name := range identityFields {
		from, to := i*sha256.Size, (i+1)*sha256.Size
		if len(a) < to || len(b) < to || !bytes.Equal(a[from:to], b[from:to]) {
			names = append(names, name)
		}
	}
	return names
}
