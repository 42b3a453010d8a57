// Package client is the Go client of the executor's REST API. It needs nothing
// but the standard library.
//
// A command ends in one of four ways, and [Match] makes a caller say what it does
// in each: leaving one out does not compile.
//
//	c, err := client.New(client.Config{URL: "http://127.0.0.1:8080", APIKey: key})
//	…
//	cmd, err := c.Run(ctx, client.Submission{
//		Key: "order-42", Upstream: "ledger", Operation: "create_payment",
//		Params: map[string]string{"account": "a1"}, Body: json.RawMessage(`{"amount": 100}`),
//	})
//	…
//	text := client.Match(cmd.Outcome,
//		func(o client.Success) string { return "paid: " + o.Result.Reference },
//		func(o client.Rejected) string { return "refused: " + o.Rejection.Message },
//		func(o client.Unresolved) string { return "nobody knows yet; do not pay again" },
//		func(o client.Cancelled) string { return "not paid; it may be submitted again under a new key" },
//	)
//
// # Lost answers
//
// A submit is repeated by itself, with the same key, when its answer is lost or
// the service is away: the key makes that safe. If it stays unknown whether the
// command was accepted, the error is an [*Unconfirmed] that holds the key; submit
// the same again under that key, now or later, and at most one command exists.
// Choose the key from your own data where you can, so that it survives a crash.
//
// # What people decide
//
// [Client.Reviews] lists what waits for a person; [Client.Resolve], [Client.LookUp],
// [Client.Resend], [Client.Assign], [Client.Note] and [Client.Correct] act on it. Each
// takes the version of the command that the decision was made on: if a lookup or
// another person was faster, nothing is done and the error is [ErrStale]. The name
// of the API key, the reason and the evidence are kept in the audit log.
//
// None of them is repeated by itself. If the answer is lost, the error is an
// [*Unanswered]: read the command, then decide again. The same with the same version
// cannot be done twice, since doing it changed the version.
//
// # Webhooks
//
// A receiver checks what it gets with [VerifyWebhook] or is a [WebhookHandler].
//
// # Errors
//
// What the service refuses is a [*Problem] (RFC 9457). errors.Is compares it with
// [ErrNotFound], [ErrUnauthorized] and their sisters. What it could never accept is
// not sent: that is an [*Invalid], which is [ErrInvalid] too.
package client
