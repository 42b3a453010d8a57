package attempts

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"executor/commands"
	"executor/internal/egress"
	"executor/outcome"
	"executor/upstreams"
)

// endingOf reads an observation through the profile, and keeps of it what may
// and can be kept: bounded and redacted.
func endingOf(w *work, number int, o Observation) Ending {
	hidden := w.hidden(o)
	masker := egress.NewMasker(hidden...)
	mask := func(text string) string { return string(masker.Mask([]byte(text))) }
	maskCut := func(text string) string { return string(masker.MaskCut([]byte(text))) }
	e := Ending{
		Evidence: o.Evidence, Stage: o.Stage, Category: o.Category, Detail: maskCut(o.Detail), Status: o.Status,
		RefreshedAuth:   w.refreshed && o.Evidence != outcome.EvidenceNotSent,
		BytesHandedOver: o.BytesHandedOver, Remote: o.Remote, Protocol: o.Protocol, Reused: o.Reused, Notes: o.Notes,
		Truncated: o.Truncated, ResponseBytes: o.BodyBytes, ResponseSHA256: o.BodySHA256,
		Addresses: addressesOf(o), Timings: asJSON(o.Timings.Milliseconds()),
	}
	r, ok := o.Response(number, w.inDoubt)
	if !ok {
		e.heed(o.Header, "", mask)
		return e
	}
	r.Target = w.Request.Path
	j, shown := w.operation.JudgeAndTell(r)
	e.Answer = AnswerOf(o, j)
	e.Code, e.Message = egress.Line(maskCut(shown.Code)), egress.Line(maskCut(shown.Message))
	// A reference and a link are good whole or not at all: lookups ask by them.
	if shown.Reference == j.Reference && mask(j.Reference) == j.Reference {
		e.Reference = j.Reference
	} else {
		e.Notes = append(e.Notes, "reference: redacted, left out")
	}
	if mask(j.Link) == j.Link {
		e.Link = j.Link
	}
	e.heed(o.Header, j.RetryAfter, mask)
	for _, note := range j.Notes { // of a link elsewhere, for instance
		e.Notes = append(e.Notes, maskCut(note))
	}
	if strings.HasPrefix(j.Rule, "answers[") && len(j.Notes) == 0 {
		e.Notes = append(e.Notes, "read by "+j.Rule)
	}
	if e.Answer != j.Answer {
		e.Notes = append(e.Notes, "the profile reads this response as "+string(j.Answer)+", which this exchange cannot bear out")
	}
	e.ResponseHeaders = asJSON(redactHeaders(w, o.Header, mask))
	if o.BodyUndecodable && len(hidden) > 0 {
		e.Notes = append(e.Notes, "the body is not kept: encoded as it is, it cannot be searched for credentials")
		return e
	}
	var cut bool
	e.ResponseBody, cut = masker.Keep(w.operation.RedactBody(o.Body, false), w.target.Limits.StoredResponseBytes, !o.BodyComplete)
	e.Truncated = e.Truncated || cut
	return e
}

// heed keeps when the upstream wants to be asked again, by what the profile found of it
// or, where that is no wait, by the header.
func (e *Ending) heed(header http.Header, found string, mask func(string) string) {
	now := time.Now()
	value, note := upstreams.RetryAfter(header, now)
	if found != "" {
		at, told := upstreams.RetryAfterAt(found, header, now)
		if _, ok := outcome.RetryAfter(at, now); ok || value == "" {
			value, note = at, told
		}
	}
	e.RetryAfter = egress.Line(mask(value))
	if note != "" {
		e.Notes = append(e.Notes, note)
	}
}

// hidden is what must not be kept of an answer: our credential, and what the
// profile redacts.
func (w *work) hidden(o Observation) []egress.Secret {
	return slices.Concat(w.access.Secrets, w.operation.Confidential(upstreams.Request{Headers: w.Request.Headers, Body: w.Request.Body}, o.Header, o.Body))
}

func redactHeaders(w *work, header http.Header, mask func(string) string) http.Header {
	var flat []upstreams.Header
	for name, values := range header {
		for _, v := range values {
			flat = append(flat, upstreams.Header{Name: name, Value: mask(v)})
		}
	}
	kept := make(http.Header, len(header))
	for _, h := range w.operation.Redact(flat) {
		kept[h.Name] = append(kept[h.Name], h.Value)
	}
	return kept
}

func addressesOf(o Observation) *string {
	if len(o.Addresses) == 0 {
		return nil
	}
	list := make([]commands.Address, len(o.Addresses))
	for i, a := range o.Addresses {
		list[i] = commands.Address{Address: a.Address, Category: a.Category, Detail: a.Detail}
	}
	return asJSON(list)
}

// asJSON is for values that always encode.
func asJSON(v any) *string {
	data, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return new(string(data))
}

// knowledgeOf turns the end of a fenced attempt into late evidence.
func knowledgeOf(r Report, instance string) commands.Knowledge {
	return commands.Knowledge{
		Source: outcome.DecidedByLateEvidence, Actor: instance, Attempt: r.Number, Evidence: r.Evidence, Category: r.Category,
		Answer: r.Answer, Status: r.Status, RetryAfter: r.RetryAfter, Reference: r.Reference, Code: r.Code, Message: r.Message,
		Link: r.Link, Body: r.ResponseBody,
		Observation: json.RawMessage(*asJSON(struct {
			Stage           outcome.Stage   `json:"stage"`
			Detail          string          `json:"detail"`
			BytesHandedOver int64           `json:"bytes_handed_over"`
			ElapsedMS       int64           `json:"elapsed_ms"`
			Headers         json.RawMessage `json:"response_headers,omitempty"`
			Truncated       bool            `json:"truncated,omitempty"` // the body
			Link            string          `json:"link,omitempty"`
			Notes           []string        `json:"notes,omitempty"`
		}{r.Stage, r.Detail, r.BytesHandedOver, r.Elapsed.Milliseconds(), raw(r.ResponseHeaders), r.Truncated, r.Link, r.Notes})),
	}
}

func raw(text *string) json.RawMessage {
	if text == nil {
		return nil
	}
	return json.RawMessage(*text)
}

// notSentEnding is the end of an attempt that provably never left.
func notSentEnding(stage outcome.Stage, category outcome.Category, detail string) Ending {
	return Ending{Evidence: outcome.EvidenceNotSent, Stage: stage, Category: category, Detail: egress.Line(detail)}
}

// lostEnding is the end of an attempt whose process is gone: it may have been
// sent.
func lostEnding(detail string) Ending {
	return Ending{Evidence: outcome.EvidenceSentNoResponse, Stage: outcome.StageWrite, Category: outcome.CategoryExecutorLost, Detail: detail}
}

// expired asks both clocks: one stands still while the machine is suspended,
// the other can be set.
func expired(mono, wall time.Time) bool {
	now := time.Now()
	return now.After(mono) || now.Round(0).After(wall)
}
