package main

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"executor/internal/testkit"
)

// parrot is an upstream that repeats what it is sent, credentials and all, in the
// way that the last part of a request's path names. It is also the token endpoint.
type parrot struct {
	token  string // that it issues
	secret string // of its own, which the profile redacts

	mu    sync.Mutex
	heard bytes.Buffer // every request
}

// serve answers on raw connections: what it writes no HTTP server would.
func (p *parrot) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	p.mu.Lock()
	_ = r.Header.Write(&p.heard)
	p.heard.Write(body)
	p.mu.Unlock()
	way := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	_, _ = io.WriteString(conn, p.answer(way, r, heardIn(r, body)))
}

// got says whether a text arrived.
func (p *parrot) got(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Contains(p.heard.Bytes(), []byte(text))
}

// heardIn is everything secret in a request: what the headers carry, the parts of
// Basic, and the body.
func heardIn(r *http.Request, body []byte) string {
	list := append([]string{}, r.Header["Authorization"]...)
	list = append(list, r.Header["X-Api-Key"]...)
	list = append(list, r.Header["X-Pan"]...)
	if name, password, ok := r.BasicAuth(); ok {
		list = append(list, name+":"+password, unescaped(name), unescaped(password))
	}
	return strings.Join(append(list, string(body)), "\t")
}

// unescaped undoes the form encoding that RFC 6749 has in Basic.
func unescaped(text string) string {
	if plain, err := url.QueryUnescape(text); err == nil {
		return plain
	}
	return text
}

// spellings are the ways in which a text is written down again.
var spellings = map[string]func(string) string{
	"raw":      func(s string) string { return s },
	"json":     func(s string) string { b, _ := json.Marshal(s); return string(b) },
	"unicode":  func(s string) string { return `"` + each(s, `\u%04x`) + `"` },
	"html":     html.EscapeString,
	"numbers":  func(s string) string { return each(s, "&#%d;") },
	"base64":   func(s string) string { return base64.StdEncoding.EncodeToString([]byte("x" + s)) },
	"base64u":  func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte("xy" + s)) },
	"hex":      func(s string) string { return hex.EncodeToString([]byte(s)) },
	"upperhex": func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) },
	"query":    url.QueryEscape,
	"path":     url.PathEscape,
	"lower":    func(s string) string { return each(s, "%%%02x") },
	"backs":    func(s string) string { return strings.NewReplacer(`\`, `\\`, `"`, `\"`, `/`, `\/`).Replace(s) },
	"mixed": func(s string) string {
		return strings.ReplaceAll(strings.ReplaceAll(url.QueryEscape(s), "%2F", "%2f"), "%3D", "=")
	},
}

// ways are all the ways to answer.
func ways() []string {
	list := []string{
		"status", "location", "gzip", "cut", "stored", "torn", "refusal", "reference", "pending", "malformed", "header", "throttled",
		"chunked", "encoding", "cookie", "folded", "error", "silent", "trailer", "inner", "html500", "dotted",
	}
	for way := range spellings {
		list = append(list, way, way+"-500")
	}
	return list
}

const parrotLimit = 2048 // limits.response_bytes of its profiles

func (p *parrot) answer(way string, r *http.Request, heard string) string {
	if strings.HasPrefix(r.URL.Path, "/token/") {
		return p.issue(way, heard)
	}
	if way, failed := strings.CutSuffix(way, "-500"); failed {
		return said("500 Internal Server Error", "", spellings[way](heard))
	}
	if spell, ok := spellings[way]; ok {
		return said("201 Created", "X-Said: "+headerSafe(spell(heard)), spell(heard))
	}
	one := headerSafe(heard)
	filler := strings.Repeat("a", parrotLimit)
	switch way {
	case "status":
		return said("400 "+one, "", "")
	case "location":
		return said("302 Found", "Location: https://elsewhere.example/?was="+url.QueryEscape(heard), "")
	case "gzip":
		return said("200 OK", "Content-Encoding: gzip", zipped(heard))
	case "encoding":
		return said("200 OK", "Content-Encoding: "+one, heard)
	case "cut": // by the limit on what is read, in the middle of it
		return said("500 Oh", "", filler[:parrotLimit-len(heard)/2]+heard+filler)
	case "stored": // by the limit on what is stored
		return said("500 Oh", "", filler[:parrotLimit/2-len(heard)/2]+heard)
	case "torn":
		return "HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n" + heard[:len(heard)*2/3]
	case "chunked":
		return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + one + "\r\n"
	case "trailer":
		return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Late\r\n\r\n2\r\n{}\r\n0\r\nX-Late: " + one + "\r\n\r\n"
	case "malformed":
		return one + "\r\n\r\n"
	case "header":
		return "HTTP/1.1 200 OK\r\n" + one + "\r\n\r\n"
	case "folded":
		return "HTTP/1.1 200 OK\r\nX-Said: a\r\n " + one + "\r\nContent-Length: 0\r\n\r\n"
	case "throttled":
		return said("429 Slow", "Retry-After: "+one, heard)
	case "cookie":
		return said("201 Created", "Set-Cookie: s="+url.QueryEscape(heard), `{}`)
	case "refusal":
		return said("422 No", "", `{"code":`+spellings["json"](heard)+`,"message":`+spellings["json"]("bad key "+heard)+`}`)
	case "reference":
		return said("201 Created", "", `{"id":`+spellings["json"](heard)+`}`)
	case "pending":
		return said("202 Accepted", "Location: /later?with="+url.QueryEscape(heard), `{"id":"p1"}`)
	case "error":
		return said("403 Forbidden", "", `{"error":{"message":`+spellings["json"](heard)+`}}`)
	case "inner": // a document within a document
		return said("400 Bad", "", `{"log":`+spellings["json"](`{"request":`+spellings["json"](heard)+`}`)+`}`)
	case "html500":
		return said("502 Bad Gateway", "Content-Type: text/html", "<pre>"+html.EscapeString(heard)+"</pre>")
	case "dotted": // its own secret, where the profile names it and elsewhere
		own, _ := json.Marshal(p.secret)
		return said("201 Created", "X-Upstream-Secret: "+p.secret, `{"id":"p1","client_secret":`+string(own)+`,"links":{"next":`+string(own)+`}}`)
	}
	return "" // silent
}

// issue answers as a token endpoint.
func (p *parrot) issue(way, heard string) string {
	text, _ := json.Marshal(heard)
	switch way {
	case "ok":
		token, _ := json.Marshal(p.token)
		return said("200 OK", "Content-Type: application/json", `{"access_token":`+string(token)+`,"token_type":"bearer"}`)
	case "refused":
		return said("401 Unauthorized", "Content-Type: application/json", `{"error":"invalid_client","error_description":`+string(text)+`}`)
	case "type":
		return said("200 OK", "Content-Type: application/json", `{"access_token":"x","token_type":`+string(text)+`}`)
	case "malformed":
		return headerSafe(heard) + "\r\n\r\n"
	case "moved":
		return said("302 "+headerSafe(heard), "Location: /x?"+url.QueryEscape(heard), heard)
	default:
		return said("500 "+headerSafe(heard), "Content-Type: "+headerSafe(heard), heard)
	}
}

func said(status, header, body string) string {
	if header != "" {
		header += "\r\n"
	}
	return fmt.Sprintf("HTTP/1.1 %s\r\n%sContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, header, len(body), body)
}

func headerSafe(text string) string {
	return strings.NewReplacer("\r", " ", "\n", " ", "\t", " ").Replace(text)
}

// demanding is TLS that wants a certificate of the authority's.
func demanding(a *testkit.Authority) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{a.Issue("127.0.0.1")}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: a.Pool}
}

// listenParrot serves it on loopback.
func listenParrot(t *testing.T, p *parrot) *http.Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: p, Addr: l.Addr().String()}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return server
}
