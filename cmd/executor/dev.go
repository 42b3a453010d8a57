package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"executor/examples"
	"executor/internal/apikeys"
	"executor/internal/audit"
	"executor/internal/postgres"
	"executor/internal/simulator"
	"executor/upstreams"
)

// devOptions is what "executor dev" can be told.
type devOptions struct {
	dir        string
	listen     string
	metrics    string
	upstream   string
	secretsDir string
	bodyDir    string
	demo       bool
	verbose    bool
	movable    bool // a busy port may be left for the next free one
}

func newDevCommand(getenv func(string) string) *cobra.Command {
	var o devOptions
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run everything on this machine, with an upstream that misbehaves on request",
		Long: `Dev starts a PostgreSQL of its own, the service, and a simulated upstream with a sample
profile, makes an API key and a link to the dashboard, and says what to try next. What it keeps lies in .executor-dev
in the folder where it is started. The PostgreSQL installed on the machine is used; where
there is none, one is fetched.

With --demo it plays five commands through by itself, one for each final state and one
that is in doubt until a lookup settles it, shows what was seen of every attempt, and
ends. It leaves nothing behind.`,
		Example: "  executor dev\n  executor dev --demo\n  executor dev --dir /tmp/executor --listen 127.0.0.1:8088",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.movable = !cmd.Flags().Changed("listen") && getenv("EXECUTOR_LISTEN") == ""
			if err := o.check(); err != nil {
				return usage(err)
			}
			if o.demo {
				return runDemo(cmd, o, getenv)
			}
			return runDev(cmd, o, getenv)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.dir, "dir", "", "folder for everything it keeps (default "+defaultDevDir+" here)")
	flags.StringVar(&o.listen, "listen", "127.0.0.1:8080", "address of the API; the next free port if it is taken and was not asked for")
	flags.StringVar(&o.metrics, "metrics-listen", "127.0.0.1:9090", "address of the metrics, likewise")
	flags.StringVar(&o.upstream, "upstream-listen", "127.0.0.1:9099", "address of the simulated upstream, likewise")
	flags.StringVar(&o.secretsDir, "secrets-dir", "", "folder of the secrets that profiles of yours name as file:NAME")
	flags.StringVar(&o.bodyDir, "body-dir", "", "folder of the files that bodies refer to; those of the sample key's tenant are in its folder \"default\"")
	flags.BoolVar(&o.demo, "demo", false, "play one command for each final state, and end")
	flags.BoolVar(&o.verbose, "verbose", false, "show the log here as well")
	fromEnv(flags, "listen", "EXECUTOR_LISTEN")
	fromEnv(flags, "metrics-listen", "EXECUTOR_METRICS_LISTEN")
	fromEnv(flags, "secrets-dir", "EXECUTOR_SECRETS_DIR")
	fromEnv(flags, "body-dir", "EXECUTOR_BODY_DIR")
	return cmd
}

// check refuses what cannot be before anything is created or started.
func (o devOptions) check() error {
	var p problems
	for _, a := range []struct{ setting, address string }{
		{"--listen or EXECUTOR_LISTEN", o.listen},
		{"--metrics-listen or EXECUTOR_METRICS_LISTEN", o.metrics},
		{"--upstream-listen", o.upstream},
	} {
		err := checkAddress(a.address)
		p.check(err == nil, "%s is %q: %v", a.setting, a.address, err)
	}
	return errors.Join(append(p, checkFolder("--secrets-dir or EXECUTOR_SECRETS_DIR", o.secretsDir),
		checkFolder("--body-dir or EXECUTOR_BODY_DIR", o.bodyDir))...)
}

// runDev serves until it is told to stop, which is no error.
func runDev(cmd *cobra.Command, o devOptions, getenv func(string) string) error {
	ctx := cmd.Context()
	dir, err := devDir(o.dir)
	if err != nil {
		return err
	}
	d, err := openDev(ctx, dir, o, getenv, cmd.ErrOrStderr())
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	printScreen(cmd.OutOrStdout(), d, invocation(os.Args[0]))
	select {
	case err = <-d.process.failed:
	case <-d.server.Exited():
		err = fmt.Errorf("PostgreSQL ended by itself; its log is %s", filepath.Join(d.server.Dir, "postgres.log"))
	case <-ctx.Done():
		cmd.PrintErrln("Stopping; attempts on the wire finish first.")
	}
	return errors.Join(err, d.close())
}

// dev is everything of one machine: database, upstream and service.
type dev struct {
	dir    string
	config Config
	server *postgres.Server
	database
	sim      *simulator.Simulator
	simURL   string
	upstream upstreams.Upstream
	process  *process
	key      string // the secret of a ready API key
	// A link that signs in to the dashboard, once.
	dashboard string
	moved     []string
	closers   []func() error // in the order of opening
}

// openDev starts it all. What was started is ended again if a later part fails.
func openDev(ctx context.Context, dir string, o devOptions, getenv func(string) string, stderr io.Writer) (*dev, error) {
	d := &dev{dir: dir}
	if err := d.open(ctx, o, getenv, stderr); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *dev) open(ctx context.Context, o devOptions, getenv func(string) string, stderr io.Writer) error {
	file, err := os.OpenFile(filepath.Join(d.dir, "executor.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	d.closers = append(d.closers, file.Close)
	log, notes := devLogs(file, stderr, o.verbose)
	fmt.Fprintf(stderr, "Starting PostgreSQL in %s …\n", d.dir)
	if err := d.openDatabase(ctx, notes); err != nil {
		return err
	}
	if err := file.Truncate(0); err != nil { // not before the folder is certainly ours
		return err
	}
	if err := d.openUpstream(ctx, o); err != nil {
		return err
	}
	if err := d.openService(ctx, o, log, getenv); err != nil {
		return err
	}
	if err := d.openKey(ctx); err != nil {
		return err
	}
	return d.openDashboard(ctx)
}

// devLogs makes the log, which goes to a file, and the notes, which a person
// sees as well.
func devLogs(file, stderr io.Writer, verbose bool) (log, notes *slog.Logger) {
	level, seen := slog.LevelInfo, slog.LevelError
	if verbose {
		level, seen = slog.LevelDebug, slog.LevelDebug
	}
	kept := slog.NewTextHandler(file, &slog.HandlerOptions{Level: level})
	shown := func(level slog.Level) slog.Handler {
		return slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level, ReplaceAttr: withoutTime})
	}
	return slog.New(slog.NewMultiHandler(kept, shown(seen))), slog.New(slog.NewMultiHandler(kept, shown(slog.LevelInfo)))
}

func withoutTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// devDeployment is the deployment id of every "executor dev".
const devDeployment = "dev"

func (d *dev) openDatabase(ctx context.Context, notes *slog.Logger) (err error) {
	if d.server, err = postgres.Start(ctx, postgres.DevConfig{Dir: filepath.Join(d.dir, "postgres"), Log: notes}); err != nil {
		return err
	}
	d.closers = append(d.closers, d.server.Stop)
	d.config = defaultConfig()
	d.config.DatabaseURL, d.config.DeploymentID = d.server.URL, devDeployment
	if d.database, err = tryDatabase(ctx, d.config, notes); err != nil {
		return err
	}
	d.closers = append(d.closers, func() error { d.pool.Close(); return nil })
	_, err = migrateDatabase(ctx, d.pool, devDeployment)
	return err
}

// baseURL is the line of the sample profile that names the upstream.
var baseURL = regexp.MustCompile(`(?m)^base_url: .*$`)

// openUpstream starts the simulator and applies the profile that leads to it.
func (d *dev) openUpstream(ctx context.Context, o devOptions) error {
	address, err := d.address("upstream", o.upstream, o.movable)
	if err != nil {
		return err
	}
	d.sim = simulator.New(simulator.Config{})
	if d.simURL, err = d.sim.Listen(address); err != nil {
		return err
	}
	d.closers = append(d.closers, d.sim.Close)
	source := baseURL.ReplaceAll(examples.Ledger, []byte("base_url: "+d.simURL))
	profile, err := upstreams.Parse("examples/ledger.yaml", source)
	if err != nil {
		return err
	}
	d.upstream, _, err = upstreams.NewStore(d.pool).Apply(ctx, profile, audit.By{Actor: "executor dev"})
	return err
}

// Bounds of stopping that suit one person at one machine.
const (
	devDrain    = 10 * time.Second
	devSoftStop = 8 * time.Second
)

func (d *dev) openService(ctx context.Context, o devOptions, log *slog.Logger, getenv func(string) string) (err error) {
	c := &d.config
	c.Drain, c.SoftStop, c.SecretsDir, c.BodyDir = devDrain, devSoftStop, o.secretsDir, o.bodyDir
	if c.Listen, err = d.address("API", o.listen, o.movable); err != nil {
		return err
	}
	if c.MetricsListen, err = d.address("metrics listener", o.metrics, o.movable); err != nil {
		return err
	}
	key, err := devEncryptionKey(d.dir)
	if err != nil {
		return err
	}
	c.EncryptionKeys, c.WebhookAllow = []string{key}, []string{"127.0.0.0/8", "::1/128"} // receivers of one's own
	c.fill()
	if err := c.Validate(); err != nil {
		return usage(err)
	}
	if d.process, err = openProcess(ctx, *c, log, getenv, d.database); err != nil {
		return err
	}
	d.closers = append(d.closers, d.process.stop)
	return d.process.start(ctx)
}

// portTries is how many ports after a busy one are looked at.
const portTries = 50

// address is the one wanted, or the next free port above it where that was
// nobody's explicit wish.
func (d *dev) address(name, wanted string, movable bool) (string, error) {
	host, port, err := net.SplitHostPort(wanted)
	if err != nil {
		return "", usage(fmt.Errorf("address of the %s: %w", name, err))
	}
	first, err := strconv.Atoi(port)
	if err != nil || first == 0 || !movable {
		return wanted, nil
	}
	for n := first; n < first+portTries; n++ {
		candidate := net.JoinHostPort(host, strconv.Itoa(n))
		l, err := net.Listen("tcp", candidate)
		if err != nil {
			continue
		}
		_ = l.Close()
		if n != first {
			d.moved = append(d.moved, fmt.Sprintf("%s is in use, so the %s is at %s.", wanted, name, candidate))
		}
		return candidate, nil
	}
	return wanted, nil // and let the listener say what is wrong
}

// openKey takes the key of an earlier run if it still opens the door, or makes
// one.
func (d *dev) openKey(ctx context.Context) error {
	store := d.process.keys
	secret, err := keptKey(d.dir)
	if err != nil {
		return err
	}
	if secret != "" {
		_, err := store.Authenticate(ctx, secret)
		if err == nil {
			d.key = secret
			return nil
		}
		if !errors.Is(err, apikeys.ErrUnknown) {
			return err
		}
	}
	by := audit.By{Actor: actor(), Reason: "executor dev"}
	if _, err := store.Revoke(ctx, defaultTenant, devKeyName, by); err != nil && !errors.Is(err, apikeys.ErrUnknown) {
		return err
	}
	if _, d.key, err = store.Create(ctx, defaultTenant, devKeyName, []string{string(apikeys.ScopeAdmin)}, by); err != nil {
		return err
	}
	return keepKey(d.dir, d.key)
}

// devKeyName appears as the actor of what is done with the ready key.
const devKeyName = "dev"

// close ends everything, the last opened first.
func (d *dev) close() error {
	var errs []error
	for _, c := range slices.Backward(d.closers) {
		errs = append(errs, c())
	}
	d.closers = nil
	return errors.Join(errs...)
}
