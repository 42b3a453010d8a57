package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"executor/upstreams"
)

// goodConfig is a configuration that serves.
func goodConfig() Config {
	c := defaultConfig()
	c.DatabaseURL = "postgres://app:hunter2@db.example:5433/exec"
	c.DeploymentID = "production"
	c.fill()
	return c
}

func TestDefaultsAreValid(t *testing.T) {
	if err := goodConfig().Validate(); err != nil {
		t.Fatal(err)
	}
}

func TestValidate(t *testing.T) {
	tests := map[string]struct {
		change func(*Config)
		want   []string // each must be in the complaint
	}{
		"no database":        {func(c *Config) { c.DatabaseURL = "" }, []string{"EXECUTOR_DATABASE_URL is not set"}},
		"bad database":       {func(c *Config) { c.DatabaseURL = "postgres://app:hunter2@db:port/x" }, []string{"EXECUTOR_DATABASE_URL: the database URL cannot be read"}},
		"no deployment":      {func(c *Config) { c.DeploymentID = "" }, []string{"EXECUTOR_DEPLOYMENT_ID is not set"}},
		"bad deployment":     {func(c *Config) { c.DeploymentID = "a b" }, []string{"EXECUTOR_DEPLOYMENT_ID", `"a b"`}},
		"no role":            {func(c *Config) { c.Roles = nil }, []string{"EXECUTOR_ROLES is empty"}},
		"unknown role":       {func(c *Config) { c.Roles = []string{"api", "cook"} }, []string{"EXECUTOR_ROLES", `"cook"`, "api, worker"}},
		"listen":             {func(c *Config) { c.Listen = "8080" }, []string{"EXECUTOR_LISTEN", `"8080"`, "host:port"}},
		"port":               {func(c *Config) { c.Listen = ":70000" }, []string{"EXECUTOR_LISTEN", "70000"}},
		"metrics listen":     {func(c *Config) { c.MetricsListen = "x" }, []string{"EXECUTOR_METRICS_LISTEN", `"x"`}},
		"same listener":      {func(c *Config) { c.MetricsListen = c.Listen }, []string{"EXECUTOR_METRICS_LISTEN and EXECUTOR_LISTEN", "127.0.0.1:8080"}},
		"few connections":    {func(c *Config) { c.MaxConnections = 2 }, []string{"EXECUTOR_MAX_CONNECTIONS is 2"}},
		"secrets folder":     {func(c *Config) { c.SecretsDir = "/does/not/exist" }, []string{"EXECUTOR_SECRETS_DIR", "/does/not/exist"}},
		"short lease":        {func(c *Config) { c.LeaseTTL = time.Millisecond }, []string{"EXECUTOR_LEASE_TTL is 1ms"}},
		"long lease":         {func(c *Config) { c.LeaseTTL = time.Hour }, []string{"EXECUTOR_LEASE_TTL is 1h0m0s"}},
		"soft stop":          {func(c *Config) { c.SoftStop = c.Drain }, []string{"EXECUTOR_SOFT_STOP is 25s", "EXECUTOR_DRAIN 25s"}},
		"drain":              {func(c *Config) { c.Drain = 20 * time.Minute }, []string{"EXECUTOR_DRAIN is 20m0s", "EXECUTOR_JOB_TIMEOUT 15m0s"}},
		"rescue":             {func(c *Config) { c.RescueAfter = time.Minute }, []string{"EXECUTOR_JOB_TIMEOUT is 15m0s", "EXECUTOR_RESCUE_AFTER 1m0s"}},
		"job timeout":        {func(c *Config) { c.JobTimeout = longestAttempt }, []string{"EXECUTOR_JOB_TIMEOUT is 10m0s"}},
		"long instance":      {func(c *Config) { c.Instance = strings.Repeat("x", 91) }, []string{"EXECUTOR_INSTANCE"}},
		"log format":         {func(c *Config) { c.LogFormat = "xml" }, []string{"EXECUTOR_LOG_FORMAT", `"xml"`}},
		"log level":          {func(c *Config) { c.LogLevel = "loud" }, []string{"EXECUTOR_LOG_LEVEL", `"loud"`}},
		"trusted proxies":    {func(c *Config) { c.TrustedProxies = []string{"10.0.0"} }, []string{"EXECUTOR_TRUSTED_PROXIES", `"10.0.0"`}},
		"trust in everybody": {func(c *Config) { c.TrustedProxies = []string{"::/0"} }, []string{"EXECUTOR_TRUSTED_PROXIES"}},
		"few clients":        {func(c *Config) { c.MaxClients = 1 }, []string{"EXECUTOR_MAX_CLIENTS is 1"}},
		"key rate":           {func(c *Config) { c.KeyRate = -1 }, []string{"EXECUTOR_KEY_RATE is -1"}},
		"address rate":       {func(c *Config) { c.AddressRate = -1 }, []string{"EXECUTOR_ADDRESS_RATE is -1"}},
		"backlog":            {func(c *Config) { c.Backlog = -1 }, []string{"EXECUTOR_BACKLOG is -1"}},
		"all of it is shown": {func(c *Config) { c.DeploymentID, c.Listen = "", "x" }, []string{"EXECUTOR_DEPLOYMENT_ID", "EXECUTOR_LISTEN"}},
	}
	for name, tt := range tests {
		c := goodConfig()
		tt.change(&c)
		err := c.Validate()
		if err == nil {
			t.Errorf("%s: no complaint", name)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q lacks %q", name, err, want)
			}
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the complaint shows the password: %v", name, err)
		}
	}
}

// readConfig reads a command line and variables as serve does.
func readConfig(t *testing.T, env map[string]string, args ...string) (Config, error) {
	t.Helper()
	c := defaultConfig()
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	c.addServeFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	err := applyEnv(flags, func(name string) string { return env[name] })
	return c, err
}

func TestFlagBeatsVariableBeatsDefault(t *testing.T) {
	c, err := readConfig(t, map[string]string{"EXECUTOR_LEASE_TTL": "7s", "EXECUTOR_DRAIN": "30s", "EXECUTOR_ROLES": "worker", "EXECUTOR_FROZEN": "true"}, "--drain", "40s")
	if err != nil {
		t.Fatal(err)
	}
	if c.LeaseTTL != 7*time.Second || c.Drain != 40*time.Second || c.SoftStop != defaultConfig().SoftStop || !c.Frozen {
		t.Errorf("got %+v", c)
	}
	if len(c.Roles) != 1 || c.Roles[0] != roleWorker {
		t.Errorf("roles %q: the variable must replace the default", c.Roles)
	}
}

func TestEveryServeFlagHasItsVariable(t *testing.T) {
	c := defaultConfig()
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	c.addServeFlags(flags)
	flags.VisitAll(func(f *pflag.Flag) {
		want := "EXECUTOR_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if names := f.Annotations[envAnnotation]; len(names) != 1 || names[0] != want {
			t.Errorf("--%s has the variables %q, want %q", f.Name, names, want)
		}
	})
}

func TestBadVariableIsNamed(t *testing.T) {
	for name, value := range map[string]string{
		"EXECUTOR_LEASE_TTL": "soon", "EXECUTOR_WEBHOOK_PORTS": "9200,http", "EXECUTOR_BACKLOG": "1e5", "EXECUTOR_KEY_RATE": "many", "EXECUTOR_FROZEN": "perhaps",
	} {
		_, err := readConfig(t, map[string]string{name: value})
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), value) || strings.Contains(err.Error(), "strconv") || exitCode(err) != exitUsage {
			t.Errorf("%s=%s: got %v", name, value, err)
		}
	}
}

func TestVariableFromFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(path, []byte("postgres://u:p@h/d\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := readConfig(t, map[string]string{"EXECUTOR_DATABASE_URL_FILE": path})
	if err != nil || c.DatabaseURL != "postgres://u:p@h/d" {
		t.Errorf("got %q, %v", c.DatabaseURL, err)
	}
	_, err = readConfig(t, map[string]string{"EXECUTOR_DATABASE_URL_FILE": path, "EXECUTOR_DATABASE_URL": "postgres://other"})
	if err == nil || !strings.Contains(err.Error(), "both set") {
		t.Errorf("two sources: got %v", err)
	}
	_, err = readConfig(t, map[string]string{"EXECUTOR_DATABASE_URL_FILE": path + "x"})
	if err == nil || !strings.Contains(err.Error(), "EXECUTOR_DATABASE_URL_FILE") {
		t.Errorf("no such file: got %v", err)
	}
}

func TestLoggedConfigIsRedacted(t *testing.T) {
	var b strings.Builder
	slog.New(slog.NewJSONHandler(&b, nil)).Info("starting", "config", goodConfig())
	for _, want := range []string{`"database":"app@db.example:5433/exec"`, `"lease_ttl":"10s"`, `"deployment_id":"production"`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s lacks %s", b.String(), want)
		}
	}
	if strings.Contains(b.String(), "hunter2") {
		t.Errorf("the password is logged: %s", b.String())
	}
}

// The bound of a job stands on the longest attempt that a profile may ask for.
func TestLongestAttemptIsTheProfiles(t *testing.T) {
	profile := "version: 1\nupstream: u\nbase_url: https://u.example\ntimeouts: {total: %s}\noperations:\n  ping: {method: GET, path: /, body: none, idempotency: {kind: safe}}\n"
	if _, err := upstreams.Parse("u.yaml", fmt.Appendf(nil, profile, longestAttempt)); err != nil {
		t.Error(err)
	}
	if _, err := upstreams.Parse("u.yaml", fmt.Appendf(nil, profile, longestAttempt+time.Second)); err == nil {
		t.Errorf("profiles may have attempts longer than %s", longestAttempt)
	}
}
