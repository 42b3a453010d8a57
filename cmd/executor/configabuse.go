package main

import (
	"net/netip"
	"slices"

	"github.com/spf13/pflag"

	"executor/internal/clientaddr"
)

// addAbuseFlags adds what bounds those who ask too much.
func (c *Config) addAbuseFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&c.TrustedProxies, "trusted-proxies", nil, "networks of the proxies in front, whose X-Forwarded-For says who asks, for instance 10.0.0.0/8")
	flags.IntVar(&c.KeyRate, "key-rate", c.KeyRate, "requests that one API key may make in a second; 0 = no limit")
	flags.IntVar(&c.AddressRate, "address-rate", c.AddressRate, "requests without a valid key or signature that may come from one address in a minute; 0 = no limit")
	flags.Int64Var(&c.Backlog, "backlog", c.Backlog, "commands without an outcome that one tenant may have; above it submits are refused for a while; 0 = no limit")
	flags.IntVar(&c.MaxClients, "max-clients", c.MaxClients, "connections that clients may have to the API and the dashboard at a time; above it idle ones are closed, and new ones wait")
	fromEnv(flags, "max-clients", "EXECUTOR_MAX_CLIENTS")
	fromEnv(flags, "backlog", "EXECUTOR_BACKLOG")
	fromEnv(flags, "trusted-proxies", "EXECUTOR_TRUSTED_PROXIES")
	fromEnv(flags, "key-rate", "EXECUTOR_KEY_RATE")
	fromEnv(flags, "address-rate", "EXECUTOR_ADDRESS_RATE")
}

const minClients = 16

func (c Config) checkAbuse(p *problems) {
	proxies, err := networks(c.TrustedProxies)
	p.check(err == nil, "EXECUTOR_TRUSTED_PROXIES: %v", err)
	p.check(!slices.ContainsFunc(proxies, func(n netip.Prefix) bool { return n.Bits() == 0 }),
		"EXECUTOR_TRUSTED_PROXIES names every address there is: then anybody could say who they are; name the proxies")
	p.check(c.MaxClients >= minClients, "EXECUTOR_MAX_CLIENTS is %d: use %d or more, health calls need some too", c.MaxClients, minClients)
	p.check(c.KeyRate >= 0, "EXECUTOR_KEY_RATE is %d: use 0 for no limit, or more", c.KeyRate)
	p.check(c.Backlog >= 0, "EXECUTOR_BACKLOG is %d: use 0 for no limit, or more", c.Backlog)
	p.check(c.AddressRate >= 0, "EXECUTOR_ADDRESS_RATE is %d: use 0 for no limit, or more", c.AddressRate)
}

// proxies are those that say for whom they ask. The settings were validated.
func (c Config) proxies() clientaddr.Proxies {
	list, _ := networks(c.TrustedProxies)
	return list
}
