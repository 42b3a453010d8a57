package attempts

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"executor/internal/egress"
	"executor/outcome"
	"executor/upstreams"
)

// AnswerOf is the answer that an attempt's response gives: the profile's
// judgement, as far as this exchange lets it stand. Without a response there is
// none. What may have been said to another request, or to half of this one, is
// unclear; only a refusal on a connection that carried nothing else can be meant
// for no other request.
func AnswerOf(o Observation, j upstreams.Judgement) outcome.Answer {
	switch {
	case !o.Evidence.HasStatus():
		return outcome.AnswerNone
	case o.Status == http.StatusSwitchingProtocols: // never asked for
		return outcome.AnswerUnclear
	case o.Status == http.StatusRequestTimeout && o.Reused: // may have been sent to an idle connection
		return outcome.AnswerUnclear
	case !o.EarlyResponse:
		return j.Answer
	case !o.Reused && (j.Answer == outcome.AnswerRefused || j.Answer == outcome.AnswerDeclined):
		return j.Answer
	default:
		return outcome.AnswerUnclear
	}
}

// classify makes evidence of a sealed exchange: the count first, errors second.
// Equal error texts mean different things before and after the first byte.
func (x *exchange) classify(t tally) Observation {
	switch {
	case x.reply != nil:
		return x.answered(t)
	case t.nothing:
		category, detail := x.silence(t)
		return notSent(outcome.StageWrite, category, detail)
	default:
		category, detail := x.silence(t)
		o := Observation{Evidence: outcome.EvidenceSentNoResponse, Stage: outcome.StageHeaders, Category: category, Detail: egress.Line(detail)}
		if t.handed < t.total {
			o.Stage = outcome.StageWrite
		}
		o.HeaderTruncated = errors.Is(x.headErr, errHeadTooLarge)
		return o
	}
}

// silence says why there is no response.
func (x *exchange) silence(t tally) (outcome.Category, string) {
	switch err := x.headErr; {
	case remoteAlert(err):
		// TLS 1.3 tells of a refused client certificate only after the request.
		return outcome.CategoryTLSFailure, cause(err).Error()
	case errors.Is(err, errHeadTooLarge):
		return outcome.CategoryConnectionReset, fmt.Sprintf("response headers exceed %d bytes", headerBytes(x.conn.target.Limits))
	case errors.Is(err, errTooManyInterim):
		return outcome.CategoryConnectionReset, fmt.Sprintf("more than %d interim (1xx) responses", maxInterim)
	case errors.Is(err, errMalformed):
		return outcome.CategoryConnectionReset, err.Error()
	case x.clock.over():
		return outcome.CategoryAttemptTimeout, "the attempt's time was over"
	case t.failure != nil:
		return outcome.CategoryWriteFailure, cause(t.failure).Error()
	case t.handed < t.total: // the reader saw the end first
		return outcome.CategoryWriteFailure, cause(err).Error()
	case timedOut(err):
		return outcome.CategoryHeaderTimeout, fmt.Sprintf("no response headers within %s", x.clock.headers)
	default:
		return outcome.CategoryConnectionReset, cause(err).Error()
	}
}

// answered is the evidence of an exchange whose final headers arrived.
func (x *exchange) answered(t tally) Observation {
	r, limit := x.reply, responseBytes(x.conn.target.Limits)
	sum := sha256.Sum256(r.raw)
	o := Observation{
		Evidence: outcome.EvidenceResponseReceived, Stage: outcome.StageDone, Category: outcome.CategoryNone,
		Status: r.status, Header: r.header, BodyBytes: int64(len(r.raw)), BodySHA256: sum[:],
		EarlyResponse: x.early || t.handed < t.total,
	}
	body, cut, err := decode(r.header, r.raw, r.bodyErr == nil && !r.truncated, limit)
	o.Body, o.BodyUndecodable, o.Truncated = body, err != nil, r.truncated || cut
	whole := r.bodyErr == nil && !o.Truncated
	switch {
	case r.bodyErr != nil && (timedOut(r.bodyErr) || x.clock.over()):
		o.partial(outcome.CategoryBodyTimeout, "the attempt's time was over within the response body")
	case r.bodyErr != nil:
		o.partial(outcome.CategoryBodyTruncated, "the response body broke off: "+cause(r.bodyErr).Error())
	case err != nil:
		o.Stage, o.Category, o.Detail = outcome.StageBody, outcome.CategoryBodyUndecodable, err.Error()
	case o.Truncated:
		o.Detail = fmt.Sprintf("the response body is larger than %d bytes", limit)
	case r.openEnd && !endsByItself(body):
		whole = false
		o.partial(outcome.CategoryBodyTruncated, "the response body ends with the connection and does not show its own end")
	}
	o.BodyComplete = whole && err == nil
	return o
}

func (o *Observation) partial(category outcome.Category, detail string) {
	o.Evidence, o.Stage, o.Category, o.Detail = outcome.EvidencePartialResponse, outcome.StageBody, category, egress.Line(detail)
}

// conclude adds to the evidence what the exchange counted and how long it took.
func (x *exchange) conclude(t tally, o Observation) Observation {
	o = x.conn.describe(o)
	o.BytesTotal, o.BytesHandedOver, o.Interim, o.Notes = t.total, t.handed, x.interim, x.notes
	if x.reply != nil && x.reply.twice {
		o.Notes = append(o.Notes, "the response has both a Content-Length and a Transfer-Encoding: read by the latter")
	}
	if x.began.IsZero() {
		return o
	}
	if n := len(x.conn.responses.source.head); x.reply == nil && n > 0 {
		o.Notes = append(o.Notes, fmt.Sprintf("%d bytes of an answer had come, but no whole final headers", n))
	}
	o.Timings.Write = x.wrote.Sub(x.began)
	headed := x.ended
	if x.reply != nil {
		headed = x.reply.headedAt
		o.Timings.Body = x.ended.Sub(headed)
	}
	o.Timings.Headers = max(0, headed.Sub(x.wrote))
	return o
}

// beforeRequest classifies what the connection did before its request.
func beforeRequest(err error) outcome.Category {
	switch {
	case errors.Is(err, errPeerSpoke):
		return outcome.CategoryConnectFailure
	case remoteAlert(err):
		return outcome.CategoryTLSFailure
	default:
		return outcome.CategoryConnectionReset
	}
}

func timedOut(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// remoteAlert says that the peer ended the connection with a TLS alert.
func remoteAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// cause drops the addresses that package net puts around its errors, and gives
// the end of a stream a name.
func cause(err error) error {
	var op *net.OpError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errEnded
	case remoteAlert(err):
		return err
	case errors.As(err, &op) && op.Err != nil:
		return op.Err
	case err == nil:
		return errEnded
	default:
		return err
	}
}

var errEnded = errors.New("the peer closed the connection")

// Limits of a target that states none.
const (
	defaultResponseBytes = 1 << 20
	defaultHeaderBytes   = 64 << 10
)

func responseBytes(l upstreams.Limits) int64 { return orDefault(l.ResponseBytes, defaultResponseBytes) }
func headerBytes(l upstreams.Limits) int64   { return orDefault(l.HeaderBytes, defaultHeaderBytes) }

func orDefault(n, fallback int64) int64 {
	if n <= 0 {
		return fallback
	}
	return n
}
