package webhooks

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"executor/internal/egress"
	"executor/internal/testkit/hostile"
)

func hostileWebhooks(t *testing.T) (*Store, *sender) {
	t.Helper()
	store := NewStore(Config{Allow: hostile.Allow()})
	t.Cleanup(store.Close)
	dialer := egress.NewDialer(egress.NewGuard(egress.GuardConfig{}), hostile.Resolver(t))
	return store, newSender(dialer, hostile.Allow(), time.Second, nil)
}

func jobFor(url string) *job {
	return &job{URL: url, EventID: uuid.New(), Payload: []byte(`{}`), signer: signer{keys: []egress.Secret{egress.NewSecret("0123456789abcdef")}}}
}

// TestNoWebhookReachesAHostileTarget: most are refused when a webhook is made, and
// all of them when something is delivered, an event or a test.
func TestNoWebhookReachesAHostileTarget(t *testing.T) {
	hostile.Run(t, func(t *testing.T, traps *hostile.Traps) {
		strict := NewStore(Config{})
		t.Cleanup(strict.Close)
		_, sender := hostileWebhooks(t)
		for _, target := range hostile.Targets(t) {
			traps.Watch(target.String(), func() {
				for _, scheme := range []string{"http", "https"} {
					url := target.Through(scheme, scheme+"-webhook")
					if err := strict.checkURL(strings.Replace(url, "http:", "https:", 1)); err == nil && !target.IsName() {
						t.Errorf("a webhook may be made for %s", target)
					}
					for range 4 { // rebinding needs several
						if saw := sender.send(t.Context(), jobFor(url)); saw.failure == FailureNone {
							t.Errorf("%s was delivered to", target)
						}
					}
				}
			})
		}
	})
}

func TestADeliveryFollowsNoRedirect(t *testing.T) {
	hostile.Run(t, func(t *testing.T, traps *hostile.Traps) {
		_, sender := hostileWebhooks(t)
		home := "http://" + hostile.Home.String() + ":" + hostile.HomePort
		statuses := []int{301, 302, 303, 307, 308}
		for i, location := range append(hostile.Targets(t), hostile.Target{URL: home + "/other", Why: "same host"}) {
			status := statuses[i%len(statuses)]
			traps.Answer(func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Location"] = []string{location.Through("http", "redirect")}
				w.WriteHeader(status)
			})
			before := traps.Home()
			traps.Watch(fmt.Sprintf("%d to %s", status, location), func() {
				if saw := sender.send(t.Context(), jobFor(home)); saw.failure != FailureRedirect {
					t.Errorf("%d to %s: %s %s", status, location, saw.failure, saw.detail)
				}
			})
			if n := traps.Home() - before; n != 1 {
				t.Fatalf("%d to %s: %d connections", status, location, n)
			}
		}
	})
}

// TestNoWebhookIsMadeForThisDeployment, whatever is allowed and however its
// address is written.
func TestNoWebhookIsMadeForThisDeployment(t *testing.T) {
	guard := egress.NewGuard(egress.GuardConfig{Own: []netip.AddrPort{netip.MustParseAddrPort("0.0.0.0:8080")}})
	store := NewStore(Config{Guard: guard, Allow: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}})
	t.Cleanup(store.Close)
	for _, host := range []string{"127.0.0.1", "127.0.0.2", "[::1]", "0.0.0.0", "[::]", "localhost", "LOCALHOST", "a.localhost"} {
		var bad *Invalid
		if err := store.checkURL("http://" + host + ":8080/v1/commands"); !errors.As(err, &bad) || !strings.Contains(bad.Detail, "belongs to this deployment") {
			t.Errorf("%s: %v", host, err)
		}
		if err := store.checkURL("http://" + host + ":8081/hook"); err != nil {
			t.Errorf("%s, another port: %v", host, err)
		}
	}
}

// TestPortsOfWebhooks are those of HTTP, unless the operator names others.
func TestPortsOfWebhooks(t *testing.T) {
	usual, named := NewStore(Config{}), NewStore(Config{Ports: []int{9200, 81}})
	t.Cleanup(usual.Close)
	t.Cleanup(named.Close)
	for port, want := range map[string][2]bool{ // allowed usually, and where two are named
		"80": {true, true}, "443": {true, true}, "8443": {true, true}, "40000": {true, true}, "81": {false, true}, "9200": {false, true},
		"22": {false, false}, "5432": {false, false}, "6379": {false, false}, "0": {false, false}, "65536": {false, false},
	} {
		for i, store := range []*Store{usual, named} {
			if err := store.checkURL("https://hooks.example:" + port + "/"); (err == nil) != want[i] {
				t.Errorf("port %s, deployment %d: %v", port, i, err)
			}
		}
	}
}

// TestDeliveriesTellWhoSends, so that a webhook that leads back to this deployment
// is refused there.
func TestDeliveriesTellWhoSends(t *testing.T) {
	var got http.Header
	s := &sender{hop: "0123abc", secure: trip(func(r *http.Request) (*http.Response, error) { got = r.Header; return nil, errors.New("no") })}
	if _, err := s.do(t.Context(), jobFor("https://hooks.example/"), time.Now()); err == nil || got.Get(egress.HopHeader) != "0123abc" {
		t.Errorf("%v, %v", got, err)
	}
}
