package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"executor/internal/audit"
)

// verifyFlags say which record is checked, where, and against what.
type verifyFlags struct {
	clientFlags
	config Config
	tenant string
	head   string
}

func newAuditVerifyCommand() *cobra.Command {
	f := verifyFlags{config: defaultConfig()}
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that the record of what people did is as it was written",
		Long: `Verify checks every entry of the record against its own hash and against the entry before
it. With EXECUTOR_DATABASE_URL or --database-url it reads the database itself, every
tenant's record: whoever doubts the record may not trust the service either. Otherwise the
service checks the record of the key's tenant (scope admin).

Whoever can write to the database can also write the whole record anew. Against that helps
to note the head, which verify prints, where they have no access: --head checks that the
entry noted still stands where it stood.

It ends with 1 and names the first bad entry if the record does not hold.`,
		Example: `  executor audit verify
  executor audit verify --database-url postgres://executor@db.example/executor
  executor audit verify --head 1204:5f0c7a529f5e4f0e9d3b0d6a5c1f2b3d5f0c7a529f5e4f0e9d3b0d6a5c1f2b3d`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.head != "" {
				if _, err := audit.ParsePin("", f.head); err != nil {
					return usage(err)
				}
			}
			chains, err := f.verify(cmd.Context())
			if err != nil {
				return err
			}
			return f.print(cmd, chains)
		},
	}
	f.clientFlags.add(cmd)
	f.config.addDatabaseFlags(cmd.Flags())
	cmd.Flags().StringVar(&f.tenant, "tenant", "", "on the database: only this tenant's record (default every tenant's; with --head, "+defaultTenant+")")
	cmd.Flags().StringVar(&f.head, "head", "", "an entry that was noted elsewhere, as number:hash")
	return cmd
}

// chainView is what was found of one tenant's record.
type chainView struct {
	Tenant  string     `json:"tenant,omitempty"` // empty: the API key's
	Sound   bool       `json:"sound"`
	Entries int64      `json:"entries"` // that hold, from the first on
	Head    string     `json:"head"`    // to note for the next time; empty for an empty record
	Problem *faultView `json:"problem"`
}

// faultView is the first bad entry.
type faultView struct {
	Number int64  `json:"number"`
	Kind   string `json:"kind"`
	Detail string `json:"detail"`
}

func (f *verifyFlags) verify(ctx context.Context) ([]chainView, error) {
	if f.config.DatabaseURL != "" {
		return f.verifyDatabase(ctx)
	}
	if f.tenant != "" {
		return nil, usage(errors.New("--tenant goes with --database-url: over the API it is the tenant of your key"))
	}
	return f.askService(ctx)
}

// verifyDatabase reads the record itself.
func (f *verifyFlags) verifyDatabase(ctx context.Context) ([]chainView, error) {
	pool, err := openMigrated(ctx, f.config)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	var pins []audit.Pin
	tenant := f.tenant
	if f.head != "" {
		if tenant == "" {
			tenant = defaultTenant
		}
		pin, err := audit.ParsePin(tenant, f.head)
		if err != nil {
			return nil, usage(err)
		}
		pins = append(pins, pin)
	}
	report, err := audit.Verify(ctx, pool, f.tenant, pins...)
	if err != nil {
		return nil, err
	}
	list := []chainView{}
	for _, c := range report.Chains {
		list = append(list, newChainView(c))
	}
	return list, nil
}

func newChainView(c audit.Chain) chainView {
	v := chainView{Tenant: c.Tenant, Sound: c.Problem == nil, Entries: c.Entries}
	if c.Head.Number > 0 {
		v.Head = c.Head.String()
	}
	if p := c.Problem; p != nil {
		v.Problem = &faultView{p.Number, string(p.Kind), p.Detail}
	}
	return v
}

// askService has the service check its own record.
func (f *verifyFlags) askService(ctx context.Context) ([]chainView, error) {
	c, err := f.connect()
	if err != nil {
		return nil, err
	}
	found, err := c.VerifyAudit(ctx, strings.ToLower(strings.TrimSpace(f.head)))
	if err != nil {
		return nil, err
	}
	v := chainView{Sound: found.Sound, Entries: found.Entries, Head: found.Head}
	if p := found.Problem; p != nil {
		v.Problem = &faultView{p.Number, p.Kind, p.Detail}
	}
	return []chainView{v}, nil
}

// print shows what was found; a record that does not hold is an error.
func (f *verifyFlags) print(cmd *cobra.Command, chains []chainView) error {
	if f.out == formatJSON {
		if err := writeJSON(cmd.OutOrStdout(), map[string]any{"data": chains}); err != nil {
			return err
		}
	} else if err := printChains(cmd, chains); err != nil {
		return err
	}
	if f.config.DatabaseURL == "" {
		cmd.PrintErrln("This is what the service says of its own record; --database-url reads the record itself.")
	}
	var faults []error
	for _, c := range chains {
		if !c.Sound {
			faults = append(faults, errors.New(c.faultText()))
		}
	}
	if len(faults) > 0 {
		return &exitError{code: exitFailure, err: errors.Join(faults...)}
	}
	return nil
}

func printChains(cmd *cobra.Command, chains []chainView) error {
	t := newTable(cmd.OutOrStdout(), "TENANT", "HOLDS", "ENTRIES", "HEAD")
	for _, c := range chains {
		t.row(c.Tenant, yes(c.Sound), c.Entries, c.Head)
	}
	return t.flush()
}

func (c chainView) faultText() string {
	text := "the record does not hold"
	if c.Tenant != "" {
		text = fmt.Sprintf("the record of tenant %s does not hold", c.Tenant)
	}
	if c.Problem == nil {
		return text
	}
	return fmt.Sprintf("%s: entry %d: %s", text, c.Problem.Number, c.Problem.Detail)
}
