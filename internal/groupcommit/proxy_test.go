package groupcommit

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// cut is where the proxy breaks the connection around a COMMIT.
type cut string

const (
	cutRequest cut = "request" // the server never sees the COMMIT
	cutReply   cut = "reply"   // the server commits, and nobody hears of it
)

// proxyURL returns the database's URL with a proxy in between that breaks each
// connection at its COMMIT.
func proxyURL(t *testing.T, database string, where cut) string {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	server := u.Host
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go relay(client, server, where)
		}
	}()
	u.Host = listener.Addr().String()
	return u.String()
}

// relay carries one connection until its COMMIT.
func relay(client net.Conn, server string, where cut) {
	defer client.Close()
	upstream, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer upstream.Close()
	back := &replies{client: client}
	go func() {
		_, _ = io.Copy(back, upstream)
		client.Close()
	}()
	first := true
	for {
		message, err := readMessage(client, first)
		if err != nil {
			return
		}
		first = false
		if !isCommit(message) {
			if _, err := upstream.Write(message); err != nil {
				return
			}
			continue
		}
		if where == cutReply {
			answered := back.swallow()
			if _, err := upstream.Write(message); err == nil {
				<-answered
			}
		}
		return
	}
}

// readMessage reads one message of the client: a type byte, which the first one
// lacks, and a length that counts itself.
func readMessage(r io.Reader, first bool) ([]byte, error) {
	head := make([]byte, 5)
	if first {
		head = head[:4]
	}
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(head[len(head)-4:])-4)
	_, err := io.ReadFull(r, body)
	return append(head, body...), err
}

// isCommit recognises a simple query (Q) or a parse (P) that commits.
func isCommit(message []byte) bool {
	return (message[0] == 'Q' || message[0] == 'P') && bytes.Contains(bytes.ToLower(message), []byte("commit\x00"))
}

// replies passes the server's replies on until it is told to swallow them.
type replies struct {
	client io.Writer

	mu        sync.Mutex
	swallowed chan struct{} // once set nothing passes any more; closed at the first reply
}

func (r *replies) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.swallowed == nil {
		return r.client.Write(p)
	}
	close(r.swallowed)
	return 0, io.ErrClosedPipe // ends the copying
}

func (r *replies) swallow() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.swallowed = make(chan struct{})
	return r.swallowed
}
