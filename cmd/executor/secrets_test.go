package main

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"executor/internal/audit"
	"executor/internal/seal"
	"executor/internal/testkit"
	"executor/webhooks"
)

func encryptionKey() string {
	key := make([]byte, seal.KeyBytes)
	_, _ = rand.Read(key)
	return base64.StdEncoding.EncodeToString(key)
}

// sealedDatabase holds webhooks, each with a secret under the key.
func sealedDatabase(t *testing.T, key string, count int) (*pgxpool.Pool, map[string]string) {
	t.Helper()
	env := adopted(t)
	pool := testkit.Open(t, env["EXECUTOR_DATABASE_URL"])
	box, err := Config{EncryptionKeys: []string{key}}.box()
	if err != nil {
		t.Fatal(err)
	}
	store := webhooks.NewStore(webhooks.Config{Pool: pool, Box: box, Ask: webhooks.AskNobody})
	t.Cleanup(store.Close)
	for i := range count {
		_, _, err := store.Create(t.Context(), webhooks.By{Tenant: fmt.Sprintf("tenant-%d", i%2), Actor: "test"}, webhooks.Settings{URL: fmt.Sprintf("https://8.8.8.8/%d", i)})
		if err != nil {
			t.Fatal(err)
		}
	}
	return pool, env
}

// A process that could not read what is sealed does not start.
func TestServeRefusesToStartWithoutTheKey(t *testing.T) {
	right := encryptionKey()
	pool, env := sealedDatabase(t, right, 1)
	for name, keys := range map[string]string{"no key": "", "another key": encryptionKey()} {
		env["EXECUTOR_ENCRYPTION_KEY"] = keys
		for _, role := range knownRoles() {
			r := execute(t, env, "serve", "--listen", "127.0.0.1:0", "--roles", role).must(t, exitFailure)
			if line := r.stderr[strings.LastIndex(strings.TrimSpace(r.stderr), "\n")+1:]; !strings.HasPrefix(line, "executor: 1 secret of webhooks is sealed under the key") || strings.Contains(r.stderr, right) {
				t.Errorf("%s, %s: %q", name, role, line)
			}
		}
	}
	if err := requireKeys(t.Context(), pool, Config{EncryptionKeys: []string{encryptionKey(), right}}); err != nil {
		t.Errorf("with the right key behind another: %v", err)
	}
}

// Two rotate at once; afterwards the older key can go.
func TestSecretsRotate(t *testing.T) {
	before, after := encryptionKey(), encryptionKey()
	pool, env := sealedDatabase(t, before, 12)
	env["EXECUTOR_ENCRYPTION_KEY"] = after + "," + before
	state := func() string {
		return execute(t, env, "secrets", "list").must(t, exitSuccess).stdout
	}
	if s := state(); !strings.Contains(s, "12       older") {
		t.Errorf("before: %s", s)
	}
	findings, _ := findingsOf(t, env)
	if f := findings["sealed secrets"]; f.Status != statusWarn || !strings.Contains(f.Fix, "executor secrets rotate") {
		t.Errorf("doctor before: %+v", f)
	}
	var moved [2]int
	var both sync.WaitGroup
	for i := range moved {
		both.Go(func() {
			r := execute(t, env, "secrets", "rotate", "--output", "json")
			if r.code == exitSuccess {
				moved[i] = decode[struct {
					SealedAnew int `json:"sealed_anew"`
				}](t, r.stdout).SealedAnew
			}
		})
	}
	both.Wait()
	if moved[0]+moved[1] != 12 {
		t.Errorf("they sealed %v anew", moved)
	}
	env["EXECUTOR_ENCRYPTION_KEY"] = after
	if s := state(); !strings.Contains(s, "12       current") || strings.Contains(s, "older") {
		t.Errorf("after: %s", s)
	}
	if err := requireKeys(t.Context(), pool, Config{EncryptionKeys: []string{after}}); err != nil {
		t.Error(err)
	}
	findings, _ = findingsOf(t, env)
	if f := findings["sealed secrets"]; f.Status != statusOK {
		t.Errorf("doctor after: %+v", f)
	}
}

// A secret that was moved to another row, or altered, is never sealed anew as if it
// were whole, and nothing is deleted for it.
func TestSecretsSwappedBetweenRowsDoNotOpen(t *testing.T) {
	before, after := encryptionKey(), encryptionKey()
	pool, env := sealedDatabase(t, before, 3)
	statement(t, pool, `
		UPDATE webhook_secrets s SET sealed = o.sealed FROM webhook_secrets o
		WHERE s.id = (SELECT min(id::text)::uuid FROM webhook_secrets) AND o.id = (SELECT max(id::text)::uuid FROM webhook_secrets)`)
	env["EXECUTOR_ENCRYPTION_KEY"] = after + "," + before
	r := execute(t, env, "secrets", "rotate").must(t, exitFailure)
	if !strings.Contains(r.stdout, "sealed anew  2") || !strings.Contains(r.stdout, "unreadable   1") {
		t.Errorf("got %s", r.stdout)
	}
	r = execute(t, env, "secrets", "forget", "--reason", "none is lost").must(t, exitSuccess)
	if !strings.Contains(r.stdout, "forgotten  0") {
		t.Errorf("a key that is there is no lost key: %s", r.stdout)
	}
}

// Where a key is lost, what was under it can be given up, on record.
func TestSecretsForget(t *testing.T) {
	pool, env := sealedDatabase(t, encryptionKey(), 4)
	statement(t, pool, `UPDATE webhook_secrets SET sealed = '\x00' WHERE id = (SELECT min(id::text)::uuid FROM webhook_secrets)`)
	env["EXECUTOR_ENCRYPTION_KEY"] = encryptionKey()
	execute(t, env, "secrets", "forget").must(t, exitUsage)
	r := execute(t, env, "secrets", "rotate").must(t, exitFailure)
	if !strings.Contains(r.stderr, "not all of them can be read") {
		t.Errorf("rotate: %s", r.stderr)
	}
	r = execute(t, env, "secrets", "forget", "--reason", "the key is lost").must(t, exitSuccess)
	if !strings.Contains(r.stdout, "forgotten  4") {
		t.Errorf("forget: %s", r.stdout)
	}
	if err := requireKeys(t.Context(), pool, Config{}); err != nil {
		t.Errorf("nothing is sealed any more: %v", err)
	}
	for _, tenant := range []string{"tenant-0", "tenant-1"} {
		entries, _, err := audit.List(t.Context(), pool, audit.Filter{Tenant: tenant, Action: audit.ActionWebhookRotateSecret})
		if err != nil || len(entries) != 2 || entries[0].Reason != "the key is lost" {
			t.Errorf("audit of %s: %v, %v", tenant, entries, err)
		}
	}
}

func TestAConfigurationDoesNotPrintItsSecrets(t *testing.T) {
	c := defaultConfig()
	c.DatabaseURL, c.EncryptionKeys = "postgres://me:hush-1@db.example/x", []string{"hush-2"}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		for _, value := range []any{c, &c, []Config{c}, struct{ Config }{c}} {
			if out := fmt.Sprintf(verb, value); strings.Contains(out, "hush") || !strings.Contains(out, "me@db.example") {
				t.Errorf("%s of %T: %s", verb, value, out)
			}
		}
	}
}
