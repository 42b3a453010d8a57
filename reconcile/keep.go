package reconcile

import (
	"net/http"
	"slices"

	"executor/internal/egress"
	"executor/outcome"
	"executor/upstreams"
)

func (l *Lookup) read(f upstreams.Found) {
	l.Finding, l.Rule, l.Reference, l.Code, l.Message, l.Notes = f.Finding, f.Rule, f.Reference, f.Code, f.Message, f.Notes
}

// keep takes over what may and can be kept of an answer: bounded, redacted, and
// without what an upstream may echo: our credential, and what the profile redacts of
// the command's own request.
func (l *Lookup) keep(r reply, op *upstreams.Operation, command upstreams.Request, most int64) {
	hidden := slices.Concat(r.credential.Secrets, op.Confidential(command, r.header, r.body))
	masker := egress.NewMasker(hidden...)
	mask := func(text string) string { return string(masker.Mask([]byte(text))) }
	maskCut := func(text string) string { return string(masker.MaskCut([]byte(text))) }
	l.Request, l.Category, l.Detail, l.Status, l.Truncated = r.request, r.category, maskCut(r.detail), r.status, r.truncated
	l.Code, l.Message = maskCut(l.Code), maskCut(l.Message)
	if mask(l.Reference) != l.Reference { // it is good whole or not at all
		l.Reference, l.Notes = "", append(l.Notes, "reference: redacted, left out")
	}
	for i, note := range l.Notes {
		l.Notes[i] = maskCut(note)
	}
	l.ResponseHeaders = keepHeaders(r.header, op, mask)
	if r.category == outcome.CategoryBodyUndecodable && len(hidden) > 0 {
		l.Notes = append(l.Notes, "the body is not kept: encoded as it is, it cannot be searched for credentials")
		return
	}
	var cut bool
	l.ResponseBody, cut = masker.Keep(op.RedactBody(r.body, false), most, r.truncated)
	l.Truncated = l.Truncated || cut
}

func keepHeaders(header http.Header, op *upstreams.Operation, mask func(string) string) http.Header {
	var flat []upstreams.Header
	for name, values := range header {
		for _, v := range values {
			flat = append(flat, upstreams.Header{Name: name, Value: mask(v)})
		}
	}
	kept := make(http.Header, len(header))
	for _, h := range op.Redact(flat) {
		kept[h.Name] = append(kept[h.Name], h.Value)
	}
	return kept
}
