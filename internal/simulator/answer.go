package simulator

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// answer is a response before it goes onto the wire.
type answer struct {
	status int
	header [][2]string
	body   []byte
}

func jsonAnswer(status int, v any) answer {
	body, err := json.Marshal(v)
	if err != nil {
		return problem(http.StatusInternalServerError, "internal", err.Error())
	}
	return answer{status: status, body: append(body, '\n')}.with("Content-Type", "application/json")
}

// problem is an error in the shape of most payment APIs.
func problem(status int, code, message string) answer {
	return jsonAnswer(status, map[string]any{"error": map[string]string{"code": code, "message": message}})
}

func page(status int) answer {
	a := answer{status: status, body: []byte("<!doctype html><title>Welcome</title><p>Please sign in to the network.\n")}
	return a.with("Content-Type", "text/html; charset=utf-8")
}

// with returns a copy that has one more header.
func (a answer) with(name, value string) answer {
	a.header = append(a.header[:len(a.header):len(a.header)], [2]string{name, value})
	return a
}

// as puts the answer under another status. An error does not carry the result.
func (a answer) as(status int) answer {
	switch {
	case status == 0 || status == a.status:
		return a
	case status < 300:
		a.status = status
		return a
	default:
		return problem(status, "simulated_"+strconv.Itoa(status), "simulated: "+http.StatusText(status))
	}
}

// compressed encodes the body, and damages it if so asked.
func (a answer) compressed(how string) answer {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(a.body)
	_ = w.Close()
	a.body = out.Bytes()
	if how == "broken" {
		a.body[len(a.body)/2] ^= 0xff
		a.body[3] ^= 0x10 // claims a comment that is not there
	}
	return a.with("Content-Encoding", "gzip")
}

// encode is the whole response as bytes, with or without Connection: close.
func (a answer) encode(closes bool) []byte {
	var b bytes.Buffer
	b.Write(a.encodeHead(closes, len(a.body)))
	if a.hasBody() {
		b.Write(a.body)
	}
	return b.Bytes()
}

// encodeHead tells the body's length unless it is negative.
func (a answer) encodeHead(closes bool, length int) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\nDate: %s\r\n", a.status, http.StatusText(a.status), time.Now().UTC().Format(http.TimeFormat))
	for _, h := range a.header {
		fmt.Fprintf(&b, "%s: %s\r\n", h[0], h[1])
	}
	if a.hasBody() && length >= 0 {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", length)
	}
	if closes {
		b.WriteString("Connection: close\r\n")
	}
	b.WriteString("\r\n")
	return b.Bytes()
}

// hasBody follows RFC 9110, section 6.4.1.
func (a answer) hasBody() bool {
	return a.status != http.StatusNoContent && a.status != http.StatusNotModified
}
