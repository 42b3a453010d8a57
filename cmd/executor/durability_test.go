//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"executor/client"
	"executor/internal/testkit"
)

// TestOnlyDurableDatabases: nothing starts on a database that may forget what it
// confirmed, whoever made it so; and where it becomes one, nothing is accepted or sent
// any more.
func TestOnlyDurableDatabases(t *testing.T) {
	t.Parallel()
	server := testkit.Cluster(t)
	env := map[string]string{
		demandDurable: "1", "EXECUTOR_DATABASE_URL": server.URL, "EXECUTOR_DEPLOYMENT_ID": "durable", "EXECUTOR_LISTEN": "127.0.0.1:0",
		"EXECUTOR_LEASE_TTL": "2s", "EXECUTOR_ROLES": "api,worker",
	}
	refused := func(setting string, args ...string) {
		t.Helper()
		p := startExecutor(t, args, env)
		code, said := p.Wait(), strings.TrimSpace(p.stderr.String())
		last := said[strings.LastIndex(said, "\n")+1:]
		if code != exitFailure || !strings.HasPrefix(last, "executor: ") || !strings.Contains(last, setting+" is off") {
			t.Errorf("%s with %s = off: code %d, %q", args[0], setting, code, last)
		}
	}
	for _, setting := range []string{"fsync", "full_page_writes"} {
		server.Set(setting, "off")
		refused(setting, "migrate")
		server.Set(setting, "on")
	}
	env["EXECUTOR_DATABASE_URL"] = server.URL + "&synchronous_commit=off"
	refused("synchronous_commit", "migrate")
	for _, fine := range []string{"local", "remote_apply"} {
		env["EXECUTOR_DATABASE_URL"] = server.URL + "&synchronous_commit=" + fine
		if p := startExecutor(t, []string{"migrate"}, env); p.Wait() != exitSuccess {
			t.Errorf("migrate with synchronous_commit = %s: %s", fine, p.stderr.String())
		}
	}
	env["EXECUTOR_DATABASE_URL"] = server.URL
	server.Set("fsync", "off")
	refused("fsync", "serve")
	server.Set("fsync", "on")
	becomesForgetful(t, server, env)
}

// becomesForgetful: a reload of the server changes it under a process that serves.
func becomesForgetful(t *testing.T, server *testkit.Server, env map[string]string) {
	pool := testkit.Open(t, server.URL)
	created := execute(t, env, "keys", "create", "--name", "durable", "--scopes", "admin", "--output", "json").must(t, exitSuccess)
	p := startExecutor(t, []string{"serve"}, env)
	f := &fleet{t: t, pool: pool}
	c, err := client.New(client.Config{URL: p.URL(), APIKey: decode[createdKey](t, created.stdout).Key, Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	refused := func() (bool, string) { // else it is told that there is no such upstream
		_, err := c.Submit(context.Background(), client.Submission{Key: "k", Upstream: "nobody", Operation: "pay"})
		return errors.Is(err, client.ErrUnavailable), fmt.Sprint(err)
	}
	if is, how := refused(); is {
		t.Errorf("a submit is answered with %s", how)
	}
	server.Set("full_page_writes", "off")
	f.until(time.Now().Add(aMinute), "the deployment is frozen", func() (bool, string) {
		var reason string
		err := pool.QueryRow(context.Background(), `SELECT frozen_reason FROM deployment WHERE frozen_at IS NOT NULL`).Scan(&reason)
		return err == nil && strings.Contains(reason, "full_page_writes is off"), reason
	})
	if is, how := refused(); !is {
		t.Errorf("a submit is answered with %s, want it unavailable", how)
	}
	var problem *client.Problem
	if _, err := c.Resume(context.Background()); !errors.As(err, &problem) || problem.Code != "conflict" || !strings.Contains(problem.Detail, "full_page_writes is off") {
		t.Errorf("a resume meanwhile is answered with %v", err)
	}
	if r := startExecutor(t, []string{"resume"}, env); r.Wait() != exitFailure || !strings.Contains(r.stderr.String(), "not resumed: ") {
		t.Errorf("resume says %q", r.stderr.String())
	}
	server.Set("full_page_writes", "on")
	if r := startExecutor(t, []string{"resume"}, env); r.Wait() != exitSuccess {
		t.Errorf("resume says %q", r.stderr.String())
	}
	f.until(time.Now().Add(aMinute), "commands are accepted again", func() (bool, string) {
		is, how := refused()
		return !is, how
	})
}
