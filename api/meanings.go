package api

import "net/http"

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
			"There is no such upstream that sends notices, or the signature of this one does not hold, or its time is out of tolerance: strangers are not told which, the log of the process has it. Sign it as the upstream's profile says, at the moment of sending."},
		{ProblemCodeMissingScope, http.StatusForbidden, "Missing scope",
			"The API key does not have the scope that the detail names."},
		{ProblemCodeSeveralTenants, http.StatusForbidden, "Several tenants",
			"It would touch other tenants of the deployment too, for which the API key does not speak. Whoever has the database does it on the command line."},
		{ProblemCodeLoopDetected, http.StatusMisdirectedRequest, "Loop detected",
			"The request came from this deployment itself, by way of an upstream or a webhook: it would cause the next for ever. Nothing was done. Correct the address there."},
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
		{ProblemCodeWebhookUnverified, http.StatusConflict, "Webhook unverified",
			"The webhook's receiver has not answered its challenge, and gets nothing else until then. Ask it again with POST /v1/webhooks/{id}/challenge; for one that cannot answer, a person with the role admin vouches in the dashboard."},
		{ProblemCodeWebhookVerified, http.StatusConflict, "Webhook verified",
			"The webhook's receiver has answered its challenge already, or a person vouched for it."},
		{ProblemCodeWebhookChallenge, http.StatusConflict, "Webhook challenge",
			"A challenge is not delivered again: POST /v1/webhooks/{id}/challenge makes a new one."},
		{ProblemCodeWebhookBusy, http.StatusTooManyRequests, "Webhook busy",
			"More challenges, test events or redeliveries were asked for than a receiver has to bear. Nothing was done. Repeat it after Retry-After seconds."},
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
		{ProblemCodeRateLimited, http.StatusTooManyRequests, "Rate limited",
			"More requests than the API key may make in a second, or too many without a valid key or signature from one address. Nothing was done. Repeat it after Retry-After seconds; RateLimit and RateLimit-Policy say what is left."},
		{ProblemCodeInternalError, http.StatusInternalServerError, "Internal error",
			"Our fault; the log has the cause under the request id. A submit may be repeated with the same key."},
		{ProblemCodeBacklogFull, http.StatusServiceUnavailable, "Backlog full",
			"As many commands of the tenant have no outcome yet as it may have. Nothing was accepted. Repeat it after Retry-After seconds with the same key; repeats of what was accepted before are answered as ever."},
		{ProblemCodeNotAccepted, http.StatusServiceUnavailable, "Not accepted now",
			"The body cannot be taken now: a file of it cannot be read, or no process has room for it. Nothing was accepted; the detail says why. Repeat it after Retry-After seconds with the same key; repeats of what was accepted before are answered as ever."},
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
