package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"executor/webhooks"
)

func newSecretsCommand() *cobra.Command {
	return group("secrets", "Look after what the database keeps sealed, on the database itself",
		newSecretsListCommand(), newSecretsRotateCommand(), newSecretsForgetCommand())
}

// secretsFlags are those that every command on sealed secrets has.
type secretsFlags struct{ databaseFlags }

func (f *secretsFlags) add(cmd *cobra.Command) {
	f.databaseFlags.add(cmd)
	f.config.addEncryptionFlag(cmd.Flags())
}

// with opens the store for one use, with the keys that are configured.
func (f *secretsFlags) with(ctx context.Context, use func(*webhooks.Store) error) error {
	box, err := f.config.box()
	if err != nil {
		return usage(fmt.Errorf("EXECUTOR_ENCRYPTION_KEY: %w", err))
	}
	pool, err := openMigrated(ctx, f.config)
	if err != nil {
		return err
	}
	defer pool.Close()
	store := webhooks.NewStore(webhooks.Config{Pool: pool, Box: box})
	defer store.Close()
	return use(store)
}

// sealedView is what is sealed under one key.
type sealedView struct {
	Key   string `json:"key"` // a name that tells nothing about it
	Count int    `json:"count"`
	State string `json:"state"` // current, older, missing
}

func sealedViews(list []webhooks.SealedUnder) []sealedView {
	views := []sealedView{}
	for _, u := range list {
		v := sealedView{u.Key, u.Count, "missing"}
		switch {
		case u.Current:
			v.State = "current"
		case u.Known:
			v.State = "older"
		}
		views = append(views, v)
	}
	return views
}

func newSecretsListCommand() *cobra.Command {
	var f secretsFlags
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "Show how many secrets are sealed under which key",
		Long:    "List counts the secrets of webhooks by the key that seals them. It shows no secret and no key.",
		Example: "  EXECUTOR_ENCRYPTION_KEY=$NEW,$OLD executor secrets list",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.with(cmd.Context(), func(store *webhooks.Store) error {
				list, err := store.Sealed(cmd.Context())
				if err != nil {
					return err
				}
				return printSealed(cmd, f.out, sealedViews(list))
			})
		},
	}
	f.add(cmd)
	return cmd
}

func printSealed(cmd *cobra.Command, out format, views []sealedView) error {
	if out == formatJSON {
		return writeJSON(cmd.OutOrStdout(), map[string]any{"data": views})
	}
	t := newTable(cmd.OutOrStdout(), "KEY", "SECRETS", "STATE")
	for _, v := range views {
		t.row(v.Key, v.Count, v.State)
	}
	return t.flush()
}

func newSecretsRotateCommand() *cobra.Command {
	var f secretsFlags
	cmd := &cobra.Command{
		Use:   "rotate",
		Short: "Seal everything anew under the current key",
		Long: `Rotate seals anew what is sealed under an older key, so that the older key can go. Workers
do the same by themselves within a minute; this does it now and says what came of it.

Every process has to have the new key before: a process without it can no longer sign.
It may be broken off and run again, and by two at once.`,
		Example: "  EXECUTOR_ENCRYPTION_KEY=$NEW,$OLD executor secrets rotate",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.with(cmd.Context(), func(store *webhooks.Store) error {
				done, err := store.Reseal(cmd.Context())
				if err != nil {
					return err
				}
				return printResealed(cmd, f.out, done)
			})
		},
	}
	f.add(cmd)
	return cmd
}

func printResealed(cmd *cobra.Command, out format, done webhooks.Resealed) error {
	var err error
	if out == formatJSON {
		err = writeJSON(cmd.OutOrStdout(), map[string]any{"sealed_anew": done.Moved, "unreadable": done.Unreadable})
	} else {
		t := newTable(cmd.OutOrStdout())
		t.row("sealed anew", done.Moved)
		t.row("unreadable", done.Unreadable)
		err = t.flush()
	}
	if err == nil && done.Unreadable > 0 {
		err = errors.New(`not all of them can be read: "executor secrets list" says under which key they are`)
	}
	return err
}

func newSecretsForgetCommand() *cobra.Command {
	var f secretsFlags
	var reason string
	cmd := &cobra.Command{
		Use:   "forget --reason TEXT",
		Short: "Delete the secrets that no configured key opens",
		Long: `Forget deletes the secrets whose key is lost for good, so that processes start again. Their
webhooks wait until "executor webhooks rotate ID" gives each a new secret; nothing that
is due is lost. Each is on record in the audit of its tenant.`,
		Example: `  EXECUTOR_ENCRYPTION_KEY=$NEW executor secrets forget --reason "the old key is lost"`,
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if strings.TrimSpace(reason) == "" {
				return usage(errors.New("--reason is needed: it is kept and shown with your name"))
			}
			return f.with(cmd.Context(), func(store *webhooks.Store) error {
				count, err := store.ForgetUnreadable(cmd.Context(), actor(), reason)
				if err != nil {
					return err
				}
				if f.out == formatJSON {
					return writeJSON(cmd.OutOrStdout(), map[string]any{"forgotten": count})
				}
				t := newTable(cmd.OutOrStdout())
				t.row("forgotten", count)
				return t.flush()
			})
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "why; kept and shown with your name")
	return cmd
}
