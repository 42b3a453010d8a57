package hostile

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
)

// names is a name server for the names of the targets. Whatever else it is asked
// for is on loopback.
type names struct {
	targets map[string]Target // by the label that names it
	mu      sync.Mutex
	asked   map[string]map[uint16]int // look-ups so far, by name and type
}

// Resolver is Go's own resolver, as the product uses it, with a name server that
// answers as the targets say and with a time to live of 0.
func Resolver(t testing.TB) *net.Resolver {
	t.Helper()
	n := &names{targets: map[string]Target{}, asked: map[string]map[uint16]int{}}
	for _, target := range Targets(t) {
		if target.IsName() {
			_, label, _ := strings.Cut(strings.TrimSuffix(target.Through("http", "c"), ".hostile.test/"), ".")
			n.targets[label] = target
		}
	}
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go n.serve(server)
		return client, nil
	}}
}

// Kinds of records (RFC 1035, section 3.2.2; RFC 3596).
const (
	typeA     = 1
	typeCNAME = 5
	typeAAAA  = 28
)

// serve answers the questions of one connection, with two bytes of length before
// each message (RFC 1035, section 4.2.2).
func (n *names) serve(conn net.Conn) {
	defer conn.Close()
	for {
		var size [2]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(conn, query); err != nil || len(query) < 17 {
			return
		}
		answer := n.answer(query)
		_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
	}
}

// answer writes a message with the question and the records for it.
func (n *names) answer(query []byte) []byte {
	name, end := question(query)
	kind := binary.BigEndian.Uint16(query[end:])
	records, count := n.records(name, kind)
	head := []byte{query[0], query[1], 0x84, 0x80, 0, 1, 0, byte(count), 0, 0, 0, 0} // authoritative, no error
	return append(append(head, query[12:end+4]...), records...)
}

// question reads the name that is asked for and where it ends.
func question(query []byte) (string, int) {
	var labels []string
	at := 12
	for at < len(query)-5 && query[at] != 0 {
		next := at + 1 + int(query[at])
		labels = append(labels, string(query[at+1:min(next, len(query))]))
		at = next
	}
	return strings.ToLower(strings.Join(labels, ".")), at + 1
}

// records are those of one step of a name: its aliases, and its addresses of the
// kind.
func (n *names) records(name string, kind uint16) ([]byte, int) {
	var (
		out   []byte
		count int
		owner = encoded(name)
		words = strings.Fields(n.step(name, kind))
	)
	add := func(kind uint16, data []byte) {
		out = append(out, owner...)
		out = binary.BigEndian.AppendUint16(out, kind)
		out = append(out, 0, 1, 0, 0, 0, 0) // the Internet, no time to live
		out = append(binary.BigEndian.AppendUint16(out, uint16(len(data))), data...)
		count++
	}
	for i := 0; i+1 < len(words); i += 2 {
		switch value := words[i+1]; {
		case words[i] == "cname":
			add(typeCNAME, encoded(value))
			owner = encoded(value)
		case words[i] == "a" && kind == typeA:
			add(kind, netip.MustParseAddr(value).AsSlice())
		case words[i] == "aaaa" && kind == typeAAAA:
			v6 := netip.MustParseAddr(value).As16()
			add(kind, v6[:])
		}
	}
	return out, count
}

// step takes the answer whose turn it is.
func (n *names) step(name string, kind uint16) string {
	_, rest, _ := strings.Cut(strings.TrimSuffix(name, ".hostile.test"), ".")
	target, known := n.targets[rest]
	if !known {
		return "a 127.0.0.1 aaaa ::1"
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.asked[name] == nil {
		n.asked[name] = map[uint16]int{}
	}
	turn := n.asked[name][kind]
	n.asked[name][kind]++
	return target.answers[min(turn, len(target.answers)-1)]
}

func encoded(name string) []byte {
	var out []byte
	for label := range strings.SplitSeq(name, ".") {
		out = append(append(out, byte(len(label))), label...)
	}
	return append(out, 0)
}
