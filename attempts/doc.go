// Package attempts makes attempts: each is exactly one request on the wire, or
// one that provably never got there.
//
// # Steps of an attempt
//
//  0. Permit, rate, pause: not part of the attempt.
//  1. [Sender.Dial] resolves, checks every address, connects and shakes hands.
//     Provably not sent if it fails; no database connection is held.
//  2. One transaction: lock the command, ask outcome.MayStart, check the epoch,
//     pending to executing, insert the open attempt. Commit.
//  3. [Sender.Send] asks the gate and sends, holding no database connection, on a
//     lease that is still valid.
//  4. It seals the byte counter and classifies what was seen; the profile judges
//     the response and [AnswerOf] says how far the judgement may be trusted.
//  5. One transaction: close the attempt, move the command. Commit.
//
// A crash after 2 leaves an open attempt, which is closed as sent_no_response
// when the lease lapses: an attempt that was begun is never assumed unsent.
//
// # The wire
//
// HTTP/1.1 (RFC 9112) is spoken here directly, on a connection dialled here:
// net/http's Transport repeats requests by itself on stale connections, and even
// POSTs once they carry an Idempotency-Key. Nothing in this package sends a
// request twice: the exchange has one gate and knows its length to the byte.
//
// Evidence comes from a sealed byte counter above TLS, never from error texts:
// the same EOF means "never sent" before the first byte and "perhaps done"
// after the last. Below it everything is thin:
//
//	wire      one TCP connection; can look without waiting, can end with a reset
//	counter   marks bytes before and after each write; refuses all once sealed
//	exchange  writes in one goroutine and reads in another, under one end
//	reply     heads and bodies under caps
//	pool      idle connections that are known to be silent
package attempts
