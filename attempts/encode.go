package attempts

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"executor/internal/egress"
	"executor/upstreams"
)

// WireRequest is one request as it will be sent.
type WireRequest struct {
	Method string
	Path   string // escaped path and query, base path included
	Host   string // "" for the target's
	// Headers are sent in this order, credentials and Content-Type included.
	// The message's own framing (Host, Content-Length, Connection and their
	// kind) is not theirs to set.
	Headers []upstreams.Header
	Body    []byte // sent byte for byte
}

// ErrRequestInvalid is what Encode's errors wrap: the request cannot be sent, not
// now and not later.
var ErrRequestInvalid = errors.New("invalid request")

const userAgent = "executor/1"

// Encode returns the head of the request, to the byte as Send writes it, so that
// its length is known before the attempt begins. The body follows it unchanged:
// it always has a Content-Length, is never chunked and never asks first
// (RFC 9112, section 6; RFC 9110, section 10.1.1). Errors name the header, never
// its value.
func Encode(r WireRequest, t Target) ([]byte, error) {
	host := r.Host
	if host == "" {
		host = t.Base.Host
	}
	if err := checkRequestLine(r.Method, r.Path, host); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", r.Method, r.Path, host)
	if !has(r.Headers, "User-Agent") {
		writeHeader(&b, "User-Agent", userAgent)
	}
	if t.Hop != "" {
		writeHeader(&b, egress.HopHeader, t.Hop)
	}
	for _, h := range r.Headers {
		if err := checkHeader(h); err != nil {
			return nil, err
		}
		writeHeader(&b, h.Name, h.Value)
	}
	if !has(r.Headers, "Accept-Encoding") {
		writeHeader(&b, "Accept-Encoding", "identity")
	}
	if len(r.Body) > 0 || expectsBody(r.Method) {
		writeHeader(&b, "Content-Length", strconv.Itoa(len(r.Body)))
	}
	if t.Fresh {
		writeHeader(&b, "Connection", "close")
	}
	b.WriteString("\r\n")
	return b.Bytes(), nil
}

func writeHeader(b *bytes.Buffer, name, value string) {
	b.WriteString(name)
	b.WriteString(": ")
	b.WriteString(value)
	b.WriteString("\r\n")
}

// expectsBody: an empty body of these is sent as Content-Length: 0 (RFC 9110, section 8.6).
func expectsBody(method string) bool {
	return method == "POST" || method == "PUT" || method == "PATCH"
}

func has(headers []upstreams.Header, name string) bool {
	for _, h := range headers {
		if strings.EqualFold(h.Name, name) {
			return true
		}
	}
	return false
}

func checkRequestLine(method, path, host string) error {
	switch {
	case !isToken(method):
		return fmt.Errorf("%w: the method %q is not a token", ErrRequestInvalid, method)
	case method == "CONNECT": // would turn the connection into a tunnel
		return fmt.Errorf("%w: the method CONNECT is not sent to an upstream", ErrRequestInvalid)
	case !strings.HasPrefix(path, "/") || strings.ContainsFunc(path, notInTarget):
		return fmt.Errorf("%w: the path is not an escaped absolute path", ErrRequestInvalid)
	case host == "" || strings.ContainsFunc(host, notInHost):
		return fmt.Errorf("%w: the host %q is not a host", ErrRequestInvalid, host)
	}
	return nil
}

// checkHeader refuses what would change the framing of the message, this
// connection or the next hop (RFC 9110, section 7.6.1), and what is no header at
// all (section 5.5).
func checkHeader(h upstreams.Header) error {
	name := strings.ToLower(h.Name)
	switch {
	case !isToken(h.Name):
		return fmt.Errorf("%w: %q is not a header name", ErrRequestInvalid, h.Name)
	case reserved[name] || strings.HasPrefix(name, "proxy-"):
		return fmt.Errorf("%w: the header %s belongs to the connection and cannot be set", ErrRequestInvalid, h.Name)
	case strings.ContainsFunc(h.Value, isControl):
		return fmt.Errorf("%w: the value of header %s holds control characters", ErrRequestInvalid, h.Name)
	}
	return nil
}

var reserved = map[string]bool{
	"connection": true, "content-length": true, "expect": true, "x-executor-hop": true, "host": true, "http2-settings": true,
	"keep-alive": true, "te": true, "trailer": true, "transfer-encoding": true, "upgrade": true,
}

// isToken is the grammar of methods and header names (RFC 9110, section 5.6.2).
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return c <= ' ' || c >= 0x7f || strings.ContainsRune("\"(),/:;<=>?@[\\]{}", c)
	})
}

func isControl(c rune) bool { return (c < ' ' && c != '\t') || c == 0x7f }

func notInTarget(c rune) bool { return c <= ' ' || c >= 0x7f || c == '#' }

func notInHost(c rune) bool { return notInTarget(c) || strings.ContainsRune("/?@\\\"<>", c) }
