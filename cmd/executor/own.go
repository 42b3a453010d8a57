package main

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// nameWait bounds how long the start waits for the database's name once more.
const nameWait = 2 * time.Second

// databaseAddresses are those of the database: no upstream lives there, whatever a
// profile allows. A name stands for the addresses that it has at the start.
func databaseAddresses(pool *pgxpool.Pool) []netip.AddrPort {
	ctx, cancel := context.WithTimeout(context.Background(), nameWait)
	defer cancel()
	var list []netip.AddrPort
	for _, h := range hosts(pool.Config().ConnConfig) {
		addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", h.Host) // an address is its own answer
		if err != nil {
			continue // a socket in a folder, or a name that nobody else finds either
		}
		for _, addr := range addrs {
			list = append(list, netip.AddrPortFrom(addr, h.Port))
		}
	}
	return list
}

// hosts are the database's, in the order in which they are tried.
func hosts(config *pgx.ConnConfig) []*pgconn.FallbackConfig {
	return append([]*pgconn.FallbackConfig{{Host: config.Host, Port: config.Port}}, config.Fallbacks...)
}
