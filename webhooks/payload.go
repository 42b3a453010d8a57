package webhooks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"executor/commands"
	"executor/outcome"
)

// maxPayload is what Standard Webhooks allows.
const maxPayload = 20_000 // bytes

// shortMessage is how much stays of an upstream's message in a payload that would
// be too large.
const shortMessage = 500 // bytes

// message is what is sent.
type message struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"` // of the event, not of the delivery
	Data      any       `json:"data"`
}

// commandData tells of a command in the words of the API, in the version that was
// committed with the event. It never holds a response body.
type commandData struct {
	ID              uuid.UUID       `json:"id"`
	IdempotencyKey  string          `json:"idempotency_key"`
	Upstream        string          `json:"upstream"`
	Operation       string          `json:"operation"`
	Metadata        json.RawMessage `json:"metadata"`
	MetadataOmitted bool            `json:"metadata_omitted,omitempty"` // it was too large
	Version         int             `json:"version"`
	Sequence        int             `json:"sequence"`
	PreviousState   *outcome.State  `json:"previous_state"` // null for a first outcome
	Outcome         outcomeData     `json:"outcome"`
}

type outcomeData struct {
	State          outcome.State `json:"state"`
	Reason         string        `json:"reason"`
	StoppedBy      string        `json:"stopped_by"`
	WaitedFor      string        `json:"waited_for,omitempty"`
	DecidedBy      string        `json:"decided_by"`
	DecidedAt      time.Time     `json:"decided_at"`
	Sequence       int           `json:"sequence"`
	SafeToResubmit bool          `json:"safe_to_resubmit"`
	NextAction     string        `json:"next_action"`
	Result         *resultData   `json:"result,omitempty"`    // success only
	Rejection      *rejectData   `json:"rejection,omitempty"` // rejected only
}

type resultData struct {
	Status    int     `json:"status"`
	Reference *string `json:"reference"`
}

type rejectData struct {
	Status  int     `json:"status"`
	Code    *string `json:"code"`
	Message *string `json:"message"`
}

// told is the outcome as an event's data has it.
type told struct {
	outcomeData
	Status    int    `json:"status"`
	Reference string `json:"reference"`
	Code      string `json:"code"`
	Message   string `json:"message"`
}

// about is what a payload says of a command beyond its event.
type about struct {
	Key, Operation, Upstream, Metadata string
}

// payload is what is told of an outcome, below maxPayload.
func payload(e commands.OutcomeEvent, c about) ([]byte, error) {
	var t told
	if err := json.Unmarshal(e.Data, &t); err != nil {
		return nil, fmt.Errorf("read the data of event %s: %w", e.ID, err)
	}
	data := commandData{
		ID: e.CommandID, IdempotencyKey: c.Key, Upstream: c.Upstream, Operation: c.Operation, Metadata: json.RawMessage(c.Metadata),
		Version: e.Number, Sequence: e.Sequence, Outcome: t.shown(),
	}
	if e.PreviousState.Final() {
		data.PreviousState = &e.PreviousState
	}
	m := message{Type: e.Type, Timestamp: e.At.UTC(), Data: &data}
	text, err := encode(m)
	if err == nil && len(text) >= maxPayload {
		data.Metadata, data.MetadataOmitted = json.RawMessage("null"), true
		text, err = encode(m)
	}
	if err == nil && len(text) >= maxPayload && data.Outcome.Rejection != nil {
		t.Message = shorten(t.Message, shortMessage)
		data.Outcome = t.shown()
		text, err = encode(m)
	}
	return text, err
}

func (t told) shown() outcomeData {
	o := t.outcomeData
	switch o.State {
	case outcome.StateSuccess:
		o.Result = &resultData{Status: t.Status, Reference: orNull(t.Reference)}
	case outcome.StateRejected:
		o.Rejection = &rejectData{Status: t.Status, Code: orNull(t.Code), Message: orNull(t.Message)}
	}
	return o
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// shorten cuts text to a number of bytes, at the end of a character.
func shorten(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}

// encode writes JSON without escapes that nobody needs.
func encode(m message) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(m); err != nil {
		return nil, fmt.Errorf("encode a %s: %w", m.Type, err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
