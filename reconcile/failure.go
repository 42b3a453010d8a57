package reconcile

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"syscall"

	"executor/internal/egress"
	"executor/outcome"
)

// invalidRequest says that no valid request can be made of a question.
type invalidRequest struct{ cause error }

func (e *invalidRequest) Error() string { return e.cause.Error() }

// prepareCategory says why a question could not be put.
func prepareCategory(err error) outcome.Category {
	var invalid *invalidRequest
	var forbidden *egress.Forbidden
	switch {
	case errors.As(err, &invalid):
		return outcome.CategoryRequestInvalid
	case errors.As(err, &forbidden): // the token endpoint's
		return outcome.CategoryAddressForbidden
	default:
		return outcome.CategoryAuthFailure
	}
}

// category says what went wrong in an exchange that brought no answer, in the
// words of attempts.
func (s *stage) category(ctx context.Context, err error) outcome.Category {
	reached := s.reached.Load()
	var (
		forbidden   *egress.Forbidden
		certificate *tls.CertificateVerificationError
		name        *net.DNSError
	)
	switch {
	case errors.As(err, &forbidden):
		return outcome.CategoryAddressForbidden
	case errors.As(err, &certificate):
		return outcome.CategoryCertificateInvalid
	case errors.Is(err, errLost):
		return outcome.CategoryExecutorLost
	case ctx.Err() != nil:
		return outcome.CategoryAttemptTimeout
	case errors.As(err, &name) && reached == stageDial:
		return outcome.CategoryDNSFailure
	case reached == stageDial:
		return dialCategory(err)
	case reached == stageTLS, remoteAlert(err):
		return outcome.CategoryTLSFailure
	case reached == stageWrite:
		return outcome.CategoryWriteFailure
	case timedOut(err):
		return outcome.CategoryHeaderTimeout
	default:
		return outcome.CategoryConnectionReset
	}
}

func dialCategory(err error) outcome.Category {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return outcome.CategoryConnectRefused
	case timedOut(err):
		return outcome.CategoryConnectTimeout
	default:
		return outcome.CategoryConnectFailure
	}
}

func timedOut(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// remoteAlert says that the peer ended the connection with a TLS alert.
func remoteAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// withoutURL drops what package net/http puts around its errors: the URL stands
// beside them already.
func withoutURL(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return ended(wrapped.Err)
	}
	return ended(err)
}
