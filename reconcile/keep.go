package reconcile

import (
	"net/http"

	"executor/internal/egress"
	"executor/upstreams"
)

func (l *Lookup) read(f upstreams.Found) {
	l.Finding, l.Rule, l.Reference, l.Code, l.Message, l.Notes = f.Finding, f.Rule, f.Reference, f.Code, f.Message, f.Notes
}

// keep takes over what may and can be kept of an answer: bounded, redacted, and
// without our credential, which an upstream may echo.
func (l *Lookup) keep(r reply, op *upstreams.Operation, most int64) {
	mask := func(text string) string { return string(egress.Mask([]byte(text), r.credential.Secrets...)) }
	l.Request, l.Category, l.Detail, l.Status, l.Truncated = r.request, r.category, mask(r.detail), r.status, r.truncated
	l.Reference, l.Code, l.Message = mask(l.Reference), mask(l.Code), mask(l.Message)
	for i, note := range l.Notes {
		l.Notes[i] = mask(note)
	}
	l.ResponseHeaders = keepHeaders(r.header, op, mask)
	l.ResponseBody = egress.Mask(op.RedactBody(r.body, false), r.credential.Secrets...)
	if most > 0 && int64(len(l.ResponseBody)) > most {
		l.ResponseBody, l.Truncated = l.ResponseBody[:most], true
	}
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
