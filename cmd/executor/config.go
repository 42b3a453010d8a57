package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/pflag"

	"executor/internal/postgres"
	"executor/internal/seal"
	"executor/webhooks"
)

// Roles of a serving process. Every role also answers the health calls.
const (
	roleAPI    = "api"    // the REST API
	roleWorker = "worker" // attempts, leases, recovery
	roleWeb    = "web"    // the dashboard
)

func knownRoles() []string { return []string{roleAPI, roleWorker, roleWeb} }

// Config is everything a serving process is told from outside, by flags or by
// EXECUTOR_* variables. Validate holds the relations between its members.
type Config struct {
	DatabaseURL  string // postgres://… or key=value form
	DeploymentID string // which deployment this process believes to serve
	Instance     string // name of this process, in leases, attempts and logs

	Listen        string // API, dashboard and health
	MetricsListen string // Prometheus; "" = no such listener
	Roles         []string
	BodyDir       string // with one folder a tenant of files that bodies refer to; "" = none
	SecretsDir    string // where file: references of profiles point to; "" = none allowed
	Frozen        bool   // start frozen: accept and read, send nothing

	EncryptionKeys []string // of secrets kept in the database, base64, the current one first; none = no webhooks can be made
	WebhookAllow   []string // CIDRs that webhooks may go to besides public addresses, plain http too
	WebhookPorts   []int    // ports that webhooks may have besides 80, 443 and those from 1024 of no other service

	TrustedProxies []string // CIDRs whose X-Forwarded-For is believed
	MaxClients     int      // connections to the listener at a time
	KeyRate        int      // requests of one API key in a second; 0 = no limit
	Backlog        int64    // commands of a tenant without an outcome; 0 = no limit
	AddressRate    int      // requests without a valid key from one address in a minute; 0 = no limit
	WebhookAsk     string   // whose receivers have to answer a challenge before they get anything else: a webhooks.Ask
	WebhookRate    int      // tries a second to one webhook from this process

	MaxConnections int           // of the database pool
	DatabaseWait   time.Duration // how long to wait for the database at start

	LeaseTTL time.Duration // a dead process's attempts are taken over after it
	Drain    time.Duration // bound of an orderly stop

	// The queue's own bounds. A job holds no promise, but one that the queue
	// cuts off or rescues too early is work done twice.
	JobTimeout  time.Duration // one job of the queue
	RescueAfter time.Duration // when the queue believes that a job's process died
	SoftStop    time.Duration // how long running jobs may go on at a stop

	LogFormat string // json, text or auto: text on a terminal
	LogLevel  string // debug, info, warn or error
}

// defaultConfig is what holds where neither flag nor variable says otherwise.
func defaultConfig() Config {
	return Config{
		Listen:         "127.0.0.1:8080",
		Roles:          knownRoles(),
		MaxClients:     4096,
		KeyRate:        5000,
		AddressRate:    300,
		Backlog:        100_000,
		MaxConnections: 16,
		DatabaseWait:   30 * time.Second,
		LeaseTTL:       10 * time.Second,
		Drain:          25 * time.Second,
		SoftStop:       20 * time.Second,
		JobTimeout:     15 * time.Minute,
		RescueAfter:    time.Hour,
		WebhookAsk:     string(webhooks.AskOthers),
		WebhookRate:    webhooks.DefaultRate,
		LogFormat:      "auto",
		LogLevel:       "info",
	}
}

// addDatabaseFlags adds what every command needs that works on the database itself.
func (c *Config) addDatabaseFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.DatabaseURL, "database-url", c.DatabaseURL, "the PostgreSQL database, postgres://user@host:port/name")
	fromEnv(flags, "database-url", "EXECUTOR_DATABASE_URL")
}

func (c *Config) addDeploymentFlag(flags *pflag.FlagSet) {
	flags.StringVar(&c.DeploymentID, "deployment-id", c.DeploymentID, "the deployment this process belongs to; data of another one is not sent")
	fromEnv(flags, "deployment-id", "EXECUTOR_DEPLOYMENT_ID")
}

func (c *Config) addEncryptionFlag(flags *pflag.FlagSet) {
	flags.StringSliceVar(&c.EncryptionKeys, "encryption-key", nil, "key of the secrets kept in the database, base64 of 32 bytes; older ones behind it; better given as a variable or a file")
	fromEnv(flags, "encryption-key", "EXECUTOR_ENCRYPTION_KEY")
}

// addServeFlags adds every setting of a serving process.
func (c *Config) addServeFlags(flags *pflag.FlagSet) {
	c.addDatabaseFlags(flags)
	c.addDeploymentFlag(flags)
	flags.StringVar(&c.Instance, "instance", c.Instance, "name of this process in leases and logs (default host name and a random part)")
	flags.StringVar(&c.Listen, "listen", c.Listen, "address of the API, the dashboard and the health calls")
	flags.StringVar(&c.MetricsListen, "metrics-listen", c.MetricsListen, "address of the Prometheus metrics; empty = none")
	flags.StringSliceVar(&c.Roles, "roles", c.Roles, "what this process does: "+strings.Join(knownRoles(), ", "))
	flags.StringVar(&c.BodyDir, "body-dir", c.BodyDir, "folder of the files that bodies refer to, with one folder a tenant in it; none if empty")
	flags.StringVar(&c.SecretsDir, "secrets-dir", c.SecretsDir, "folder of the secrets that profiles name as file:NAME")
	c.addEncryptionFlag(flags)
	flags.StringSliceVar(&c.WebhookAllow, "webhook-allow", nil, "networks that webhooks may go to besides public addresses, over plain http too, for instance 10.0.0.0/8")
	c.addAbuseFlags(flags)
	flags.IntSliceVar(&c.WebhookPorts, "webhook-ports", nil, "ports that webhooks may have besides 80, 443 and those from 1024 that belong to no other service")
	flags.StringVar(&c.WebhookAsk, "webhook-challenge", c.WebhookAsk, "whose receivers are asked whether they want webhooks, before they get any: others (than those at addresses that webhook-allow names), all or nobody")
	flags.IntVar(&c.WebhookRate, "webhook-rate", c.WebhookRate, "tries a second to one webhook from this process")
	flags.BoolVar(&c.Frozen, "frozen", c.Frozen, "start frozen: accept and read, send nothing until \"executor resume\"")
	flags.IntVar(&c.MaxConnections, "max-connections", c.MaxConnections, "database connections of this process")
	flags.DurationVar(&c.DatabaseWait, "database-wait", c.DatabaseWait, "how long to wait for the database at start")
	flags.DurationVar(&c.LeaseTTL, "lease-ttl", c.LeaseTTL, "a process silent for this long is taken for dead")
	flags.DurationVar(&c.Drain, "drain", c.Drain, "bound of an orderly stop")
	flags.DurationVar(&c.SoftStop, "soft-stop", c.SoftStop, "part of the drain that running queue jobs may use")
	flags.DurationVar(&c.JobTimeout, "job-timeout", c.JobTimeout, "bound of one queue job")
	flags.DurationVar(&c.RescueAfter, "rescue-after", c.RescueAfter, "age at which the queue takes a running job for lost")
	c.addLogFlags(flags)
	for name, variable := range map[string]string{
		"instance": "EXECUTOR_INSTANCE", "listen": "EXECUTOR_LISTEN", "metrics-listen": "EXECUTOR_METRICS_LISTEN",
		"roles": "EXECUTOR_ROLES", "secrets-dir": "EXECUTOR_SECRETS_DIR", "body-dir": "EXECUTOR_BODY_DIR", "frozen": "EXECUTOR_FROZEN",
		"webhook-allow": "EXECUTOR_WEBHOOK_ALLOW", "webhook-ports": "EXECUTOR_WEBHOOK_PORTS",
		"webhook-challenge": "EXECUTOR_WEBHOOK_CHALLENGE", "webhook-rate": "EXECUTOR_WEBHOOK_RATE",
		"max-connections": "EXECUTOR_MAX_CONNECTIONS", "database-wait": "EXECUTOR_DATABASE_WAIT",
		"lease-ttl": "EXECUTOR_LEASE_TTL", "drain": "EXECUTOR_DRAIN", "soft-stop": "EXECUTOR_SOFT_STOP",
		"job-timeout": "EXECUTOR_JOB_TIMEOUT", "rescue-after": "EXECUTOR_RESCUE_AFTER",
	} {
		fromEnv(flags, name, variable)
	}
}

func (c *Config) addLogFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.LogFormat, "log-format", c.LogFormat, "json, text or auto (text on a terminal)")
	flags.StringVar(&c.LogLevel, "log-level", c.LogLevel, "debug, info, warn or error")
	fromEnv(flags, "log-format", "EXECUTOR_LOG_FORMAT")
	fromEnv(flags, "log-level", "EXECUTOR_LOG_LEVEL")
}

// fill sets what has no constant default.
func (c *Config) fill() {
	if c.Instance == "" {
		c.Instance = defaultInstance()
	}
}

// defaultInstance tells processes apart also where host names and process ids
// come again, as in containers.
func defaultInstance() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "executor"
	}
	var b [3]byte
	_, _ = rand.Read(b[:]) // never fails
	return host + "-" + hex.EncodeToString(b[:])
}

// problems collects what is wrong with a configuration, so that one start
// shows all of it.
type problems []error

func (p *problems) check(ok bool, text string, values ...any) {
	if !ok {
		*p = append(*p, fmt.Errorf(text, values...))
	}
}

// Validate refuses a configuration that cannot work, naming the settings,
// their values and what to do.
func (c Config) Validate() error {
	var p problems
	c.checkIdentity(&p)
	c.checkListeners(&p)
	c.checkDurations(&p)
	p.check(slices.Contains([]string{"auto", "json", "text"}, c.LogFormat), "EXECUTOR_LOG_FORMAT is %q: use json, text or auto", c.LogFormat)
	_, err := parseLevel(c.LogLevel)
	p.check(err == nil, "EXECUTOR_LOG_LEVEL is %q: use debug, info, warn or error", c.LogLevel)
	return errors.Join(p...)
}

var deploymentPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

func (c Config) checkIdentity(p *problems) {
	if err := checkDatabaseURL(c.DatabaseURL); err != nil {
		*p = append(*p, err)
	}
	if err := checkDeploymentID(c.DeploymentID); err != nil {
		*p = append(*p, err)
	}
	p.check(c.Instance != "" && len(c.Instance) <= maxInstance, "EXECUTOR_INSTANCE is %q: use 1 to 90 characters", c.Instance)
	p.check(len(c.Roles) > 0, "EXECUTOR_ROLES is empty: name at least one of %s", strings.Join(knownRoles(), ", "))
	for _, role := range c.Roles {
		p.check(slices.Contains(knownRoles(), role), "EXECUTOR_ROLES names %q: the roles are %s", role, strings.Join(knownRoles(), ", "))
	}
	p.check(c.MaxConnections >= minConnections, "EXECUTOR_MAX_CONNECTIONS is %d: lease, queue and commits need at least %d", c.MaxConnections, minConnections)
	if err := checkFolder("--secrets-dir or EXECUTOR_SECRETS_DIR", c.SecretsDir); err != nil {
		*p = append(*p, err)
	}
	if err := checkFolder("--body-dir or EXECUTOR_BODY_DIR", c.BodyDir); err != nil {
		*p = append(*p, err)
	}
	_, err := c.box()
	p.check(err == nil, "EXECUTOR_ENCRYPTION_KEY: %v", err)
	_, err = networks(c.WebhookAllow)
	p.check(err == nil, "EXECUTOR_WEBHOOK_ALLOW: %v", err)
	p.check(slices.Contains(webhooks.Asks(), webhooks.Ask(c.WebhookAsk)), "EXECUTOR_WEBHOOK_CHALLENGE is %q: use others, all or nobody", c.WebhookAsk)
	c.checkAbuse(p)
	for _, port := range c.WebhookPorts {
		p.check(port >= 1 && port <= 65535, "EXECUTOR_WEBHOOK_PORTS names %d: a port is 1 to 65535", port)
	}
	p.check(c.WebhookRate > 0 && c.WebhookRate <= maxWebhookRate, "EXECUTOR_WEBHOOK_RATE is %d: use 1 to %d tries a second", c.WebhookRate, maxWebhookRate)
}

// box seals and opens what the database keeps secret; nil without a key.
func (c Config) box() (*seal.Box, error) {
	var keys [][]byte
	for _, text := range c.EncryptionKeys {
		key, err := seal.ParseKey(text)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, nil
	}
	return seal.New(keys[0], keys[1:]...)
}

func networks(texts []string) ([]netip.Prefix, error) {
	var list []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if addr, single := netip.ParseAddr(text); single == nil {
			p, err = netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()), nil
		}
		if err != nil {
			return nil, fmt.Errorf("%q is not a network such as 10.0.0.0/8", text)
		}
		list = append(list, p)
	}
	return list, nil
}

func checkFolder(setting, dir string) error {
	if dir == "" {
		return nil
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("%s is %q, which is not a folder that can be read: create it or leave the setting out", setting, dir)
	}
	return nil
}

// maxWebhookRate is more than one process sends.
const maxWebhookRate = 100_000

// maxInstance keeps an instance's name within what the queue takes for one.
const maxInstance = 90

// minConnections lets lease, queue listener and one commit of each kind go on
// side by side.
const minConnections = 6

func checkDatabaseURL(url string) error {
	if url == "" {
		return errors.New("EXECUTOR_DATABASE_URL is not set: set it to the database, postgres://user@host:5432/name")
	}
	if err := postgres.CheckURL(url); err != nil {
		return fmt.Errorf("EXECUTOR_DATABASE_URL: %w", err)
	}
	return nil
}

func checkDeploymentID(id string) error {
	if id == "" {
		return errors.New("EXECUTOR_DEPLOYMENT_ID is not set: name this deployment, for instance \"production\"; it keeps a copy of the data from sending")
	}
	if !deploymentPattern.MatchString(id) {
		return fmt.Errorf("EXECUTOR_DEPLOYMENT_ID is %q: use 1 to 63 letters, digits, '.', '_' or '-'", id)
	}
	return nil
}

func (c Config) checkListeners(p *problems) {
	err := checkAddress(c.Listen)
	p.check(err == nil, "EXECUTOR_LISTEN is %q: %v", c.Listen, err)
	if c.MetricsListen == "" {
		return
	}
	err = checkAddress(c.MetricsListen)
	p.check(err == nil, "EXECUTOR_METRICS_LISTEN is %q: %v", c.MetricsListen, err)
	p.check(c.MetricsListen != c.Listen || strings.HasSuffix(c.Listen, ":0"),
		"EXECUTOR_METRICS_LISTEN and EXECUTOR_LISTEN are both %s: metrics have a listener of their own, give it another port", c.Listen)
}

func checkAddress(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return errors.New("use host:port, for instance 127.0.0.1:8080, or :8080 for every interface")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("%q is not a port number from 0 to 65535", port)
	}
	return nil
}

const (
	minLease = time.Second
	maxLease = 5 * time.Minute
	// longestAttempt is the largest total timeout that a profile may have.
	longestAttempt = 10 * time.Minute
)

// checkDurations holds the relations of ARCHITECTURE: what stops must fit into
// what waits for it.
func (c Config) checkDurations(p *problems) {
	p.check(c.LeaseTTL >= minLease && c.LeaseTTL <= maxLease,
		"EXECUTOR_LEASE_TTL is %s: use %s to %s; a dead process's commands wait that long", c.LeaseTTL, minLease, maxLease)
	p.check(c.DatabaseWait >= 0, "EXECUTOR_DATABASE_WAIT is %s: use 0s or more", c.DatabaseWait)
	p.check(c.SoftStop > 0 && c.SoftStop < c.Drain,
		"EXECUTOR_SOFT_STOP is %s and EXECUTOR_DRAIN %s: running jobs must end inside the drain, lower the first or raise the second", c.SoftStop, c.Drain)
	p.check(c.JobTimeout > longestAttempt,
		"EXECUTOR_JOB_TIMEOUT is %s: a job waits for an attempt, which may last %s; raise it", c.JobTimeout, longestAttempt)
	p.check(c.Drain < c.JobTimeout,
		"EXECUTOR_DRAIN is %s and EXECUTOR_JOB_TIMEOUT %s: a job may outlive a drain, not the other way round; raise the second", c.Drain, c.JobTimeout)
	p.check(c.JobTimeout < c.RescueAfter,
		"EXECUTOR_JOB_TIMEOUT is %s and EXECUTOR_RESCUE_AFTER %s: a job that still runs would be started again; raise the second", c.JobTimeout, c.RescueAfter)
}

func (c Config) has(role string) bool { return slices.Contains(c.Roles, role) }

func parseLevel(s string) (slog.Level, error) {
	var l slog.Level
	err := l.UnmarshalText([]byte(s))
	return l, err
}

// LogValue is the effective configuration as a log may show it: no password.
func (c Config) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("database", redactedDatabase(c.DatabaseURL)),
		slog.String("deployment_id", c.DeploymentID),
		slog.String("instance", c.Instance),
		slog.String("listen", c.Listen),
		slog.String("metrics_listen", c.MetricsListen),
		slog.String("roles", strings.Join(c.Roles, ",")),
		slog.String("secrets_dir", c.SecretsDir), slog.String("body_dir", c.BodyDir),
		slog.Int("encryption_keys", len(c.EncryptionKeys)),
		slog.String("webhook_allow", strings.Join(c.WebhookAllow, ",")),
		slog.String("trusted_proxies", strings.Join(c.TrustedProxies, ",")),
		slog.Int("max_clients", c.MaxClients),
		slog.Int("key_rate", c.KeyRate),
		slog.Int("address_rate", c.AddressRate),
		slog.Any("webhook_ports", append([]int{}, c.WebhookPorts...)),
		slog.Int64("backlog", c.Backlog),
		slog.String("webhook_challenge", c.WebhookAsk), slog.Int("webhook_rate", c.WebhookRate),
		slog.Bool("frozen", c.Frozen),
		slog.Int("max_connections", c.MaxConnections),
		slog.String("database_wait", c.DatabaseWait.String()),
		slog.String("lease_ttl", c.LeaseTTL.String()),
		slog.String("drain", c.Drain.String()),
		slog.String("soft_stop", c.SoftStop.String()),
		slog.String("job_timeout", c.JobTimeout.String()),
		slog.String("rescue_after", c.RescueAfter.String()),
		slog.String("log_level", c.LogLevel),
	)
}

// Format keeps passwords and keys out of whatever prints a configuration.
func (c Config) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, c.LogValue()) }

// redactedDatabase says where a database is, not how to get in.
func redactedDatabase(url string) string {
	c, err := pgx.ParseConfig(url)
	if err != nil {
		return "[unreadable]"
	}
	return fmt.Sprintf("%s@%s/%s", c.User, net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))), c.Database)
}
