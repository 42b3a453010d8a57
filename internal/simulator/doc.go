// Package simulator is an upstream that misbehaves on request. It takes payments,
// and each request says, in a header or in its body, what shall go wrong: the
// effect, the answer, the connection, or their order. A ledger tells afterwards
// what really arrived and what really happened.
//
// It speaks HTTP/1.1 on its own connections, because what it must get wrong no
// HTTP server gets wrong. It keeps everything in memory, within bounds, and is
// meant for development and tests: there is nothing to protect in it.
package simulator
