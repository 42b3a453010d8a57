package webhooks

import (
	"errors"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"executor/commands"
	"executor/internal/egress"
	"executor/outcome"
)

// Endpoint is a place where a tenant wants to be told of outcomes. It collects
// deliveries as long as it exists; while it is disabled they wait.
type Endpoint struct {
	ID     uuid.UUID
	Tenant string
	Settings
	Version        int // grows with every change of a person, and when it is disabled
	CreatedAt      time.Time
	UpdatedAt      time.Time
	DisabledAt     *time.Time
	DisabledBy     DisabledBy
	DisabledReason string
	FailingSince   *time.Time // the first failure after the last success
	VerifiedAt     *time.Time // nil: it gets nothing but a challenge, and its deliveries wait
	VerifiedBy     VerifiedBy
	Secrets        []Secret // those that sign, newest first
}

// Settings are what a person chooses of an endpoint.
type Settings struct {
	URL         string
	Description string
	Events      []string // types; none is all of EventTypes
	Upstreams   []string // names; none is all
	Ordered     bool     // a command's later events wait until the earlier ones are accepted or given up
}

// DisabledBy is who disabled an endpoint; "" for one that is not.
type DisabledBy string

const (
	DisabledByPerson  DisabledBy = "person"
	DisabledByGone    DisabledBy = "gone"    // it answered 410
	DisabledByFailing DisabledBy = "failing" // nothing but failures for days

	// DisabledByUnproven: its receiver has not said for days that it wants webhooks.
	// Unlike under any other, what happens meanwhile is not kept for it.
	DisabledByUnproven DisabledBy = "unproven"
)

// VerifiedBy is how it is known that an endpoint's receiver wants webhooks; "" while
// it is not.
type VerifiedBy string

const (
	VerifiedByChallenge VerifiedBy = "challenge" // it answered one
	VerifiedByPerson    VerifiedBy = "person"    // somebody vouches for it
	VerifiedBySetting   VerifiedBy = "setting"   // this deployment asks no receiver
	VerifiedByBefore    VerifiedBy = "before"    // it is older than challenges
)

// Secret is one that signs, without its value.
type Secret struct {
	ID        uuid.UUID
	CreatedAt time.Time
	ExpiresAt *time.Time // it signs until then; nil: until it is rotated
}

// TypeTest is the type of test events, which every endpoint gets.
const TypeTest = "webhook.test"

// EventTypes are the types an endpoint can ask for.
func EventTypes() []string {
	var types []string
	for _, state := range outcome.States() {
		if state.Final() {
			types = append(types, commands.EventType(state))
		}
	}
	return append(types, commands.EventCorrected)
}

const (
	maxURL         = 2048
	maxDescription = 500
	maxUpstreams   = 100
)

// check refuses settings that could never work, and puts lists in order. A URL
// that stays as it was before is not looked at again.
func (s *Store) check(set *Settings, before Settings) error {
	if set.URL != before.URL || set.URL == "" {
		if err := s.checkURL(set.URL); err != nil {
			return err
		}
	}
	if utf8.RuneCountInString(set.Description) > maxDescription || !isText(set.Description) {
		return invalid("description", "invalid_description", "The description has to be text of at most %d characters.", maxDescription)
	}
	for _, kind := range set.Events {
		if !slices.Contains(EventTypes(), kind) {
			return invalid("events", "unknown_event", "There is no event %q; there are %s.", kind, strings.Join(EventTypes(), ", "))
		}
	}
	if len(set.Upstreams) > maxUpstreams || slices.Contains(set.Upstreams, "") || !isText(strings.Join(set.Upstreams, "")) {
		return invalid("upstreams", "invalid_upstreams", "The upstreams have to be at most %d names.", maxUpstreams)
	}
	set.Events, set.Upstreams = tidy(set.Events), tidy(set.Upstreams)
	return nil
}

// tidy sorts a list and leaves out what it holds twice. It is never nil.
func tidy(list []string) []string {
	list = append([]string{}, list...)
	slices.Sort(list)
	return slices.Compact(list)
}

func isText(s string) bool { return utf8.ValidString(s) && !strings.Contains(s, "\x00") }

// checkURL looks at what can be known of a URL without resolving its name: the
// address is checked where it is dialled.
func (s *Store) checkURL(text string) error {
	bad := func(detail string) error { return invalid("url", "invalid_url", "%s", detail) }
	u, err := url.Parse(text)
	switch {
	case text == "" || len(text) > maxURL || strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' || unicode.IsControl(c) }):
		return bad("The URL has to be 1 to " + strconv.Itoa(maxURL) + " printable ASCII characters; encode others.")
	case err != nil || u.Host == "" || u.Hostname() == "" || u.Opaque != "":
		return bad("The URL has to be absolute, like https://example.com/hook.")
	case u.User != nil:
		return bad("The URL must not contain credentials: deliveries are signed instead.")
	case u.Fragment != "" || strings.Contains(text, "#"):
		return bad("The URL must not have a fragment: it would never be sent.")
	case u.Scheme != "https" && (u.Scheme != "http" || len(s.allow) == 0):
		return bad("The URL has to be https; plain http is for addresses that EXECUTOR_WEBHOOK_ALLOW names.")
	}
	return s.checkHost(u, bad)
}

// checkHost wants a host in its usual spelling, which is neither forbidden nor this
// deployment's own as far as the URL shows it, and a port that HTTP is expected at.
func (s *Store) checkHost(u *url.URL, bad func(string) error) error {
	port := map[string]int{"http": 80, "https": 443}[u.Scheme]
	if p := u.Port(); p != "" || strings.HasSuffix(u.Host, ":") {
		var err error
		if port, err = egress.CheckPort(p, s.ports, "EXECUTOR_WEBHOOK_PORTS"); err != nil {
			return bad("The URL cannot be used: " + err.Error())
		}
	}
	name, addr, err := egress.ParseHost(strings.ToLower(u.Hostname()))
	if err == nil && name != "" {
		err = egress.CheckName(name, s.allow, len(s.allow) > 0, "EXECUTOR_WEBHOOK_ALLOW")
	}
	if err != nil {
		return bad("The URL cannot be used: " + err.Error())
	}
	if name != "" {
		return s.checkLocal(name, uint16(port), bad)
	}
	if err := s.guard.Check(netip.AddrPortFrom(addr, uint16(port)), s.allow); err != nil {
		return bad(forbidden(err))
	}
	if u.Scheme == "http" && !within(s.allow, addr) {
		return bad("Plain http is for addresses that EXECUTOR_WEBHOOK_ALLOW names.")
	}
	return nil
}

// checkLocal refuses a name that means this machine, where this deployment itself
// listens on the port.
func (s *Store) checkLocal(name string, port uint16, bad func(string) error) error {
	if name != "localhost" && !strings.HasSuffix(name, ".localhost") {
		return nil
	}
	var own *egress.Forbidden
	err := s.guard.Check(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port), s.allow)
	if errors.As(err, &own) && own.Class == egress.ClassOwn {
		return bad(forbidden(err))
	}
	return nil
}

func within(prefixes []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(addr.Unmap()) })
}
