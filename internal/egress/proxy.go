package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

// proxyHeadBytes bounds the head of a proxy's answer to CONNECT.
const proxyHeadBytes = 16 << 10

// tunnelled dials the proxy, which the guard judges as any other address, and asks
// it for a connection to address (RFC 9110, section 9.3.6). The proxy learns the
// host's name and nothing of the request, whatever the scheme. A target that is an
// address itself is judged here; the addresses of a name are the proxy's to judge.
func (c ClientConfig) tunnelled(ctx context.Context, network, address string) (net.Conn, error) {
	if target, err := netip.ParseAddrPort(address); err == nil {
		if err := c.Dialer.guard.Check(target, c.Allow); err != nil {
			return nil, err
		}
	}
	conn, err := c.Dialer.Dial(ctx, network, withPort(c.Proxy), c.Allow)
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	through, err := c.connect(ctx, conn, address)
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("proxy: %w", err)
	}
	return through, nil
}

// connect makes a tunnel of a connection to the proxy, within ctx.
func (c ClientConfig) connect(ctx context.Context, below net.Conn, target string) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { _ = below.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	conn := below
	if c.Proxy.Scheme == "https" {
		conn = tls.Client(below, c.proxyTLS())
	}
	if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target); err != nil {
		return nil, err
	}
	head := bufio.NewReader(io.LimitReader(conn, proxyHeadBytes))
	answer, err := http.ReadResponse(head, &http.Request{Method: http.MethodConnect})
	switch {
	case err != nil:
		return nil, errors.New("its answer to CONNECT is none, not in time or too long")
	case answer.StatusCode < 200 || answer.StatusCode > 299:
		return nil, fmt.Errorf("it answered CONNECT with status %d", answer.StatusCode)
	case head.Buffered() > 0: // can come from no server that has been told nothing yet
		return nil, errors.New("it sent more than its answer to CONNECT")
	case !stop():
		return nil, ctx.Err()
	}
	return conn, nil
}

// proxyTLS trusts the same authorities, expects the proxy's name, and shows no
// certificate of ours.
func (c ClientConfig) proxyTLS() *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.Proxy.Hostname()}
	if c.TLS != nil {
		config.RootCAs = c.TLS.RootCAs
	}
	return config
}

func withPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}
