package attempts

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"
)

const proxyHeadBytes = 16 << 10

// tunnel asks the proxy at the other end of conn for a connection to target
// (host:port), with CONNECT (RFC 9110, section 9.3.6). The proxy learns the host's
// name and nothing of the request. A byte beyond its answer can come from no
// server that has been told nothing yet, and ends the tunnel.
func tunnel(ctx context.Context, conn net.Conn, target string, limit time.Duration) error {
	if limit > 0 {
		_ = conn.SetDeadline(time.Now().Add(limit))
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: %s\r\n\r\n", target, target, userAgent); err != nil {
		return fmt.Errorf("proxy: %w", cause(err))
	}
	answers := newResponses(conn)
	res, _, err := answers.head(http.MethodConnect, proxyHeadBytes, func() {})
	switch {
	case err != nil:
		return fmt.Errorf("proxy: %w", cause(err))
	case res.StatusCode < 200 || res.StatusCode > 299:
		return fmt.Errorf("the proxy answered CONNECT with status %d", res.StatusCode)
	case answers.buf.Buffered() > 0:
		return errors.New("the proxy sent more than its answer to CONNECT")
	case !stop():
		return errors.New("proxy: the attempt ended")
	}
	return conn.SetDeadline(time.Time{})
}

// proxyURL reads a profile's proxy: a host and a port, no credentials.
func proxyURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.User != nil || (u.Path != "" && u.Path != "/") || u.RawQuery != "" {
		return nil, errors.New("egress.proxy must look like http://host:port or https://host:port")
	}
	return u, nil
}
