package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"executor/attempts"
	"executor/commands"
	"executor/internal/audit"
	"executor/upstreams"
	"executor/webhooks"
)

// meaning is what a problem code stands for. People read it at the problem's
// type, /problems/{code}.
type meaning struct {
	code   ProblemCode
	status int
	title  string
	text   string // what it means and what to do
}

// meanings lists every problem code of openapi.yaml.
func meanings() []meaning {
	return []meaning{
		{ProblemCodeMalformedJSON, http.StatusBadRequest, "Malformed JSON",
			"The request body is not strict JSON: see errors for the place. Objects may name a member once only, strings must be UTF-8, and nesting is bounded."},
		{ProblemCodeMalformedBody, http.StatusBadRequest, "Malformed body",
			"The request body could not be read to its end, or is not text in UTF-8."},
		{ProblemCodeInvalidParameter, http.StatusBadRequest, "Invalid parameter",
			"A path, query or header parameter is unknown, given twice or has a bad value: errors names it."},
		{ProblemCodeMissingIdempotencyKey, http.StatusBadRequest, "Missing idempotency key",
			"A submit needs an Idempotency-Key header. Choose one for each intent, keep it, and repeat the request with the same key whenever its answer is lost."},
		{ProblemCodeInvalidIdempotencyKey, http.StatusBadRequest, "Invalid idempotency key",
			"An idempotency key has 1 to 255 printable ASCII characters, bare or as a quoted structured-field string, and is given once."},
		{ProblemCodeUnauthorized, http.StatusUnauthorized, "Unauthorized",
			"Send a valid API key: Authorization: Bearer exk_… Keys are made by executor keys create."},
		{ProblemCodeUnverifiedNotice, http.StatusUnauthorized, "Unverified notice",
			"The signature of the notice does not hold, or its time is out of tolerance. Sign it as the upstream's profile says, at the moment of sending."},
		{ProblemCodeMissingScope, http.StatusForbidden, "Missing scope",
			"The API key does not have the scope that the detail names."},
		{ProblemCodeNotFound, http.StatusNotFound, "Not found",
			"There is nothing by that name for the API key's tenant."},
		{ProblemCodeMethodNotAllowed, http.StatusMethodNotAllowed, "Method not allowed",
			"The path exists, but not with this method: the Allow header lists those it has."},
		{ProblemCodeConflict, http.StatusConflict, "Conflict",
			"The state does not allow it, or it changed meanwhile. Read it again and decide anew."},
		{ProblemCodeNotUnresolved, http.StatusConflict, "Not unresolved",
			"This is for unresolved commands only, and the command is not, or not any more."},
		{ProblemCodeNotSettled, http.StatusConflict, "Not settled",
			"Only what is settled can be corrected: resolve a command that is unresolved."},
		{ProblemCodeNothingToReview, http.StatusConflict, "Nothing to review",
			"The command waits for nobody."},
		{ProblemCodeNoConflict, http.StatusConflict, "No conflict",
			"No evidence contradicts the command's state, so there is nothing to dismiss."},
		{ProblemCodeNoLookup, http.StatusConflict, "No lookup",
			"The profile that the command was accepted under has no lookup for its operation."},
		{ProblemCodeLookupInProgress, http.StatusConflict, "Lookup in progress",
			"The upstream is being asked about the command right now. Wait for the answer, then decide."},
		{ProblemCodeCancelRequested, http.StatusConflict, "Cancel requested",
			"The caller asked for no further attempt."},
		{ProblemCodeResendNotSafe, http.StatusConflict, "Resend not safe",
			"One more attempt could do it twice. It takes a confirmed absence: by lookups, or by your own finding with its evidence."},
		{ProblemCodeTooMany, http.StatusConflict, "Too many",
			"The filter selects more commands than one bulk action may be for. Narrow it."},
		{ProblemCodeCountDiffers, http.StatusConflict, "Count differs",
			"The filter selects another number of commands than expected_count says. Look again before you act."},
		{ProblemCodeIDReused, http.StatusConflict, "Id reused",
			"A bulk action with this id was started with another request. Nothing was done. Choose a new id for a new action."},
		{ProblemCodeReportOnly, http.StatusConflict, "Report only",
			"The upstream's profile says that reports are only shown. Decide about its commands one by one, or change the profile."},
		{ProblemCodeNotCompared, http.StatusConflict, "Not compared",
			"Only a report whose comparison has ended can be applied."},
		{ProblemCodeNoSealingKey, http.StatusConflict, "No sealing key",
			"The deployment has no key to keep webhook secrets with: its operator sets one."},
		{ProblemCodeWebhookExists, http.StatusConflict, "Webhook exists",
			"The tenant has a webhook with this URL; the detail names it. If its secret was lost with an answer, rotate it."},
		{ProblemCodeTooManyWebhooks, http.StatusConflict, "Too many webhooks",
			"The tenant has as many webhooks as it may have. Delete one first."},
		{ProblemCodeTooManySecrets, http.StatusConflict, "Too many secrets",
			"As many secrets sign for the webhook as may. Wait until one has ended, or rotate with an overlap of 0s."},
		{ProblemCodeWebhookDisabled, http.StatusConflict, "Webhook disabled",
			"The webhook is disabled. Enable it first."},
		{ProblemCodeWebhookGone, http.StatusConflict, "Webhook gone",
			"The webhook of this delivery was deleted: there is nowhere to deliver it to."},
		{ProblemCodePreconditionFailed, http.StatusPreconditionFailed, "Precondition failed",
			"It has changed since you read it: current_version is its version now. Read it again and decide anew."},
		{ProblemCodeBodyTooLarge, http.StatusRequestEntityTooLarge, "Body too large",
			"The request body is over the limit that the detail names."},
		{ProblemCodeUnsupportedMediaType, http.StatusUnsupportedMediaType, "Unsupported media type",
			"The request body has another Content-Type than the call takes, or a Content-Encoding."},
		{ProblemCodeInvalidRequest, http.StatusUnprocessableEntity, "Invalid request",
			"The request is well formed but can never be accepted as it stands: errors points at every place."},
		{ProblemCodeInvalidProfile, http.StatusUnprocessableEntity, "Invalid profile",
			"The upstream profile does not hold: errors has the line and column of each place."},
		{ProblemCodeIdempotencyKeyReused, http.StatusUnprocessableEntity, "Idempotency key reused",
			"The key is bound for good to another request, whose command_id is given; the detail names the fields that differ. Nothing was accepted. Use a new key for a new intent."},
		{ProblemCodePreconditionRequired, http.StatusPreconditionRequired, "Precondition required",
			"A decision is made on what somebody saw. Send the version of the command that you read, as If-Match."},
		{ProblemCodeInternalError, http.StatusInternalServerError, "Internal error",
			"Our fault; the log has the cause under the request id. A submit may be repeated with the same key."},
		{ProblemCodeUnavailable, http.StatusServiceUnavailable, "Unavailable",
			"The database is away, or a commit's answer was lost: it is not known whether the request took effect. Repeat it after Retry-After seconds; a submit with the same key is safe and tells."},
	}
}

// meaningOf finds a code's meaning.
func meaningOf(code ProblemCode) (meaning, bool) {
	for _, m := range meanings() {
		if m.code == code {
			return m, true
		}
	}
	return meaning{}, false
}

// failure is an error that a caller may see: it becomes a problem as it is.
type failure struct {
	code      ProblemCode
	detail    string
	fields    []FieldProblem
	commandID string
	version   int // that it has now; 0 to say nothing
	count     int // of commands; 0 to say nothing
	headers   map[string]string
}

func (f *failure) Error() string {
	text := string(f.code) + ": " + f.detail
	for _, field := range f.fields {
		text += "; " + field.Pointer + field.Parameter + field.Header + ": " + field.Detail
	}
	return text
}

// badParameter refuses a path or query parameter.
func badParameter(name, detail string) error {
	return &failure{code: ProblemCodeInvalidParameter, detail: detail,
		fields: []FieldProblem{{Parameter: name, Code: "invalid", Detail: detail}}}
}

// badHeader refuses a request header.
func badHeader(code ProblemCode, name, detail string) error {
	return &failure{code: code, detail: detail, fields: []FieldProblem{{Header: name, Code: "invalid", Detail: detail}}}
}

// invalidRequest refuses a body for its fields.
func invalidRequest(fields []FieldProblem) error {
	detail := "The request has " + strconv.Itoa(len(fields)) + " invalid fields."
	if len(fields) == 1 {
		detail = fields[0].Detail
	}
	return &failure{code: ProblemCodeInvalidRequest, detail: detail, fields: fields}
}

// problemFor turns any error into what the caller may know of it. What it does
// not know is an internal error, whose cause goes to the log only.
func problemFor(err error) *failure {
	var (
		f        *failure
		bad      *malformed
		invalid  *commands.Invalid
		mismatch *commands.KeyMismatch
	)
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &bad):
		return &failure{code: ProblemCodeMalformedJSON, detail: bad.detail, fields: []FieldProblem{
			{Pointer: bad.pointer, Code: bad.code, Detail: bad.detail, Line: bad.line, Column: bad.column}}}
	case errors.As(err, &invalid):
		return &failure{code: ProblemCodeInvalidRequest, detail: invalid.Detail, fields: fieldProblems(invalid.Fields)}
	case errors.As(err, &mismatch):
		return &failure{code: ProblemCodeIdempotencyKeyReused, commandID: mismatch.CommandID.String(),
			detail: "The idempotency key belongs to another request, which differs in " + strings.Join(mismatch.Differs, ", ") + ".",
			fields: differences(mismatch.Differs)}
	case doubtProblem(err) != nil:
		return doubtProblem(err)
	case webhookProblem(err) != nil:
		return webhookProblem(err)
	case errors.Is(err, commands.ErrNotFound):
		return &failure{code: ProblemCodeNotFound, detail: "There is no such command."}
	case errors.Is(err, upstreams.ErrNotFound):
		return &failure{code: ProblemCodeNotFound, detail: "There is no such upstream."}
	case errors.Is(err, commands.ErrBadCursor), errors.Is(err, webhooks.ErrBadCursor), errors.Is(err, audit.ErrBadCursor):
		return problemFor(badParameter("cursor", "The cursor is not one that this server gave out."))
	case errors.Is(err, commands.ErrConflict):
		return &failure{code: ProblemCodeConflict, detail: "The command changed meanwhile. Read it again and repeat the request."}
	case errors.Is(err, attempts.ErrOtherDeployment), errors.Is(err, attempts.ErrNoDeployment):
		return &failure{code: ProblemCodeConflict, detail: sentence(err.Error())}
	case errors.Is(err, commands.ErrUnavailable), errors.Is(err, context.Canceled), databaseAway(err):
		return &failure{code: ProblemCodeUnavailable, headers: map[string]string{"Retry-After": "1"},
			detail: "The database did not answer. Repeat the request; a submit with the same key is safe."}
	default:
		return &failure{code: ProblemCodeInternalError, detail: "Something went wrong on our side. The log has the cause under the request id."}
	}
}

// differences point at the fields in which a repeated key's request differs.
func differences(fields []string) []FieldProblem {
	list := make([]FieldProblem, len(fields))
	for i, name := range fields {
		list[i] = FieldProblem{Pointer: "/" + name, Code: "differs", Detail: "It differs from the request that the key belongs to."}
	}
	return list
}

// sentence begins with a capital and ends with a full stop.
func sentence(s string) string {
	return strings.ToUpper(s[:1]) + strings.TrimSuffix(s[1:], ".") + "."
}

// fieldProblems shows a store's complaints. The key came in a header.
func fieldProblems(fields []upstreams.FieldError) []FieldProblem {
	list := make([]FieldProblem, len(fields))
	for i, f := range fields {
		list[i] = FieldProblem{Pointer: f.Pointer, Code: f.Code, Detail: f.Detail}
	}
	return list
}

// view is the problem as it is written.
func (f *failure) view(requestID string) (Problem, int) {
	m, _ := meaningOf(f.code)
	return Problem{
		Type: "/problems/" + string(f.code), Title: m.title, Status: m.status, Detail: f.detail, Code: f.code,
		RequestID: requestID, Errors: f.fields, CommandID: f.commandID, CurrentVersion: f.version, Count: f.count,
	}, m.status
}
