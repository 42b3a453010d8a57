package audit

// What is on record. The part before the dot says of what kind the subject is; an
// entry about a command names it by its id instead.
const (
	ActionCommandCancel  = "command.cancel"
	ActionCommandResolve = "command.resolve"
	ActionCommandLookup  = "command.lookup"
	ActionCommandResend  = "command.resend"
	ActionCommandAssign  = "command.assign"
	ActionCommandNote    = "command.note"
	ActionCommandCorrect = "command.correct"
	ActionCommandDismiss = "command.dismiss"

	ActionBulkStart    = "bulk.start"
	ActionReportUpload = "report.upload"
	ActionReportApply  = "report.apply"

	ActionProfileApply   = "profile.apply"
	ActionUpstreamPause  = "upstream.pause"
	ActionUpstreamResume = "upstream.resume"

	ActionWebhookCreate         = "webhook.create"
	ActionWebhookUpdate         = "webhook.update"
	ActionWebhookDelete         = "webhook.delete"
	ActionWebhookDisable        = "webhook.disable" // by the program, after nothing but failures
	ActionWebhookRotateSecret   = "webhook.rotate_secret"
	ActionWebhookRedeliver      = "webhook.redeliver"
	ActionWebhookRedeliverRange = "webhook.redeliver_range"
	ActionWebhookTest           = "webhook.test"
	ActionWebhookChallenge      = "webhook.challenge"
	ActionWebhookVerify         = "webhook.verify"  // by the program: the receiver answered its challenge
	ActionWebhookConfirm        = "webhook.confirm" // a person vouches for the receiver

	ActionKeyCreate = "key.create"
	ActionKeyRevoke = "key.revoke"

	ActionOperatorCreate      = "operator.create"
	ActionOperatorRole        = "operator.role"
	ActionOperatorDisable     = "operator.disable"
	ActionOperatorEnable      = "operator.enable"
	ActionOperatorPassword    = "operator.password"
	ActionOperatorLink        = "operator.link"
	ActionOperatorEndSessions = "operator.end_sessions"

	// In the chain of the deployment.
	ActionDeploymentFreeze = "deployment.freeze"
	ActionDeploymentResume = "deployment.resume"
	ActionDeploymentAdopt  = "deployment.adopt"
)

// Actions lists them, as they are offered to choose from.
func Actions() []string {
	return []string{
		ActionCommandCancel, ActionCommandResolve, ActionCommandLookup, ActionCommandResend, ActionCommandAssign,
		ActionCommandNote, ActionCommandCorrect, ActionCommandDismiss,
		ActionBulkStart, ActionReportUpload, ActionReportApply,
		ActionProfileApply, ActionUpstreamPause, ActionUpstreamResume,
		ActionWebhookCreate, ActionWebhookUpdate, ActionWebhookDelete, ActionWebhookDisable, ActionWebhookRotateSecret,
		ActionWebhookRedeliver, ActionWebhookRedeliverRange, ActionWebhookTest, ActionWebhookChallenge, ActionWebhookVerify, ActionWebhookConfirm,
		ActionKeyCreate, ActionKeyRevoke,
		ActionOperatorCreate, ActionOperatorRole, ActionOperatorDisable, ActionOperatorEnable, ActionOperatorPassword,
		ActionOperatorLink, ActionOperatorEndSessions,
		ActionDeploymentFreeze, ActionDeploymentResume, ActionDeploymentAdopt,
	}
}
