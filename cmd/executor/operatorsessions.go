package main

import (
	"time"

	"github.com/spf13/cobra"

	"executor/internal/operators"
)

// sessionView is a session as JSON shows it.
type sessionView struct {
	ID         string    `json:"id"`
	CreatedAt  time.Time `json:"created_at"`
	LastSeenAt time.Time `json:"last_seen_at"`
	Address    string    `json:"address"`
	UserAgent  string    `json:"user_agent"`
	ExpiresAt  time.Time `json:"expires_at"`
}

func newOperatorsSessionsCommand() *cobra.Command {
	var f operatorsFlags
	var revoke bool
	cmd := &cobra.Command{
		Use:   "sessions NAME",
		Short: "List where an operator is signed in, or sign them out everywhere",
		Long: `Sessions lists where an operator is signed in. With --revoke it ends all of that, and
their links, and lists what is left.`,
		Example: "  executor operators sessions ann\n  executor operators sessions ann --revoke --reason \"lost laptop\"",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			return f.withNamed(cmd.Context(), given[0], func(store *operators.Store, sessions *operators.Sessions, o operators.Operator) error {
				if revoke {
					if _, err := store.EndSessions(cmd.Context(), f.by(), o.ID); err != nil {
						return err
					}
				}
				list, err := sessions.List(cmd.Context(), o.ID)
				if err != nil {
					return err
				}
				return printSessions(cmd, f.out, list)
			})
		},
	}
	f.add(cmd)
	addReason(cmd, &f.reason)
	cmd.Flags().BoolVar(&revoke, "revoke", false, "sign them out everywhere")
	return cmd
}

func printSessions(cmd *cobra.Command, out format, list []operators.Session) error {
	if out == formatJSON {
		views := make([]sessionView, len(list))
		for i, s := range list {
			views[i] = sessionView{s.ID.String(), s.CreatedAt, s.LastSeenAt, s.Address, s.UserAgent, s.ExpiresAt}
		}
		return writeJSON(cmd.OutOrStdout(), map[string]any{"data": views, "next_cursor": nil})
	}
	t := newTable(cmd.OutOrStdout(), "ID", "SIGNED IN", "LAST SEEN", "EXPIRES", "ADDRESS", "BROWSER")
	for _, s := range list {
		t.row(s.ID, stamp(s.CreatedAt), stamp(s.LastSeenAt), stamp(s.ExpiresAt), s.Address, s.UserAgent)
	}
	return t.flush()
}
