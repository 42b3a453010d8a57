package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"executor/attempts"
	"executor/commands"
	"executor/internal/egress"
	"executor/internal/postgres"
	"executor/migrations"
	"executor/upstreams"
)

func newDoctorCommand(getenv func(string) string) *cobra.Command {
	config := defaultConfig()
	var out format
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the database and the deployment, and say what to do",
		Long: `Doctor checks what a deployment stands on: the database and its settings, the
schema, the deployment id, living processes, stopped upstreams, secrets, and how old the
oldest work is. It changes nothing. It ends with 1 when a check fails; a warning passes.`,
		Example: `  EXECUTOR_DATABASE_URL=postgres://executor@localhost/executor EXECUTOR_DEPLOYMENT_ID=production executor doctor
  executor doctor --output json`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkDatabaseURL(config.DatabaseURL); err != nil {
				return usage(err)
			}
			return reportChecks(cmd, out, examine(cmd.Context(), config, getenv))
		},
	}
	config.addDatabaseFlags(cmd.Flags())
	config.addDeploymentFlag(cmd.Flags())
	cmd.Flags().StringVar(&config.SecretsDir, "secrets-dir", "", "folder of the secrets that profiles name as file:NAME")
	fromEnv(cmd.Flags(), "secrets-dir", "EXECUTOR_SECRETS_DIR")
	config.addEncryptionFlag(cmd.Flags())
	addOutput(cmd, &out)
	return cmd
}

// finding is one line of the doctor's report.
type finding struct {
	Check  string `json:"check"`
	Status status `json:"status"`
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"` // what to do, where something is to be done
}

type status string

const (
	statusOK   status = "ok"
	statusWarn status = "warn" // it works, but somebody should know
	statusFail status = "fail" // commands are not sent, or promises do not hold
)

func reportChecks(cmd *cobra.Command, out format, findings []finding) error {
	failed := 0
	for _, f := range findings {
		if f.Status == statusFail {
			failed++
		}
	}
	if err := printChecks(cmd, out, findings, failed == 0); err != nil {
		return err
	}
	if failed > 0 {
		return &exitError{code: exitFailure, err: fmt.Errorf("%d of %d checks failed", failed, len(findings))}
	}
	return nil
}

func printChecks(cmd *cobra.Command, out format, findings []finding, ok bool) error {
	if out == formatJSON {
		return writeJSON(cmd.OutOrStdout(), map[string]any{"ok": ok, "checks": findings})
	}
	t := newTable(cmd.OutOrStdout(), "STATUS", "CHECK", "DETAIL", "WHAT TO DO")
	for _, f := range findings {
		t.row(f.Status, f.Check, f.Detail, f.Fix)
	}
	return t.flush()
}

// doctor is what the checks look at.
type doctor struct {
	config  Config
	pool    *pgxpool.Pool
	secrets *egress.Secrets
}

// examine runs the checks in the order in which they build on one another, and
// stops where the rest could only repeat the same failure.
func examine(ctx context.Context, config Config, getenv func(string) string) []finding {
	pool, err := openDatabase(ctx, config)
	if err != nil {
		return []finding{{"database", statusFail, err.Error(), "start it, or correct EXECUTOR_DATABASE_URL"}}
	}
	defer pool.Close()
	d := &doctor{config: config, pool: pool, secrets: egress.NewSecrets(getenv, config.SecretsDir)}
	findings := []finding{{"database", statusOK, redactedDatabase(config.DatabaseURL) + " answers", ""}}
	findings = append(findings, d.run(ctx, "server", d.server)...)
	findings = append(findings, d.run(ctx, "durability", d.durability)...)
	findings = append(findings, d.run(ctx, "replication", d.replication)...)
	findings = append(findings, d.run(ctx, "clock", d.clock)...)
	current, err := migrations.Current(ctx, pool)
	if err != nil || !current {
		return append(findings, schemaFinding(err))
	}
	findings = append(findings, finding{"schema", statusOK, "current", ""})
	for _, c := range []struct {
		name  string
		check func(context.Context) ([]finding, error)
	}{
		{"deployment", d.deployment}, {"processes", d.processes}, {"attempts", d.attempts},
		{"upstreams", d.upstreams}, {"backlog", d.backlog}, {"files", d.files}, {"unresolved", d.unresolved}, {"webhooks", d.webhooks}, {"sealed secrets", d.sealed},
	} {
		findings = append(findings, d.run(ctx, c.name, c.check)...)
	}
	return findings
}

func schemaFinding(err error) finding {
	if err != nil {
		return finding{"schema", statusFail, err.Error(), "see the error; the checks after this one were not made"}
	}
	return finding{"schema", statusFail, "older than this program, or none", `run "executor migrate"; the checks after this one were not made`}
}

// run makes a check that could not be made a failure of its own.
func (d *doctor) run(ctx context.Context, name string, check func(context.Context) ([]finding, error)) []finding {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	findings, err := check(ctx)
	if err != nil {
		return append(findings, finding{name, statusFail, "could not be checked: " + err.Error(), "see the error"})
	}
	return findings
}

func (d *doctor) server(ctx context.Context) ([]finding, error) {
	var number int
	var text string
	var standby bool
	err := d.pool.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('server_version'), pg_is_in_recovery()`).
		Scan(&number, &text, &standby)
	if err != nil {
		return nil, err
	}
	f := finding{"server", statusOK, "PostgreSQL " + text, ""}
	switch {
	case standby:
		f.Status, f.Fix = statusFail, "this is a standby, which takes no writes: point EXECUTOR_DATABASE_URL to the primary"
	case number < postgres.MinVersion:
		f.Status, f.Fix = statusFail, fmt.Sprintf("upgrade to PostgreSQL %d or newer", postgres.MinVersion/10_000)
	}
	return []finding{f}, nil
}

// durability checks the settings that "stored before sent" stands on.
func (d *doctor) durability(ctx context.Context) ([]finding, error) {
	settings, err := postgres.Durability(ctx, d.pool)
	if err != nil {
		return nil, err
	}
	var findings []finding
	for _, setting := range postgres.DurableSettings() {
		f := finding{setting, statusOK, settings[setting], ""}
		if settings[setting] == "off" {
			f.Status = statusFail
			f.Fix = "set " + setting + " = on, for the server, this database, role or URL: without it a crash of the database's machine loses accepted commands and attempts already sent"
		}
		findings = append(findings, f)
	}
	return findings, nil
}

// replication tells whether commits wait for a standby, and whether one keeps them
// waiting. Those of other roles are not seen.
func (d *doctor) replication(ctx context.Context) ([]finding, error) {
	var names, wait string
	var waiting int
	err := d.pool.QueryRow(ctx, `
		SELECT current_setting('synchronous_standby_names'), current_setting('synchronous_commit'),
			(SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND state_change < clock_timestamp() - interval '5s')`).
		Scan(&names, &wait, &waiting)
	if err != nil {
		return nil, err
	}
	f := finding{"replication", statusOK, "commits wait for " + names, ""}
	switch {
	case waiting > 0:
		f.Status, f.Detail = statusFail, fmt.Sprintf("%s %s waited for %s for seconds", some(waiting, "commit"), does(waiting, "has", "have"), names)
		f.Fix = "bring the standby back; do not cancel the waits: a commit that was cancelled counts as unknown and is made again"
	case names == "" || wait == "local" || wait == "off":
		f.Detail = "commits wait for no standby: one that takes over may have lost the last of them"
	}
	return []finding{f}, nil
}

// Offsets between this machine's clock and the database's.
const (
	clockWarn = time.Second
	clockFail = 30 * time.Second
)

// clock compares both clocks in the middle of a round trip.
func (d *doctor) clock(ctx context.Context) ([]finding, error) {
	var there time.Time
	before := time.Now()
	if err := d.pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&there); err != nil {
		return nil, err
	}
	after := time.Now()
	offset := there.Sub(before.Add(after.Sub(before) / 2)).Round(time.Millisecond)
	f := finding{"clock", statusOK, fmt.Sprintf("the database's and this machine's differ by %s", offset.Abs()), ""}
	const fix = "synchronise both clocks (NTP): deadlines are set by one and watched by the other"
	switch {
	case offset.Abs() > clockFail:
		f.Status, f.Fix = statusFail, fix
	case offset.Abs() > clockWarn:
		f.Status, f.Fix = statusWarn, fix
	}
	return []finding{f}, nil
}

// deployment compares whose data this is with who asks, and whether it stands
// still.
func (d *doctor) deployment(ctx context.Context) ([]finding, error) {
	deployment := attempts.NewDeployment(d.pool, d.config.DeploymentID, nil)
	state, err := deployment.Show(ctx)
	if errors.Is(err, attempts.ErrNoDeployment) {
		return []finding{{"deployment", statusFail, "the data has no deployment id", `set EXECUTOR_DEPLOYMENT_ID and run "executor migrate"`}}, nil
	}
	if err != nil {
		return nil, err
	}
	moved, err := deployment.Moved(ctx)
	if err != nil {
		return nil, err
	}
	return []finding{d.identity(state, moved), frozenFinding(state)}, nil
}

func (d *doctor) identity(state attempts.DeploymentState, moved bool) finding {
	f := finding{"deployment", statusOK, state.ID, ""}
	switch {
	case d.config.DeploymentID == "":
		f.Status, f.Fix = statusWarn, "set EXECUTOR_DEPLOYMENT_ID to have it compared"
	case d.config.DeploymentID != state.ID:
		f.Status = statusFail
		f.Detail = fmt.Sprintf("the data belongs to %q, EXECUTOR_DEPLOYMENT_ID is %q", state.ID, d.config.DeploymentID)
		f.Fix = `correct the id; or, if this is no copy, run "executor deployment adopt"`
	case moved:
		f.Status, f.Detail = statusWarn, state.ID+", on a database that was promoted or restored since it last sent"
		f.Fix = `make sure that the old one is gone, then "executor resume"`
	}
	return f
}

func frozenFinding(state attempts.DeploymentState) finding {
	if !state.Frozen() {
		return finding{"sending", statusOK, "on", ""}
	}
	detail := fmt.Sprintf("frozen since %s by %s: %s", stamp(*state.FrozenAt), state.FrozenBy, state.FrozenReason)
	return finding{"sending", statusWarn, detail, `"executor resume" when the reason is gone; deadlines run on`}
}

// processes tells who holds a live lease.
func (d *doctor) processes(ctx context.Context) ([]finding, error) {
	var live int
	if err := d.pool.QueryRow(ctx, `SELECT count(*) FROM leases WHERE ended_at IS NULL AND expires_at > now()`).Scan(&live); err != nil {
		return nil, err
	}
	if live == 0 {
		return []finding{{"processes", statusWarn, "none holds a live lease, nothing is sent", `start "executor serve"`}}, nil
	}
	return []finding{{"processes", statusOK, fmt.Sprintf("%d with a live lease", live), ""}}, nil
}

// attempts looks for open attempts that somebody should have closed long ago.
func (d *doctor) attempts(ctx context.Context) ([]finding, error) {
	var open, lost int
	err := d.pool.QueryRow(ctx, `
		SELECT count(*), count(*) FILTER (WHERE latest_end < now() - interval '1 minute')
		FROM attempts WHERE ended_at IS NULL`).Scan(&open, &lost)
	if err != nil {
		return nil, err
	}
	if lost > 0 {
		return []finding{{"attempts", statusFail, fmt.Sprintf("%d open long after their end", lost), "nobody takes over from a dead process: start a worker, and look at its log"}}, nil
	}
	return []finding{{"attempts", statusOK, fmt.Sprintf("%d on the wire", open), ""}}, nil
}

// upstreams looks at every applied profile: stopped, and without its secrets.
func (d *doctor) upstreams(ctx context.Context) ([]finding, error) {
	all, err := upstreams.NewStore(d.pool).All(ctx)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return []finding{{"upstreams", statusWarn, "no profile is applied, so no command can be accepted", `run "executor profiles apply FILE"`}}, nil
	}
	var findings []finding
	for _, u := range all {
		findings = append(findings, d.upstream(u))
	}
	return findings, nil
}

func (d *doctor) upstream(u upstreams.Upstream) finding {
	f := finding{"upstream " + u.Name, statusOK, fmt.Sprintf("version %d, tenant %s", u.Version, u.Tenant), ""}
	if u.Unreadable != nil {
		return finding{f.Check, statusFail, f.Detail + ", which this program cannot read: " + u.Unreadable.Error(), "apply a corrected profile"}
	}
	for _, ref := range secretRefs(u.Profile) {
		switch secret, err := d.secrets.Lookup(ref); {
		case err == nil && u.Profile.Auth.Unfit(ref, secret) != "":
			f.Status, f.Detail = statusWarn, fmt.Sprintf("secret %s %s, as seen from here", ref, u.Profile.Auth.Unfit(ref, secret))
			f.Fix = "correct it; commands wait for that until their deadline"
		case err != nil:
			f.Status, f.Detail = statusWarn, fmt.Sprintf("secret %s is missing, as seen from here", ref)
			f.Fix = "make it available to every process; without it commands wait until their deadline, or notices cannot be verified"
		}
	}
	switch {
	case u.PausedAt != nil:
		f.Status, f.Detail = statusWarn, "paused by "+u.PausedBy+" since "+stamp(*u.PausedAt)+": "+u.PausedReason
		f.Fix = `"executor profiles resume ` + u.Name + `" when its trouble is over; deadlines run on`
	case u.ThrottledUntil != nil && u.ThrottledUntil.After(time.Now()):
		f.Status, f.Detail = statusWarn, "asked to be left alone until "+stamp(*u.ThrottledUntil)
		f.Fix = "nothing; lower the profile's rate if it comes often"
	}
	return f
}

// secretRefs are the references that a profile needs at every attempt.
func secretRefs(p *upstreams.Profile) []string {
	a, t := p.Auth, p.TLS
	var refs []string
	named := []string{a.Token, a.Username, a.Password, a.Value, a.ClientID, a.ClientSecret, t.CAFile, t.CertFile, t.KeyFile}
	if p.Notices != nil {
		named = append(named, p.Notices.Signature.Secrets...)
	}
	for _, ref := range named {
		if strings.HasPrefix(ref, "env:") || strings.HasPrefix(ref, "file:") {
			refs = append(refs, ref)
		}
	}
	return refs
}

// dueWarn is how late a due command may be before it is worth a warning.
const dueWarn = time.Minute

func (d *doctor) backlog(ctx context.Context) ([]finding, error) {
	a, err := readAges(ctx, d.pool)
	if err != nil {
		return nil, err
	}
	if a.OldestDue > dueWarn {
		return []finding{{"backlog", statusWarn, "a command has been due for " + age(a.OldestDue), "see what it waits for: executor list --state pending"}}, nil
	}
	return []finding{{"backlog", statusOK, "nothing has been due for long", ""}}, nil
}

// files looks among the commands that are due next for those that wait for a file of
// their body.
func (d *doctor) files(ctx context.Context) ([]finding, error) {
	var waiting int
	err := d.pool.QueryRow(ctx, `
		SELECT count(*) FILTER (WHERE wait_for = $1) FROM (
			SELECT wait_for FROM commands WHERE next_attempt_at IS NOT NULL ORDER BY next_attempt_at LIMIT 10000) next`, commands.WaitFile).Scan(&waiting)
	if err != nil || waiting == 0 {
		return nil, err
	}
	return []finding{{"files", statusWarn, fmt.Sprintf("commands that wait for a file of their body: %d", waiting),
		"mount the volume under EXECUTOR_BODY_DIR, or let the workers read it; their log names the files; deadlines run on"}}, nil
}
