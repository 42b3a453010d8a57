package webhooks

import (
	"crypto/x509"
	"errors"
)

// What a tenant may know of a try is coarse: whoever chooses where we connect must
// not learn from us which names exist inside, which ports are open, or what another's
// server says. The whole is in our log.

const noConnection = "no connection came about: nothing listens there, its name is not known, or its address is not one that webhooks may go to"

// told is what is stored of a try and shown to its tenant. proven says whether the
// receiver has shown that it wants what we send.
func (s seen) told(proven bool) seen {
	t := s
	t.failure, t.detail = coarse(s.failure, s.detail)
	if s.failure == FailureTLS {
		t.detail = s.words
	}
	if s.status == 0 && !s.failure.ours() && s.failure != FailureNone && !proven {
		t.failure, t.detail = FailureUnreachable, noConnection
	}
	if t.failure == FailureUnreachable || !proven {
		t.duration, t.excerpt = 0, ""
	}
	return t
}

// coarse joins the failures that would tell a scanner apart what is there.
func coarse(f Failure, detail string) (Failure, string) {
	switch f {
	case FailureAddressForbidden, FailureDNS, FailureConnect, FailureUnreachable:
		return FailureUnreachable, noConnection
	case FailureConnectionLost:
		return f, "the connection ended before a response"
	case FailureResponseInvalid:
		return f, "what came back is not HTTP, or its header is too large"
	default:
		return f, detail
	}
}

// tlsWords says what is wrong with a receiver's TLS, without what its certificate
// says.
func tlsWords(err error) string {
	var (
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &host):
		return "its certificate is for another name"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "its certificate has expired or is not valid yet"
	case errors.As(err, &authority):
		return "its certificate is signed by an authority that is not trusted"
	case errors.As(err, &invalid):
		return "its certificate is not valid"
	default:
		return "no TLS connection came about"
	}
}
