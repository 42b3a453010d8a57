package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Outcome is how a command ended: Success, Rejected, Unresolved or Cancelled, and
// nothing else. Take it apart with [Match].
type Outcome interface {
	State() State
	// Common is what every outcome has.
	Common() Decision
	sealed()
}

// Match calls the function of the outcome's kind and returns what it returns.
// There is one for each, so that none is overlooked. It panics if o is nil, which
// is the outcome of a command that has none yet.
func Match[T any](o Outcome, success func(Success) T, rejected func(Rejected) T, unresolved func(Unresolved) T, cancelled func(Cancelled) T) T {
	switch o := o.(type) {
	case Success:
		return success(o)
	case Rejected:
		return rejected(o)
	case Unresolved:
		return unresolved(o)
	case Cancelled:
		return cancelled(o)
	default:
		panic("client.Match: the command has no outcome yet")
	}
}

// Success says that the upstream did it, and said so.
type Success struct {
	Decision
	Result Result
}

// Rejected says that the upstream refused and did nothing. An identical command
// would be refused again.
type Rejected struct {
	Decision
	Rejection Rejection
}

// Unresolved says that nobody knows yet whether the upstream did it. It must not
// be done again by other means. It may still settle: NextAction tells how.
type Unresolved struct{ Decision }

// Cancelled says that the upstream is known not to have done it. The same may be
// submitted again, under a new key.
type Cancelled struct{ Decision }

func (Success) State() State    { return StateSuccess }
func (Rejected) State() State   { return StateRejected }
func (Unresolved) State() State { return StateUnresolved }
func (Cancelled) State() State  { return StateCancelled }

func (Success) sealed()    {}
func (Rejected) sealed()   {}
func (Unresolved) sealed() {}
func (Cancelled) sealed()  {}

// Decision is why and when a command ended.
type Decision struct {
	Reason         string    `json:"reason"`     // what is known of the remote side
	StoppedBy      string    `json:"stopped_by"` // why there was no further attempt; says nothing of the remote side
	WaitedFor      string    `json:"waited_for"` // stopped by the deadline: what held it back until then; "" where nothing is on record
	DecidedBy      string    `json:"decided_by"` // attempt, deadline, cancel, lookup, late_evidence, notice, report, operator
	DecidedAt      time.Time `json:"decided_at"`
	Sequence       int       `json:"sequence"`         // grows with every outcome of the command
	SafeToResubmit bool      `json:"safe_to_resubmit"` // a new command under a new key cannot double the effect
	NextAction     string    `json:"next_action"`      // lookup, review, none
}

// Common returns the decision itself.
func (d Decision) Common() Decision { return d }

// Result is the upstream's answer to a command that succeeded.
type Result struct {
	Status      int // 0 if no attempt was answered, but something else settled it
	Reference   string
	Headers     http.Header
	ContentType string
	Body        []byte // byte for byte
	Incomplete  bool   // done for certain, but the body was lost or cut
}

// Rejection is the upstream's reason, bounded.
type Rejection struct {
	Status  int    `json:"status"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// payload is a body on its way through JSON: as JSON, as text or as base64.
type payload struct {
	Body   json.RawMessage `json:"body"`
	Text   *string         `json:"body_text"`
	Base64 []byte          `json:"body_base64"`
}

func (p payload) bytes() []byte {
	switch {
	case p.Body != nil:
		return p.Body
	case p.Text != nil:
		return []byte(*p.Text)
	default:
		return p.Base64
	}
}

// canonical makes Get find a header however its name is written.
func canonical(h http.Header) http.Header {
	if h == nil {
		return nil
	}
	c := http.Header{}
	for name, values := range h {
		for _, v := range values {
			c.Add(name, v)
		}
	}
	return c
}

// outcomeDocument is an outcome on the wire.
type outcomeDocument struct {
	State State `json:"state"`
	Decision
	Result *struct {
		Status      int         `json:"status"`
		Reference   string      `json:"reference"`
		Headers     http.Header `json:"headers"`
		ContentType string      `json:"content_type"`
		Incomplete  bool        `json:"incomplete"`
		payload
	} `json:"result"`
	Rejection *Rejection `json:"rejection"`
}

func (d *outcomeDocument) outcome() (Outcome, error) {
	switch d.State {
	case StateSuccess:
		o := Success{Decision: d.Decision}
		if r := d.Result; r != nil {
			o.Result = Result{r.Status, r.Reference, canonical(r.Headers), r.ContentType, r.payload.bytes(), r.Incomplete}
		}
		return o, nil
	case StateRejected:
		o := Rejected{Decision: d.Decision}
		if d.Rejection != nil {
			o.Rejection = *d.Rejection
		}
		return o, nil
	case StateUnresolved:
		return Unresolved{d.Decision}, nil
	case StateCancelled:
		return Cancelled{d.Decision}, nil
	default:
		return nil, fmt.Errorf("the outcome's state %q is unknown to this client", d.State)
	}
}
