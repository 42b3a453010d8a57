package api

import (
	"errors"
	"math"
	"net/http"
	"strconv"

	"executor/commands"
	"executor/reconcile"
	"executor/upstreams"
	"executor/webhooks"
)

// doubtProblem is what a caller may know of an error of those who follow up
// doubts; nil if it is none of theirs.
func doubtProblem(err error) *failure {
	var (
		changed    *reconcile.Stale
		refusal    *reconcile.Refused
		unsafe     *commands.NotResendable
		unverified *upstreams.UnverifiedNotice
		unreadable *upstreams.UnreadableNotice
	)
	switch {
	case errors.As(err, &changed):
		return stale(changed.Version)
	case errors.Is(err, reconcile.ErrVersionRequired):
		return problemFor(versionRequired())
	case errors.As(err, &refusal):
		f := refused(refusal.Code, refusal.Detail)
		f.count = refusal.Count
		return f
	case errors.As(err, &unsafe):
		return &failure{code: ProblemCodeResendNotSafe, detail: sentence(unsafe.Error())}
	case errors.As(err, &unverified), errors.Is(err, reconcile.ErrNoNotices):
		return &failure{code: ProblemCodeUnverifiedNotice, detail: "No upstream of that name and tenant has signed this notice, or not now. The log has the reason.",
			headers: map[string]string{"WWW-Authenticate": `Signature realm="notices"`}}
	case errors.As(err, &unreadable):
		return &failure{code: ProblemCodeInvalidRequest, detail: sentence(unreadable.Error())}
	case errors.Is(err, reconcile.ErrNoticeTooLarge):
		return problemFor(tooLarge(reconcile.NoticeBytes))
	case errors.Is(err, reconcile.ErrBulkNotFound):
		return &failure{code: ProblemCodeNotFound, detail: "There is no such bulk action."}
	case errors.Is(err, reconcile.ErrReportNotFound):
		return &failure{code: ProblemCodeNotFound, detail: "There is no such report."}
	}
	return nil
}

// webhookProblem is what a caller may know of an error about webhooks; nil if it
// is none.
func webhookProblem(err error) *failure {
	var (
		changed *webhooks.Stale
		refusal *webhooks.Refused
		invalid *webhooks.Invalid
		busy    *webhooks.Busy
	)
	switch {
	case errors.As(err, &changed):
		return stale(changed.Version)
	case errors.As(err, &refusal):
		return refused(refusal.Code, refusal.Detail)
	case errors.As(err, &invalid):
		return problemFor(invalidRequest([]FieldProblem{{Pointer: "/" + invalid.Field, Code: invalid.Code, Detail: invalid.Detail}}))
	case errors.As(err, &busy):
		return &failure{code: ProblemCodeWebhookBusy, detail: sentence(busy.Error()),
			headers: map[string]string{"Retry-After": strconv.Itoa(int(math.Ceil(busy.Again.Seconds())))}}
	case errors.Is(err, webhooks.ErrNotFound):
		return &failure{code: ProblemCodeNotFound, detail: "There is no such webhook or delivery."}
	}
	return nil
}

// refused is a store's refusal under its own code. A code that nobody explains is
// a conflict.
func refused(code, detail string) *failure {
	if m, known := meaningOf(ProblemCode(code)); known && m.status == http.StatusConflict {
		return &failure{code: m.code, detail: detail}
	}
	return &failure{code: ProblemCodeConflict, detail: detail}
}
