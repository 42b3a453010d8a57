package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"executor/bench/seed"
	"executor/commands"
	"executor/internal/postgres"
	"executor/migrations"
	"executor/reconcile"
	"executor/upstreams"
)

// reads: how long each read of the dashboard takes with a million commands.
func (b *bench) reads(ctx context.Context) error {
	pool, err := b.seededDatabase(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	ups := upstreams.NewStore(pool)
	store := commands.NewStore(commands.Config{Pool: pool, Upstreams: ups})
	defer store.Close()
	reviews := reconcile.NewStore(reconcile.Config{Pool: pool, Commands: store, Upstreams: ups})
	fmt.Printf("reads with %d commands, of %d runs\n", seed.Large.Commands, readRuns)
	for _, r := range slices.Concat(overviewReads(store), listReads(store), reviewReads(reviews)) {
		if err := r.measure(ctx); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return nil
}

const readRuns = 15

// read is one that is measured; it says what it found.
type read struct {
	name string
	do   func(ctx context.Context) (string, error)
}

func (r read) measure(ctx context.Context) error {
	var (
		took  []time.Duration
		found string
	)
	for range readRuns {
		began := time.Now()
		var err error
		if found, err = r.do(ctx); err != nil {
			return err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	fmt.Printf("  %-40s p50 %9s   worst %9s   %s\n", r.name, took[len(took)/2].Round(10*time.Microsecond), took[len(took)-1].Round(10*time.Microsecond), found)
	return nil
}

func overviewReads(store *commands.Store) []read {
	return []read{
		{"overview", func(ctx context.Context) (string, error) {
			o, err := store.Overview(ctx, "default")
			return fmt.Sprint(o.Total, " commands, ", o.States), err
		}},
		{"upstreams", func(ctx context.Context) (string, error) {
			list, err := store.Upstreams(ctx, "default")
			return fmt.Sprint(len(list), " upstreams"), err
		}},
		{"one upstream", func(ctx context.Context) (string, error) {
			o, err := store.UpstreamOverview(ctx, "default", "ledger")
			if err != nil {
				return "", err
			}
			return fmt.Sprint(o.LastDay), nil
		}},
		{"one upstream, seldom used", func(ctx context.Context) (string, error) {
			o, err := store.UpstreamOverview(ctx, "default", "rare")
			if err != nil {
				return "", err
			}
			return fmt.Sprint(len(o.Newest), " commands"), nil
		}},
	}
}

func listReads(store *commands.Store) []read {
	before := time.Now().Add(-20 * 24 * time.Hour)
	var list []read
	for _, tt := range []struct {
		name string
		f    commands.Filter
	}{
		{"newest", commands.Filter{}},
		{"pending", commands.Filter{States: []string{"pending"}}},
		{"executing", commands.Filter{States: []string{"executing"}}},
		{"unresolved", commands.Filter{States: []string{"unresolved"}}},
		{"unresolved, partial response", commands.Filter{States: []string{"unresolved"}, Evidence: []string{"partial_response"}}},
		{"operation that there is none of", commands.Filter{Operation: "none"}},
		{"evidence that there is little of", commands.Filter{Evidence: []string{"not_sent"}, States: []string{"success"}}},
		{"reason", commands.Filter{Reasons: []string{"declined"}}},
		{"long ago, upstream seldom used", commands.Filter{CreatedBefore: &before, Upstream: "rare"}},
		{"reference", commands.Filter{Reference: "pay_777778"}},
		{"metadata", commands.Filter{Metadata: map[string]string{"order": "o-500000"}}},
		{"metadata that many have", commands.Filter{Metadata: map[string]string{"country": "DE"}}},
		{"search: key", commands.Filter{Search: "order-123451"}},
		{"search: beginning of a key", commands.Filter{Search: "order-12345"}},
		{"search: beginning of all keys", commands.Filter{Search: "order-"}},
		{"search: reference", commands.Filter{Search: "pay_777778"}},
		{"search: metadata value", commands.Filter{Search: "c-4711"}},
		{"search: metadata value that many have", commands.Filter{Search: "DE"}},
		{"search: member of metadata", commands.Filter{Search: "order=o-500000"}},
		{"search: nothing", commands.Filter{Search: "0193aaaa-0000-7000-8000-000000000000"}},
	} {
		tt.f.Tenant, tt.f.Scan = "default", commands.ScanPage
		list = append(list, read{"list: " + tt.name, func(ctx context.Context) (string, error) {
			page, err := store.Page(ctx, tt.f)
			return fmt.Sprintf("%d found, scanned %v", len(page.Commands), page.Scanned), err
		}})
	}
	return list
}

func reviewReads(store *reconcile.Store) []read {
	var list []read
	for _, tt := range []struct {
		name string
		f    reconcile.ReviewFilter
	}{
		{"oldest", reconcile.ReviewFilter{}},
		{"by deadline", reconcile.ReviewFilter{Sort: reconcile.ReviewSortDeadline}},
		{"evidence, nothing matches", reconcile.ReviewFilter{Evidence: []string{"not_sent"}}},
		{"evidence", reconcile.ReviewFilter{Evidence: []string{"partial_response"}}},
		{"reason, nothing matches", reconcile.ReviewFilter{Reasons: []string{"remote_pending"}}},
		{"operation, nothing matches", reconcile.ReviewFilter{Operation: "none"}},
		{"upstream seldom used", reconcile.ReviewFilter{Upstream: "rare"}},
		{"assignee", reconcile.ReviewFilter{Assignee: new("alice")}},
		{"conflicts", reconcile.ReviewFilter{Kinds: []string{reconcile.ReviewConflict}}},
	} {
		tt.f.Tenant = "default"
		list = append(list, read{"reviews: " + tt.name, func(ctx context.Context) (string, error) {
			items, _, err := store.Reviews(ctx, tt.f)
			return fmt.Sprint(len(items), " found"), err
		}}, read{"count of them", func(ctx context.Context) (string, error) {
			n, err := store.CountReviews(ctx, tt.f)
			return n.String(), err
		}})
	}
	return list
}

// seededDatabase opens the database that was asked for, which is made and filled if
// it is not there, and is left for the next time.
func (b *bench) seededDatabase(ctx context.Context) (*pgxpool.Pool, error) {
	admin, err := postgres.Open(ctx, b.url, 1)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	var known bool
	if err := admin.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, b.seeded).Scan(&known); err != nil {
		return nil, err
	}
	if !known {
		if _, err := admin.Exec(ctx, "CREATE DATABASE "+b.seeded); err != nil {
			return nil, err
		}
	}
	config := admin.Config().Copy()
	config.ConnConfig.Database, config.MaxConns = b.seeded, 4
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := migrations.Up(ctx, pool); err != nil || known {
		return pool, err
	}
	if err := seed.Fill(ctx, pool, seed.Large); err != nil {
		return nil, err
	}
	fmt.Printf("seeded in %s\n", time.Since(began).Round(time.Second))
	return pool, nil
}
