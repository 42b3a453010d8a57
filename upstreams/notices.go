package upstreams

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"executor/outcome"
)

// Notices is how the upstream tells us of outcomes by itself.
type Notices struct {
	Signature Signature
	EventID   *Expression
	Command   *Expression // gives the key, or an object with key, id or reference
	Findings  []FindingRule
	Weight    string // conclusive or hint
}

// What a notice counts for.
const (
	WeightConclusive = "conclusive" // as much as a lookup
	WeightHint       = "hint"       // it is a reason to look
)

// Signature is how a notice proves where it comes from.
type Signature struct {
	Scheme          string   // standard-webhooks or hmac-sha256
	Header          string   // hmac-sha256: that carries the signature
	TimestampHeader string   // hmac-sha256: that carries the time, which is signed before the body; "" = none
	Secrets         []string // references; any of them may have signed
	Tolerance       time.Duration
}

// Schemes of signatures.
const (
	SchemeStandardWebhooks = "standard-webhooks"
	SchemeHMAC             = "hmac-sha256"
)

const (
	maxSecrets = 5
	maxEventID = 255 // bytes
)

// Notice is a verified notice, read through the profile. By and Value are empty
// if it names no command: it may be about something else.
type Notice struct {
	EventID string // the same in every copy
	By      string // how it names the command: key, id or reference
	Value   string
	Found
}

// UnreadableNotice says why a notice, although verified, cannot be used.
type UnreadableNotice struct{ Reason string }

func (e *UnreadableNotice) Error() string { return "the notice cannot be read: " + e.Reason }

// Read says which event a verified notice tells of, of which command, and what
// it says. A notice that names no command, or that no rule of findings matches,
// is read all the same. The error is an *UnreadableNotice.
func (n *Notices) Read(header http.Header, body []byte) (Notice, error) {
	if len(body) > maxJSONBytes {
		return Notice{}, &UnreadableNotice{fmt.Sprintf("its body is larger than %d bytes", maxJSONBytes)}
	}
	r := Response{Headers: header, Body: body, BodyComplete: true}
	w := &finding{reading: reading{response: r}, shown: reading{response: r}, Found: Found{Finding: outcome.FindingUnknown}}
	if n.Command.needsBody && w.vars()["json"] == nil {
		return Notice{}, &UnreadableNotice{"its body " + w.noJSON}
	}
	var notice Notice
	notice.EventID = w.eventID(n.EventID, body)
	notice.By, notice.Value = w.correlate(n.Command)
	if rule := w.match(n.Findings); rule != nil {
		w.tell(rule)
	}
	notice.Found = w.done()
	return notice, nil
}

// eventID is the sender's name for the event. Without a usable one the body
// names it: copies are equal then too.
func (w *finding) eventID(e *Expression, body []byte) string {
	id := w.evaluate("event_id", e)
	if id != "" && len(id) <= maxEventID && strings.IndexFunc(id, unprintable) < 0 {
		return id
	}
	w.note("event_id: gives no usable id, so the body stands for it")
	sum := sha256.Sum256(body)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// correlations are the members of an object that names a command, in the order
// in which they count.
var correlations = []string{"key", "id", "reference"}

// correlate finds what names the command.
func (w *finding) correlate(e *Expression) (by, value string) {
	out, err := e.eval(w.vars())
	switch {
	case errors.Is(err, errMissing):
		w.note("command: names none: " + withoutValues(err))
		return "", ""
	case err != nil:
		w.note("command: " + w.failure(e, err))
		return "", ""
	}
	object, ok := out.(traits.Mapper)
	if !ok {
		if text, err := textOfValue(out); err == nil && w.names(text) {
			return "key", text
		}
		w.note("command: gives " + typeName(out) + ", which names none")
		return "", ""
	}
	for _, name := range correlations {
		member, ok := object.Find(types.String(name))
		if !ok {
			continue
		}
		if text, err := textOfValue(member); err == nil && w.names(text) {
			return name, text
		}
	}
	w.note("command: gives none of " + strings.Join(correlations, ", "))
	return "", ""
}

// names says whether text can be the name of a command.
func (w *finding) names(text string) bool {
	return text != "" && len(text) <= maxReference && strings.IndexFunc(text, unprintable) < 0
}

// textOfValue reads text, or a whole number as it is written.
func textOfValue(v ref.Val) (string, error) {
	if o, ok := v.(*types.Optional); ok && o.HasValue() {
		v = o.GetValue()
	}
	switch v := v.(type) {
	case types.String:
		return string(v), nil
	case types.Int, types.Uint:
		return fmt.Sprint(v.Value()), nil
	default:
		return "", fmt.Errorf("gives %s", typeName(v))
	}
}
