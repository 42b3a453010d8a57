package attempts

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"time"

	"executor/outcome"
)

// secured is config with what is not negotiable: TLS 1.2 or later, verified,
// HTTP/1.1 only, no resumption and so no early data.
func secured(config *tls.Config, host string) *tls.Config {
	if config == nil {
		config = &tls.Config{}
	}
	config = config.Clone()
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	config.NextProtos = []string{"http/1.1"}
	config.InsecureSkipVerify = false
	config.ClientSessionCache = nil
	config.Renegotiation = tls.RenegotiateNever
	if config.ServerName == "" {
		config.ServerName = strings.TrimSuffix(host, ".")
	}
	return config
}

// proxied is config for the connection to an https proxy: the same authorities,
// the proxy's name, and no certificate of ours.
func proxied(config *tls.Config, host string) *tls.Config {
	config = secured(config, host)
	config.ServerName, config.Certificates, config.GetClientCertificate = host, nil, nil
	return config
}

// handshake secures a connection. No byte of a request can leave before it
// succeeds.
func handshake(ctx context.Context, below net.Conn, config *tls.Config, limit time.Duration) (*tls.Conn, *recorded, error) {
	ctx, cancel := within(ctx, limit)
	defer cancel()
	layer := &recorded{Conn: below}
	conn := tls.Client(layer, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, nil, errors.New("the TLS handshake took too long")
		}
		return nil, nil, err
	}
	return conn, layer, nil
}

// handshakeCategory tells a certificate that is wrong from a handshake that failed.
func handshakeCategory(err error) outcome.Category {
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &certificate) {
		return outcome.CategoryCertificateInvalid
	}
	return outcome.CategoryTLSFailure
}
