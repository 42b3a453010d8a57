package main

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"executor/internal/operators"
)

func newOperatorsCommand() *cobra.Command {
	return group("operators", "Say who may sign in to the dashboard, on the database itself",
		newOperatorsAddCommand(), newOperatorsListCommand(), newOperatorsRoleCommand(),
		newOperatorsDisableCommand(), newOperatorsEnableCommand(),
		newOperatorsPasswordCommand(), newOperatorsLinkCommand(), newOperatorsSessionsCommand())
}

// operatorsFlags are those that every command on operators has.
type operatorsFlags struct {
	databaseFlags
	reason string
}

// with opens the stores for one use.
func (f *operatorsFlags) with(ctx context.Context, use func(*operators.Store, *operators.Sessions) error) error {
	pool, err := openMigrated(ctx, f.config)
	if err != nil {
		return err
	}
	defer pool.Close()
	store, err := operators.NewStore(operators.Config{Pool: pool})
	if err != nil {
		return err
	}
	return operatorsError(use(store, operators.NewSessions(pool)))
}

// withNamed is with for what is done to one operator.
func (f *operatorsFlags) withNamed(ctx context.Context, name string, use func(*operators.Store, *operators.Sessions, operators.Operator) error) error {
	return f.with(ctx, func(store *operators.Store, sessions *operators.Sessions) error {
		o, err := store.ByName(ctx, name)
		if err != nil {
			return err
		}
		return use(store, sessions, o)
	})
}

// by is whoever has the database and types this.
func (f *operatorsFlags) by() operators.By { return operators.By{Actor: actor(), Reason: f.reason} }

// operatorsError gives errors the exit codes that they have elsewhere.
func operatorsError(err error) error {
	var wrong *operators.Invalid
	switch {
	case errors.As(err, &wrong):
		return usage(err)
	case errors.Is(err, operators.ErrUnknown):
		return &exitError{code: exitNotFound, err: err}
	default:
		return err
	}
}

// operatorView is an operator as JSON shows them.
type operatorView struct {
	ID         string            `json:"id"`
	Name       string            `json:"name"`
	Roles      []operators.Grant `json:"roles"`
	Password   bool              `json:"has_password"`
	CreatedAt  time.Time         `json:"created_at"`
	DisabledAt *time.Time        `json:"disabled_at"`
}

func newOperatorView(o operators.Operator) operatorView {
	return operatorView{o.ID.String(), o.Name, o.Roles, o.HasPassword, o.CreatedAt, o.DisabledAt}
}

// roleText lists an operator's roles.
func roleText(o operators.Operator) string {
	text := ""
	for i, g := range o.Roles {
		if i > 0 {
			text += ","
		}
		text += g.Tenant + ":" + string(g.Role)
	}
	return text
}

func newOperatorsListCommand() *cobra.Command {
	var f operatorsFlags
	var tenant string
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List who has a role in a tenant",
		Example: "  executor operators list\n  executor operators list --tenant acme --output json",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.with(cmd.Context(), func(store *operators.Store, _ *operators.Sessions) error {
				list, err := store.List(cmd.Context(), tenant)
				if err != nil {
					return err
				}
				return printOperators(cmd, f.out, list)
			})
		},
	}
	f.add(cmd)
	addTenant(cmd, &tenant)
	return cmd
}

func addTenant(cmd *cobra.Command, tenant *string) {
	cmd.Flags().StringVar(tenant, "tenant", defaultTenant, "the tenant that the role is in")
}

func printOperators(cmd *cobra.Command, out format, list []operators.Operator) error {
	if out == formatJSON {
		views := make([]operatorView, len(list))
		for i, o := range list {
			views[i] = newOperatorView(o)
		}
		return writeJSON(cmd.OutOrStdout(), map[string]any{"data": views, "next_cursor": nil})
	}
	t := newTable(cmd.OutOrStdout(), "NAME", "ROLES", "PASSWORD", "CREATED", "DISABLED")
	for _, o := range list {
		password := "none"
		if o.HasPassword {
			password = "set"
		}
		t.row(o.Name, roleText(o), password, stamp(o.CreatedAt), stampOrNone(o.DisabledAt))
	}
	return t.flush()
}

func newOperatorsRoleCommand() *cobra.Command {
	var f operatorsFlags
	var tenant string
	cmd := &cobra.Command{
		Use:   "role NAME viewer|operator|admin|none",
		Short: "Change what an operator may do in a tenant; it takes effect at once",
		Long: `Role gives an operator a role in a tenant, in place of the one they have there, or takes
it. A viewer reads; an operator also acts on commands, reports, deliveries and upstreams;
an admin also changes webhooks, keys, operators and profiles, freezes and resumes. A
tenant that has an admin keeps one.`,
		Example: "  executor operators role ann admin\n  executor operators role bob none --tenant acme --reason \"left the team\"",
		Args:    args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, given []string) error {
			role, err := operators.ParseRole(given[1])
			if err != nil && given[1] != "none" {
				return usage(err)
			}
			return f.withNamed(cmd.Context(), given[0], func(store *operators.Store, _ *operators.Sessions, o operators.Operator) error {
				if role == "" {
					o, err = store.RemoveRole(cmd.Context(), f.by(), o.ID, tenant)
				} else {
					o, err = store.SetRole(cmd.Context(), f.by(), o.ID, tenant, role)
				}
				if err != nil {
					return err
				}
				return printOperators(cmd, f.out, []operators.Operator{o})
			})
		},
	}
	f.add(cmd)
	addTenant(cmd, &tenant)
	addReason(cmd, &f.reason)
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return cmd
}

func newOperatorsDisableCommand() *cobra.Command {
	return newOperatorsSwitchCommand("disable", "Keep an operator out, and end their sessions; it takes effect at once", (*operators.Store).Disable)
}

func newOperatorsEnableCommand() *cobra.Command {
	return newOperatorsSwitchCommand("enable", "Let a disabled operator sign in again", (*operators.Store).Enable)
}

// operatorSwitch is Store.Disable or Store.Enable.
type operatorSwitch func(*operators.Store, context.Context, operators.By, uuid.UUID) (operators.Operator, error)

func newOperatorsSwitchCommand(verb, short string, do operatorSwitch) *cobra.Command {
	var f operatorsFlags
	cmd := &cobra.Command{
		Use:     verb + " NAME",
		Short:   short,
		Example: "  executor operators " + verb + " bob",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			return f.withNamed(cmd.Context(), given[0], func(store *operators.Store, _ *operators.Sessions, o operators.Operator) error {
				o, err := do(store, cmd.Context(), f.by(), o.ID)
				if err != nil {
					return err
				}
				return printOperators(cmd, f.out, []operators.Operator{o})
			})
		},
	}
	f.add(cmd)
	addReason(cmd, &f.reason)
	return cmd
}
