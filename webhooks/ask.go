package webhooks

import (
	"net/netip"
	"net/url"
	"strings"

	"executor/internal/egress"
)

// Ask says whose receivers have to answer a challenge before they get anything else.
type Ask string

const (
	// AskOthers asks everybody but those at addresses that Config.Allow names: whoever
	// runs the deployment has named them as their own.
	AskOthers Ask = "others"
	AskAll    Ask = "all"
	AskNobody Ask = "nobody"
)

// Asks lists the values of Ask, the default first.
func Asks() []Ask { return []Ask{AskOthers, AskAll, AskNobody} }

// trusts is who vouches for the receiver of a new URL; "" where it has to answer a
// challenge. A name is asked whatever it resolves to: it may be another's tomorrow.
func (s *Store) trusts(text string) VerifiedBy {
	switch s.ask {
	case AskNobody:
		return VerifiedBySetting
	case AskAll:
		return ""
	}
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	name, addr, err := egress.ParseHost(strings.ToLower(u.Hostname()))
	switch {
	case err != nil:
		return ""
	case name == "localhost":
		return s.vouched(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	case name != "":
		return ""
	default:
		return s.vouched(addr)
	}
}

// vouched goes by networks that are no public ones: allowing everything says nothing
// about whose an address is.
func (s *Store) vouched(addr netip.Addr) VerifiedBy {
	public := s.guard.Check(netip.AddrPortFrom(addr, 443), nil) == nil
	if !public && within(s.allow, addr) {
		return VerifiedBySetting
	}
	return ""
}
