package webhooks

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"executor/internal/egress"
)

// Failure is why a try did not deliver; "" for one that did. Those that only our log
// tells apart stand as unreachable everywhere else.
type Failure string

const (
	FailureNone             Failure = ""
	FailureUnreachable      Failure = "unreachable"       // no connection came about; nothing was sent
	FailureAddressForbidden Failure = "address_forbidden" // in the log only
	FailureDNS              Failure = "dns_failure"       // in the log only
	FailureConnect          Failure = "connect_failure"   // in the log only
	FailureTLS              Failure = "tls_failure"
	FailureTimeout          Failure = "timeout"           // no response header in time
	FailureConnectionLost   Failure = "connection_lost"   // before the response's header was there
	FailureResponseInvalid  Failure = "response_invalid"  // not HTTP, or a header too large
	FailureRedirect         Failure = "redirect"          // 3xx: not followed
	FailureGone             Failure = "gone"              // 410: the endpoint is disabled
	FailureRefused          Failure = "refused"           // any other status but 2xx
	FailureUnproven         Failure = "unproven"          // 2xx without the answer to the challenge
	FailureInterrupted      Failure = "interrupted"       // this process stopped; the try does not count
	FailureSecretUnreadable Failure = "secret_unreadable" // the sealing key is missing here; the try does not count
)

// ours tells failures that say nothing about the receiver.
func (f Failure) ours() bool { return f == FailureInterrupted || f == FailureSecretUnreadable }

// byStatus reads a response's status. Nothing else of a response decides.
func byStatus(status int) Failure {
	switch {
	case status >= 200 && status <= 299:
		return FailureNone
	case status >= 300 && status <= 399:
		return FailureRedirect
	case status == http.StatusGone:
		return FailureGone
	default:
		return FailureRefused
	}
}

// plainHTTP is a connection that plain http must not use.
type plainHTTP struct{ address string }

func (e *plainHTTP) Error() string {
	return fmt.Sprintf("plain http is for addresses that EXECUTOR_WEBHOOK_ALLOW names, and %s is none: use https", e.address)
}

// forbidden puts a refusal of the guard into words.
func forbidden(err error) string {
	var f *egress.Forbidden
	switch {
	case !errors.As(err, &f):
		return err.Error()
	case f.Class == egress.ClassOwn:
		return fmt.Sprintf("The address %s belongs to this deployment itself.", f.Addr)
	default:
		return fmt.Sprintf("The address %s is forbidden (%s); EXECUTOR_WEBHOOK_ALLOW can permit it.", f.Addr, f.Class)
	}
}

// byError reads why there is no response, and says it without the URL, which may
// hold a token. connected says whether a connection had come about. It is for the
// log: see told.
func byError(err error, connected bool) (Failure, string) {
	var outer *url.Error
	if errors.As(err, &outer) {
		err = outer.Err
	}
	var (
		refused *egress.Forbidden
		plain   *plainHTTP
		dns     *net.DNSError
		op      *net.OpError
		slow    net.Error
	)
	switch {
	case errors.As(err, &refused):
		return FailureAddressForbidden, forbidden(err)
	case errors.As(err, &plain):
		return FailureAddressForbidden, plain.Error()
	case errors.As(err, &dns):
		return FailureDNS, printable(err.Error(), maxDetail)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &slow) && slow.Timeout():
		if !connected {
			return FailureConnect, "no connection in time"
		}
		return FailureTimeout, "no response in time"
	case isTLS(err):
		return FailureTLS, printable(err.Error(), maxDetail)
	case errors.As(err, &op) && op.Op == "dial":
		return FailureConnect, printable(err.Error(), maxDetail)
	case strings.Contains(err.Error(), "malformed"), strings.Contains(err.Error(), "headers exceeded"):
		return FailureResponseInvalid, printable(err.Error(), maxDetail)
	default:
		return FailureConnectionLost, printable(err.Error(), maxDetail)
	}
}

func isTLS(err error) bool {
	var (
		record    tls.RecordHeaderError
		verify    *tls.CertificateVerificationError
		alert     tls.AlertError
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
	)
	return errors.As(err, &record) || errors.As(err, &verify) || errors.As(err, &alert) || errors.As(err, &authority) ||
		errors.As(err, &host) || errors.As(err, &invalid) || strings.HasPrefix(err.Error(), "tls: ") ||
		strings.Contains(err.Error(), "remote error: tls: ")
}

const (
	maxDetail  = 300  // bytes
	maxExcerpt = 1024 // bytes
)

// printable makes text from elsewhere fit for a row, a log line and a page. What
// does not print becomes a blank.
func printable(s string, most int) string {
	s = strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) && c != '\n' {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(s, " "))
	if len(s) > most {
		return shorten(s, most-len("…"))
	}
	return s
}
