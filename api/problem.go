package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"executor/attempts"
	"executor/commands"
	"executor/internal/audit"
	"executor/internal/postgres"
	"executor/upstreams"
	"executor/webhooks"
)

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
		full     *commands.BacklogFull
		away     *commands.FilesUnavailable
	)
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &bad):
		return &failure{code: ProblemCodeMalformedJSON, detail: bad.detail, fields: []FieldProblem{
			{Pointer: bad.pointer, Code: bad.code, Detail: bad.detail, Line: bad.line, Column: bad.column}}}
	case errors.As(err, &invalid):
		return &failure{code: ProblemCodeInvalidRequest, detail: invalid.Detail, fields: fieldProblems(invalid.Fields)}
	case errors.As(err, &mismatch) && mismatch.Blind:
		return &failure{code: ProblemCodeIdempotencyKeyReused, commandID: mismatch.CommandID.String(),
			detail: "The idempotency key belongs to a command whose one-shot body cannot be compared any more: the encryption key of its hash was taken out. " +
				"Read that command; if this is the same intent, do not submit it under another key.",
			fields: []FieldProblem{{Pointer: "/body", Code: "unknown", Detail: "Nobody can tell whether it differs."}}}
	case errors.As(err, &mismatch):
		return &failure{code: ProblemCodeIdempotencyKeyReused, commandID: mismatch.CommandID.String(),
			detail: "The idempotency key belongs to another request, which differs in " + strings.Join(mismatch.Differs, ", ") + ".",
			fields: differences(mismatch.Differs)}
	case errors.As(err, &full):
		return &failure{code: ProblemCodeBacklogFull, headers: map[string]string{"Retry-After": "5"},
			detail: fmt.Sprintf("As many commands wait or are under way as this tenant may have: %d. Nothing was accepted; repeat it later, with the same key.", full.Limit)}
	case errors.As(err, &away):
		return &failure{code: ProblemCodeNotAccepted, headers: map[string]string{"Retry-After": "5"},
			detail: "A file of the body cannot be read now: " + away.Detail + ". Nothing was accepted; repeat the request when whoever runs the service has mended it.",
			fields: []FieldProblem{{Pointer: away.Pointer, Code: "unavailable", Detail: sentence(away.Detail)}}}
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
	case errors.Is(err, attempts.ErrOtherDeployment), errors.Is(err, attempts.ErrNoDeployment), errors.Is(err, attempts.ErrNotResumed):
		return &failure{code: ProblemCodeConflict, detail: sentence(err.Error())}
	case errors.Is(err, commands.ErrCannotHold):
		return &failure{code: ProblemCodeNotAccepted, headers: map[string]string{"Retry-After": "1"},
			detail: "This process cannot hold the body of a one-shot command: it sends nothing, or holds too many already. Nothing was accepted; repeat the request."}
	case errors.Is(err, postgres.ErrNotDurable):
		return &failure{code: ProblemCodeUnavailable, headers: map[string]string{"Retry-After": "5"},
			detail: "The database may forget what it commits, so nothing is accepted. Whoever runs the service finds the setting in its log."}
	case errors.Is(err, commands.ErrUnavailable), errors.Is(err, context.Canceled), databaseAway(err):
		return &failure{code: ProblemCodeUnavailable, headers: map[string]string{"Retry-After": "1"},
			detail: "The database did not answer, or takes no changes now. Repeat the request; a submit with the same key is safe."}
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

// ours reports whether the log has to know: the service failed, and did not only
// refuse.
func (f *failure) ours(status int) bool {
	return status >= http.StatusInternalServerError && f.code != ProblemCodeBacklogFull
}

// view is the problem as it is written.
func (f *failure) view(requestID string) (Problem, int) {
	m, _ := meaningOf(f.code)
	return Problem{
		Type: "/problems/" + string(f.code), Title: m.title, Status: m.status, Detail: f.detail, Code: f.code,
		RequestID: requestID, Errors: f.fields, CommandID: f.commandID, CurrentVersion: f.version, Count: f.count,
	}, m.status
}
