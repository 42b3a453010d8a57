package webhooks

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"executor/commands"
)

// FuzzPayload: whatever an upstream and a caller wrote, the payload is JSON below its
// bound, and says what they wrote, or that it was left out.
func FuzzPayload(f *testing.F) {
	f.Add("pay_9", "no_money", "not enough", "order", "42", true)
	f.Add("\u202e\u2028</script>", "\x1b[31m", strings.Repeat("\x01", 2000), "č", strings.Repeat("😀", 500), false)
	f.Add("", "", strings.Repeat("é", 1000), "\"\\", "\x7f", false)
	f.Fuzz(func(t *testing.T, reference, code, text, label, value string, success bool) {
		for _, s := range []string{reference, code, text, label, value} {
			if len(s) > 2000 || !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
				return // no row holds it
			}
		}
		state := map[bool]string{true: "success", false: "rejected"}[success]
		data, err := json.Marshal(map[string]any{"state": state, "reference": reference, "code": code, "message": text, "status": 422, "decided_at": time.Unix(0, 0)})
		if err != nil {
			t.Fatal(err)
		}
		metadata := map[string]string{label: value}
		for i := range 49 { // as many as there may be
			metadata[strings.Repeat("n", 30)+string(rune('a'+i))] = strings.ToValidUTF8(value[:min(len(value), 500)], "")
		}
		kept, _ := json.Marshal(metadata)
		got, err := payload(commands.OutcomeEvent{ID: uuid.New(), Type: "command." + state, Data: data}, about{Key: strings.Repeat(`"`, 255), Operation: "o", Upstream: "u", Metadata: string(kept)})
		if err != nil || len(got) >= maxPayload || !utf8.Valid(got) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		var told struct {
			Data struct {
				Metadata        map[string]string
				MetadataOmitted bool `json:"metadata_omitted"`
				Outcome         struct {
					Result    struct{ Reference string }
					Rejection struct{ Code, Message string }
				}
			}
		}
		if err := json.Unmarshal(got, &told); err != nil {
			t.Fatal(err)
		}
		o := told.Data.Outcome
		switch {
		case success && o.Result.Reference != reference, !success && o.Rejection.Code != code:
			t.Fatalf("told %s", got)
		case !success && o.Rejection.Message != text && !told.Data.MetadataOmitted:
			t.Fatalf("the message was cut before the metadata: %s", got)
		case !told.Data.MetadataOmitted && told.Data.Metadata[label] != metadata[label]:
			t.Fatalf("told %s", got)
		}
	})
}
