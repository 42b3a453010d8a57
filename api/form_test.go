package api

import (
	"encoding/json"
	"testing"

	"github.com/google/uuid"

	"executor/reconcile"
)

// FuzzForms: whatever is sent, a form is read as encoding/json reads it or refused
// as strictly as any other body.
func FuzzForms(f *testing.F) {
	for _, seed := range []string{
		`{"id":"01930000-0000-7000-8000-000000000001","action":"note","filter":{"kind":["conflict"],"metadata_min":{"a":1.50}},"reason":"r"}`,
		`{"action":"assign","assignee":null,"filter":{"assignee":"","older_than":"1h"},"dry_run":true,"expected_count":0}`,
		`{"action":"note","filter":{"reason":["a",7]},"absent":null}`, `{"filter":{"filter":{}}}`, `{"url":"u","events":[],"ordered":false,"disabled":true}`, `[`, `{"a":1,"a":2}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		scanned := func() error { r := newJSONReader(src); return r.document(r.skip) }()
		bulk, err := decodeBulk(src)
		if scanned != nil && err == nil || err != nil && problemFor(err).code == ProblemCodeInternalError {
			t.Fatalf("the scan says %v, the form %v", scanned, err)
		}
		var reason string
		if _, err := decodeChanges(src, &reason); err != nil && problemFor(err).code == ProblemCodeInternalError {
			t.Fatal(err)
		}
		if err != nil {
			return
		}
		var got struct {
			ID       uuid.UUID `json:"id"`
			Action   string    `json:"action"`
			Assignee string    `json:"assignee"`
			Filter   struct {
				Kinds []string          `json:"kind"`
				Equal map[string]string `json:"metadata"`
			} `json:"filter"`
		}
		if err := json.Unmarshal(src, &got); err != nil {
			t.Fatal(err)
		}
		same := got.ID == bulk.ID && got.Action == bulk.Action && got.Assignee == bulk.Assignee && len(got.Filter.Kinds) == len(bulk.Filter.Kinds)
		for label, value := range got.Filter.Equal {
			same = same && bulk.Filter.Metadata[label] == value
		}
		if !same {
			t.Fatalf("read as %+v, encoding/json has %+v", bulk, got)
		}
	})
}

// A list that is given and empty is not one that is left out.
func TestEmptyIsNotLeftOut(t *testing.T) {
	var reason string
	if c, err := decodeChanges([]byte(`{"events":[]}`), &reason); err != nil || c.Events == nil || len(*c.Events) != 0 || c.Upstreams != nil {
		t.Errorf("%+v, %v", c, err)
	}
	var f reconcile.ReviewFilter
	if err := decodeForm([]byte(`{"filter":{"assignee":""}}`), filterMember(&f)); err != nil || f.Assignee == nil || *f.Assignee != "" {
		t.Errorf("%+v, %v", f, err)
	}
	f = reconcile.ReviewFilter{}
	if err := decodeForm([]byte(`{"filter":{"assignee":null}}`), filterMember(&f)); err != nil || f.Assignee != nil {
		t.Errorf("%+v, %v", f, err)
	}
}
