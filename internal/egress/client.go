package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

// ClientConfig says whom an HTTP client may reach, and how.
type ClientConfig struct {
	Dialer      *Dialer
	Allow       []netip.Prefix // permitted besides public addresses
	Proxy       *url.URL       // of CONNECT, for http too; nil = none; the environment's is never used
	TLS         *tls.Config
	Connect     time.Duration // 0 = no bound of its own
	Handshake   time.Duration // of TLS
	Header      time.Duration // from the whole request to the response header
	HeaderBytes int64
	// Admit may refuse a connection that was made, nil = all are right.
	Admit func(net.Conn) error
}

// Client makes single requests that have no effect or may be repeated: a new
// connection each, HTTP/1.1, no redirect followed, nothing decompressed, no
// credential taken from a URL, every address checked where it is dialled. Commands
// are not sent with it.
type Client struct{ transport *http.Transport }

// Do makes one exchange. A redirect is an answer like any other, wherever it leads
// and however it is written; http.Client would hide one that it cannot read. So is a
// 101, which nobody asked for: what net/http gives as its body is the connection
// itself, which no context ends.
func (c *Client) Do(r *http.Request) (*http.Response, error) {
	res, err := c.transport.RoundTrip(r)
	if err == nil && res.StatusCode == http.StatusSwitchingProtocols {
		_ = res.Body.Close()
		res.Body = http.NoBody
	}
	return res, err
}

// NewClient makes a client.
func NewClient(c ClientConfig) *Client {
	config := c.TLS.Clone()
	if config == nil {
		config = &tls.Config{}
	}
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	transport := &http.Transport{
		TLSClientConfig:        config,
		DisableCompression:     true,
		DisableKeepAlives:      true, // a new connection cannot be stale
		MaxResponseHeaderBytes: c.HeaderBytes,
		TLSHandshakeTimeout:    c.Handshake,
		ResponseHeaderTimeout:  c.Header,
		DialContext:            c.dial,
	}
	return &Client{transport}
}

func (c ClientConfig) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if c.Connect > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Connect)
		defer cancel()
	}
	conn, err := c.reach(ctx, network, address)
	if err != nil || c.Admit == nil {
		return conn, err
	}
	if err := c.Admit(conn); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// reach connects to address, by way of the proxy if there is one.
func (c ClientConfig) reach(ctx context.Context, network, address string) (net.Conn, error) {
	if c.Proxy != nil {
		return c.tunnelled(ctx, network, address)
	}
	return c.Dialer.Dial(ctx, network, address, c.Allow)
}

// ErrTooLarge: a body is larger than what is read of it.
var ErrTooLarge = errors.New("the body is larger than the limit")

// ReadBody reads a response body up to limit bytes. Of a larger one it returns
// the beginning and ErrTooLarge.
func ReadBody(body io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(body, limit+1))
	if int64(len(data)) > limit {
		return data[:limit], ErrTooLarge
	}
	return data, err
}
