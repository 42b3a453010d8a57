package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"executor/internal/apikeys"
	"executor/internal/audit"
)

// defaultTenant is the tenant of profiles and keys that name none.
const defaultTenant = "default"

func newKeysCommand() *cobra.Command {
	return group("keys", "Make and revoke API keys, on the database itself",
		newKeysCreateCommand(), newKeysListCommand(), newKeysRevokeCommand())
}

// keysFlags are those that every command on keys has.
type keysFlags struct {
	databaseFlags
	tenant string
}

func (f *keysFlags) add(cmd *cobra.Command) {
	f.databaseFlags.add(cmd)
	cmd.Flags().StringVar(&f.tenant, "tenant", defaultTenant, "the tenant whose commands the key sees")
}

// with opens the store for one use.
func (f *keysFlags) with(ctx context.Context, use func(*apikeys.Store) error) error {
	pool, err := openMigrated(ctx, f.config)
	if err != nil {
		return err
	}
	defer pool.Close()
	store := apikeys.NewStore(pool, slog.New(slog.DiscardHandler))
	defer store.Close()
	return use(store)
}

// keyView is a key as JSON shows it.
type keyView struct {
	ID         string     `json:"id"`
	Name       string     `json:"name"`
	Tenant     string     `json:"tenant"`
	Scopes     []string   `json:"scopes"`
	Prefix     string     `json:"prefix"`
	CreatedAt  time.Time  `json:"created_at"`
	LastUsedAt *time.Time `json:"last_used_at"`
	RevokedAt  *time.Time `json:"revoked_at"`
}

func newKeyView(k apikeys.Key) keyView {
	return keyView{k.ID.String(), k.Name, k.Tenant, k.Scopes, k.Prefix, k.CreatedAt, k.LastUsedAt, k.RevokedAt}
}

// createdKey is the only answer that ever holds a key's secret.
type createdKey struct {
	ID     string   `json:"id"`
	Name   string   `json:"name"`
	Tenant string   `json:"tenant"`
	Scopes []string `json:"scopes"`
	Key    string   `json:"key"`
}

func newKeysCreateCommand() *cobra.Command {
	var f keysFlags
	var name, reason string
	var scopes []string
	cmd := &cobra.Command{
		Use:   "create --name NAME --scopes SCOPE,…",
		Short: "Make an API key; it is shown this once",
		Long: `Create makes an API key and prints it. Only its hash is stored: it cannot be shown
again. Scopes: ` + scopeNames() + `; admin includes the others.`,
		Example: `  executor keys create --name billing --scopes commands:write,commands:read
  EXECUTOR_API_KEY=$(executor keys create --name me --scopes admin --output json | jq -r .key)`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if name == "" || len(scopes) == 0 {
				return usage(errors.New("--name and --scopes are needed, for instance --name billing --scopes commands:write,commands:read"))
			}
			for _, scope := range scopes {
				if !slices.Contains(scopeList(), scope) {
					return usage(fmt.Errorf("unknown scope %q: there are %s", scope, scopeNames()))
				}
			}
			return f.with(cmd.Context(), func(store *apikeys.Store) error {
				key, secret, err := store.Create(cmd.Context(), f.tenant, name, scopes, audit.By{Actor: actor(), Reason: reason})
				if err != nil {
					return err
				}
				return printCreatedKey(cmd, f.out, createdKey{key.ID.String(), key.Name, key.Tenant, key.Scopes, secret})
			})
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&name, "name", "", "who uses it; appears as the actor of what is done with it")
	addReason(cmd, &reason)
	cmd.Flags().StringSliceVar(&scopes, "scopes", nil, "what it may do: "+scopeNames())
	_ = cmd.RegisterFlagCompletionFunc("scopes", cobra.FixedCompletions(scopeList(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func printCreatedKey(cmd *cobra.Command, out format, k createdKey) error {
	if out == formatJSON {
		return writeJSON(cmd.OutOrStdout(), k)
	}
	t := newTable(cmd.OutOrStdout())
	t.row("id", k.ID)
	t.row("name", k.Name)
	t.row("tenant", k.Tenant)
	t.row("scopes", strings.Join(k.Scopes, ","))
	t.row("key", k.Key)
	if err := t.flush(); err != nil {
		return err
	}
	cmd.PrintErrln("Keep the key now: it is not stored and cannot be shown again.")
	return nil
}

func newKeysListCommand() *cobra.Command {
	var f keysFlags
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List a tenant's API keys",
		Example: "  executor keys list\n  executor keys list --tenant acme --output json",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.with(cmd.Context(), func(store *apikeys.Store) error {
				keys, err := store.List(cmd.Context(), f.tenant)
				if err != nil {
					return err
				}
				return printKeys(cmd, f.out, keys)
			})
		},
	}
	f.add(cmd)
	return cmd
}

func printKeys(cmd *cobra.Command, out format, keys []apikeys.Key) error {
	if out == formatJSON {
		views := make([]keyView, len(keys))
		for i, k := range keys {
			views[i] = newKeyView(k)
		}
		return writeJSON(cmd.OutOrStdout(), map[string]any{"data": views, "next_cursor": nil})
	}
	t := newTable(cmd.OutOrStdout(), "ID", "NAME", "PREFIX", "SCOPES", "CREATED", "LAST USED", "REVOKED")
	for _, k := range keys {
		t.row(k.ID, k.Name, k.Prefix, strings.Join(k.Scopes, ","), stamp(k.CreatedAt), stampOrNone(k.LastUsedAt), stampOrNone(k.RevokedAt))
	}
	return t.flush()
}

func newKeysRevokeCommand() *cobra.Command {
	var f keysFlags
	var reason string
	cmd := &cobra.Command{
		Use:     "revoke ID|NAME|PREFIX",
		Short:   "End an API key; within seconds no process takes it any more",
		Example: `  executor keys revoke billing --reason "it leaked"`,
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			return f.with(cmd.Context(), func(store *apikeys.Store) error {
				key, err := store.Revoke(cmd.Context(), f.tenant, given[0], audit.By{Actor: actor(), Reason: reason})
				if errors.Is(err, apikeys.ErrUnknown) {
					return &exitError{code: exitNotFound, err: err}
				}
				if err != nil {
					return err
				}
				return printKeys(cmd, f.out, []apikeys.Key{key})
			})
		},
	}
	f.add(cmd)
	addReason(cmd, &reason)
	return cmd
}

// addReason is for what may be done without one.
func addReason(cmd *cobra.Command, reason *string) {
	cmd.Flags().StringVar(reason, "reason", "", "why; kept in the audit with your name, or that of the API key")
}

func scopeList() []string {
	var names []string
	for _, scope := range apikeys.Scopes() {
		names = append(names, string(scope))
	}
	return names
}

func scopeNames() string { return strings.Join(scopeList(), ", ") }
