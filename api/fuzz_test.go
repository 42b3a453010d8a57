package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"executor/commands"
)

// FuzzBatch holds each item of a batch against the same command submitted alone:
// they are accepted and refused alike, and mean the same.
func FuzzBatch(f *testing.F) {
	for _, seed := range []string{
		`{"commands":[{"idempotency_key":"k1","upstream":"u","operation":"o","body":[1, 2.50,"\ud800"]},{"upstream":"u"},7]}`,
		`{"commands":[{"idempotency_key":"k","upstream":"u","operation":"o","metadata":{"a":"b"},"headers":{"X":"y"},"timeout":"1m"}]}`,
		`{"commands":[{"idempotency_key":"a\tb","upstream":"u","operation":"o","body_base64":"AP8="},{"idempotency_key":null}]}`,
		`{"commands":[]}`, `{"commands":[{"body":{"a":1,"a":2}}]}`, `{"Commands":[]}`, `{"commands":null}`, `{"commands":[{}],"commands":[]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		items, err := decodeBatch(src)
		if err != nil {
			if problemFor(err).code == ProblemCodeInternalError {
				t.Fatal(err)
			}
			return
		}
		var document struct {
			Commands []json.RawMessage `json:"commands"`
		}
		if err := json.Unmarshal(src, &document); err != nil || len(document.Commands) != len(items) {
			t.Fatalf("%d items, encoding/json has %d, %v", len(items), len(document.Commands), err)
		}
		for i, item := range items {
			alone, key, ok := withoutKey(document.Commands[i])
			if !ok {
				continue
			}
			sub, err := decodeSubmission(alone)
			switch {
			case item.err == nil && (err != nil || item.sub.Key != key || !printable(key)):
				t.Fatalf("item %d with key %q is accepted; alone: %v", i, item.sub.Key, err)
			case item.err != nil && err == nil && printable(key) && len(key) <= maxKey:
				t.Fatalf("item %d: %v; alone it is accepted", i, item.err)
			case item.err == nil && !sameSubmission(item.sub, sub):
				t.Fatalf("item %d is %+v, alone %+v", i, item.sub, sub)
			}
		}
	})
}

// withoutKey takes the key out of an item; false where it has none that is a text.
func withoutKey(item json.RawMessage) (alone []byte, key string, ok bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(item, &members) != nil || json.Unmarshal(members["idempotency_key"], &key) != nil {
		return nil, "", false
	}
	delete(members, "idempotency_key")
	var b bytes.Buffer
	for name, value := range members {
		quoted, _ := json.Marshal(name)
		b.WriteString("," + string(quoted) + ":" + string(value))
	}
	return []byte("{" + strings.TrimPrefix(b.String(), ",") + "}"), key, !strings.ContainsRune(string(item), utf8.RuneError)
}

func sameSubmission(a, b commands.Submission) bool {
	return a.Upstream == b.Upstream && a.Operation == b.Operation && a.HasBody == b.HasBody && bytes.Equal(a.Body, b.Body) &&
		len(a.Params) == len(b.Params) && len(a.Metadata) == len(b.Metadata) && a.Timeout == b.Timeout && a.Priority == b.Priority
}

// FuzzHeaders: a key is what a caller wrote, bare or in quotes; a version is a number
// from 1, and the ETag of it is read as the same.
func FuzzHeaders(f *testing.F) {
	for _, value := range []string{"", "k", `"k"`, `"a \"b\" \\"`, `"`, `"a`, `W/"7"`, "7", `"7"`, "*", "+7", "07", "0", "-1", "2147483648", "9999999999999999999", "a\x00", "é", " 7 ", "wait=5", `respond-async, wait="10"; x`, "WAIT=-1"} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if key, err := idempotencyKey(http.Header{keyHeader: {value}}); err == nil {
			quoted := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
			again, err := idempotencyKey(http.Header{keyHeader: {quoted}})
			if err != nil || again != key || !printable(key) || len(key) > maxKey {
				t.Fatalf("%q is the key %q, which in quotes is %q, %v", value, key, again, err)
			}
		} else if problemFor(err).code != ProblemCodeInvalidIdempotencyKey {
			t.Fatal(err)
		}
		if version, err := expectedVersion(http.Header{versionHeader: {value}}); err == nil {
			again, err := expectedVersion(http.Header{versionHeader: {strconv.Quote(strconv.Itoa(version))}})
			if err != nil || again != version || version < 1 {
				t.Fatalf("%q is version %d, whose ETag is %d, %v", value, version, again, err)
			}
		}
		if wait, asked := preferredWait(http.Header{"Prefer": {value}}); wait < 0 || wait > maxWait || !asked && wait != 0 {
			t.Fatalf("%q is a wait of %s", value, wait)
		}
	})
}

// FuzzShown: whatever bytes are shown, the answer is JSON, and gives them back.
func FuzzShown(f *testing.F) {
	for _, body := range []string{"", "{}", " {\"n\": 1.50 }\n", `{"a":1,"a":2}`, `"\u0000\ud800"`, "a\x00b", "\xff", "<script>", strings.Repeat("[", 300), "\"\x7f\u0085\"", "1e400", "[1,]"} {
		f.Add([]byte(body), body)
	}
	f.Fuzz(func(t *testing.T, body []byte, text string) {
		w := &jsonWriter{}
		w.begin('{')
		w.body(body)
		w.text("text", text)
		w.labels("labels", map[string]string{text: text})
		w.end('}')
		var got struct {
			Body       json.RawMessage
			BodyText   *string `json:"body_text"`
			BodyBase64 *string `json:"body_base64"`
			Text       string
			Labels     map[string]string
		}
		if err := json.Unmarshal(w.buf, &got); err != nil {
			t.Fatalf("%v in %q", err, w.buf)
		}
		back := bytes.Trim(body, " \t\r\n")
		switch {
		case got.BodyText != nil:
			back = []byte(*got.BodyText)
		case got.BodyBase64 != nil:
			back, _ = base64.StdEncoding.DecodeString(*got.BodyBase64)
		case !bytes.Equal(got.Body, back):
			t.Fatalf("%q is shown as %q", body, got.Body)
		}
		if (got.BodyText != nil || got.BodyBase64 != nil) && !bytes.Equal(back, body) {
			t.Fatalf("%q is shown as %q", body, back)
		}
		if want := strings.ToValidUTF8(text, "\uFFFD"); utf8.ValidString(text) && (got.Text != want || got.Labels[want] != want) {
			t.Fatalf("%q is shown as %q, %q", text, got.Text, got.Labels)
		}
	})
}
