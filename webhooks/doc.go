// Package webhooks tells others what became of commands.
//
// A tenant's endpoints say where and of what. In the transaction that moves a
// command its outcome becomes one event, whose payload is fixed then, and one
// delivery for each endpoint that wants it. Deliveries are signed as Standard
// Webhooks 1.0.0 says, tried again on a schedule and kept as a log. They are made
// at least once: what a process had under way when it died is sent again, with
// the same id.
//
// What a receiver answers is never evidence about the command.
package webhooks
