package attempts

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"testing"
	"time"

	"executor/internal/testkit"
	"executor/outcome"
)

// hostOf is a sender that knows one name, with these addresses.
func hostOf(t *testing.T, addresses ...string) *Sender {
	t.Helper()
	s := NewSender(SenderConfig{Guard: newSender(t).guard, Resolver: names{"upstream.test": addresses}})
	t.Cleanup(s.Close)
	return s
}

func TestNextAddressAfterATCPFailure(t *testing.T) {
	each(t, func(t *testing.T, tr transport) {
		server := tr.server(t, numbered, testkit.RawAddress("127.0.0.3:0"))
		s := hostOf(t, "127.0.0.1", "127.0.0.2", "127.0.0.3")
		o := attempt(t, s, tr.target(fmt.Sprintf("upstream.test:%d", server.Port())), payment())
		received.check(t, o)
		if len(o.Addresses) != 2 || o.Remote != server.Address() {
			t.Errorf("remote %s after %v, want %s after two failures", o.Remote, o.Addresses, server.Address())
		}
		for i, failed := range o.Addresses {
			want := fmt.Sprintf("127.0.0.%d:%d", i+1, server.Port())
			if failed.Address != want || failed.Category != outcome.CategoryConnectRefused {
				t.Errorf("address %d: %+v, want %s refused", i, failed, want)
			}
		}
		if got := server.Requests(); len(got) != 1 || got[0].Header.Get("Host") != fmt.Sprintf("upstream.test:%d", server.Port()) {
			t.Errorf("the server got %+v", got)
		}
	})
}

func TestEveryAddressFails(t *testing.T) {
	_, port, err := net.SplitHostPort(refusedAddress(t, "127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	_, o, ok := hostOf(t, "127.0.0.1", "127.0.0.2").Dial(context.Background(), transport{}.target("upstream.test:"+port))
	if ok {
		t.Fatal("dialled")
	}
	want{outcome.EvidenceNotSent, outcome.StageConnect, outcome.CategoryConnectRefused, 0}.check(t, o)
	if len(o.Addresses) != 2 {
		t.Errorf("addresses %v, want both", o.Addresses)
	}
}

// One forbidden address refuses the whole host, wherever it stands in the list,
// and nobody is dialled.
func TestOneForbiddenAddressRefusesTheHost(t *testing.T) {
	trap := testkit.NewRawServer(t, func(c *testkit.RawConn) { c.Drain() })
	for _, addresses := range [][]string{{"127.0.0.1", "10.0.0.1"}, {"10.0.0.1", "127.0.0.1"}, {"127.0.0.1", "::1"}} {
		_, o, ok := hostOf(t, addresses...).Dial(context.Background(), transport{}.target(fmt.Sprintf("upstream.test:%d", trap.Port())))
		if ok {
			t.Fatal("dialled")
		}
		want{outcome.EvidenceNotSent, outcome.StageConnect, outcome.CategoryAddressForbidden, 0}.check(t, o)
		categories := map[outcome.Category]int{}
		for _, a := range o.Addresses {
			categories[a.Category]++
		}
		if categories[outcome.CategoryAddressForbidden] != 1 || categories[outcome.CategoryNone] != 1 {
			t.Errorf("addresses %v, want one forbidden and one not tried", o.Addresses)
		}
	}
	if trap.Connections() != 0 {
		t.Errorf("the permitted address saw %d connections", trap.Connections())
	}
}

// A handshake that fails ends the attempt: a wrong certificate must not be hidden
// behind a milder failure of the next address, nor the request go elsewhere.
func TestTLSFailureEndsTheAttempt(t *testing.T) {
	tr := transports(t)[1]
	impostor := testkit.NewRawServer(t, func(c *testkit.RawConn) {},
		testkit.RawAddress("127.0.0.2:0"), testkit.RawTLS(&tls.Config{Certificates: []tls.Certificate{testkit.NewAuthority(t).Issue("upstream.test")}}))
	honest := tr.server(t, numbered, testkit.RawAddress(fmt.Sprintf("127.0.0.3:%d", impostor.Port())))
	_, o, ok := hostOf(t, "127.0.0.1", "127.0.0.2", "127.0.0.3").Dial(context.Background(), tr.target(fmt.Sprintf("upstream.test:%d", impostor.Port())))
	if ok {
		t.Fatal("dialled")
	}
	want{outcome.EvidenceNotSent, outcome.StageTLS, outcome.CategoryCertificateInvalid, 0}.check(t, o)
	if len(o.Addresses) != 2 || o.Addresses[0].Category != outcome.CategoryConnectRefused || o.Addresses[1].Category != outcome.CategoryCertificateInvalid {
		t.Errorf("addresses %v", o.Addresses)
	}
	if honest.Connections() != 0 {
		t.Error("the next address was tried")
	}
}

// The name is looked up once; what was checked is what is dialled (EGRESS-05).
func TestNameIsResolvedOnce(t *testing.T) {
	server := testkit.NewRawServer(t, numbered)
	rebinding := &rebinder{first: "127.0.0.1", then: "10.0.0.1"}
	s := NewSender(SenderConfig{Guard: newSender(t).guard, Resolver: rebinding})
	target := transport{}.target(fmt.Sprintf("upstream.test:%d", server.Port()))
	received.check(t, attempt(t, s, target, payment()))
	if rebinding.asked != 1 {
		t.Errorf("asked %d times, want once", rebinding.asked)
	}
	_, o, ok := s.Dial(context.Background(), target)
	if ok || o.Category != outcome.CategoryAddressForbidden {
		t.Errorf("after rebinding: dialled %v, %s", ok, describe(o))
	}
}

// The total timeout bounds the whole dial, however many addresses hang.
func TestTotalTimeoutBoundsTheDial(t *testing.T) {
	hole := testkit.BlackHole(t)
	_, port, err := net.SplitHostPort(hole)
	if err != nil {
		t.Fatal(err)
	}
	target := transport{}.target("upstream.test:" + port)
	target.Timeouts.Total, target.Timeouts.Connect = 100*time.Millisecond, time.Hour
	_, o, ok := hostOf(t, "127.0.0.1", "127.0.0.2").Dial(context.Background(), target)
	if ok {
		t.Fatal("dialled")
	}
	want{outcome.EvidenceNotSent, outcome.StageConnect, outcome.CategoryConnectTimeout, 0}.check(t, o)
	if len(o.Addresses) != 1 {
		t.Errorf("addresses %v: after the end none is tried", o.Addresses)
	}
}
