package testkit

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Proxy stands between a pool and its PostgreSQL and breaks on demand what runs
// through it. It reads the client's messages, so that it can tell one COMMIT
// from another.
type Proxy struct {
	URL string // of the database, through the proxy

	server   string
	listener net.Listener

	mu      sync.Mutex
	links   map[*link]struct{}
	dark    bool
	judge   func(Commit) Fate
	stallAt string        // the text of a statement
	stalled chan struct{} // closed when it came
}

// Commit is a COMMIT on its way to the server.
type Commit struct {
	Statements []string // of its transaction, in order
}

// Did says that a statement of the transaction holds this text.
func (c Commit) Did(text string) bool {
	return slices.ContainsFunc(c.Statements, func(sql string) bool { return strings.Contains(sql, text) })
}

// Fate is what becomes of a COMMIT; the zero Fate lets it pass.
type Fate struct {
	LoseRequest bool            // the connection breaks before the server sees it
	LoseReply   bool            // the server commits, and nobody hears of it
	HoldReply   <-chan struct{} // the server commits, and the reply waits for this
}

// NewProxy starts a proxy before the database of a URL. It ends with the test.
func NewProxy(t testing.TB, database string) *Proxy {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{server: u.Host, listener: listener, links: make(map[*link]struct{})}
	u.Host = listener.Addr().String()
	p.URL = u.String()
	t.Cleanup(func() {
		_ = listener.Close()
		p.Cut()
	})
	go p.accept()
	return p
}

// OnCommit has every COMMIT judged from now on; nil lets all pass. The judge is
// called by many connections at once.
func (p *Proxy) OnCommit(judge func(Commit) Fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.judge = judge
}

// Cut breaks all connections and refuses new ones until Mend.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dark = true
	for l := range p.links {
		l.close()
	}
}

// Mend lets new connections through again.
func (p *Proxy) Mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dark = false
}

// Stall lets the connections of this moment stand still for good, as if the
// network swallowed everything: no reply, no end. New connections work.
func (p *Proxy) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.stall()
	}
}

// StallAt lets the connection stand still on which the next statement comes that
// holds the text; its channel is closed then.
func (p *Proxy) StallAt(text string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stallAt, p.stalled = text, make(chan struct{})
	return p.stalled
}

// stalls says whether a statement is the one to stall at.
func (p *Proxy) stalls(sql string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stallAt == "" || !strings.Contains(sql, p.stallAt) {
		return false
	}
	p.stallAt = ""
	close(p.stalled)
	return true
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.relay(client)
	}
}

func (p *Proxy) relay(client net.Conn) {
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		_ = client.Close()
		return
	}
	l := &link{proxy: p, client: client, server: server, names: make(map[string]string)}
	if !p.add(l) {
		l.close()
		return
	}
	go func() {
		_, _ = io.Copy(replies{l}, server)
		l.end()
	}()
	l.requests()
	l.end()
}

func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.dark {
		p.links[l] = struct{}{}
	}
	return !p.dark
}

func (p *Proxy) fate(c Commit) Fate {
	p.mu.Lock()
	judge := p.judge
	p.mu.Unlock()
	if judge == nil {
		return Fate{}
	}
	return judge(c)
}

// link is one connection through the proxy.
type link struct {
	proxy          *Proxy
	client, server net.Conn

	names      map[string]string // prepared statements, by name
	statements []string          // of the transaction so far

	mu      sync.Mutex
	stalled bool
	lost    bool            // what the server says next is for nobody
	held    <-chan struct{} // it waits for this
	heard   chan struct{}   // closed when the server has said it
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}

// end closes both sides, unless the link is to look alive.
func (l *link) end() {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stalled {
		delete(l.proxy.links, l)
		l.close()
	}
}

func (l *link) stall() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stalled = true
}

func (l *link) isStalled() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stalled
}

// requests carries the client's messages until the connection ends.
func (l *link) requests() {
	from := bufio.NewReader(l.client)
	for first := true; ; first = false {
		message, err := readMessage(from, first)
		if err != nil {
			return
		}
		if l.isStalled() {
			continue // swallowed
		}
		if first {
			_, err = l.server.Write(message)
		} else {
			err = l.request(message)
		}
		if err != nil {
			return
		}
	}
}

func (l *link) request(message []byte) error {
	sql := l.statement(message)
	if l.proxy.stalls(sql) {
		l.stall()
		return nil
	}
	switch strings.ToLower(strings.TrimRight(sql, ";")) {
	case "":
	case "commit":
		fate := l.proxy.fate(Commit{l.statements})
		l.statements = nil
		return l.commit(message, fate)
	case "rollback":
		l.statements = nil
	default:
		l.statements = append(l.statements, sql)
	}
	_, err := l.server.Write(message)
	return err
}

func (l *link) commit(message []byte, fate Fate) error {
	if fate.LoseRequest {
		return io.ErrClosedPipe
	}
	heard := make(chan struct{})
	l.mu.Lock()
	l.lost, l.held, l.heard = fate.LoseReply, fate.HoldReply, heard
	l.mu.Unlock()
	if _, err := l.server.Write(message); err != nil {
		return err
	}
	if fate.LoseReply {
		<-heard
		return io.ErrClosedPipe
	}
	return nil
}

// statement is the SQL that a message begins, "" for messages that begin none:
// a simple query (Q), or the run of a statement (B) that was named before (P).
func (l *link) statement(message []byte) string {
	body := message[5:]
	switch message[0] {
	case 'Q':
		return text(&body)
	case 'P':
		name := text(&body)
		l.names[name] = text(&body)
	case 'B':
		text(&body) // portal
		return l.names[text(&body)]
	}
	return ""
}

// text takes a text that ends with a zero byte off the front.
func text(body *[]byte) string {
	end := bytes.IndexByte(*body, 0)
	if end < 0 {
		return ""
	}
	s := string((*body)[:end])
	*body = (*body)[end+1:]
	return s
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

// replies carries what the server says to the client.
type replies struct{ *link }

func (l replies) Write(p []byte) (int, error) {
	l.mu.Lock()
	stalled, lost, held := l.stalled, l.lost, l.held
	if l.heard != nil {
		close(l.heard)
		l.heard, l.held = nil, nil
	}
	l.mu.Unlock()
	switch {
	case stalled:
		return len(p), nil // swallowed
	case lost:
		return 0, io.ErrClosedPipe
	case held != nil:
		<-held
	}
	return l.client.Write(p)
}
