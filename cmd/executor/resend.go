package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"executor/client"
)

func newResendCommand() *cobra.Command {
	var f actionFlags
	var r client.Resending
	cmd := &cobra.Command{
		Use:   "resend ID --reason TEXT",
		Short: "Authorise one more attempt of an unresolved command (scope reviews:write)",
		Long: `Resend has a command sent once more, under the same key and with the same bytes. One
authorisation is one attempt.

Where a second arrival could do it twice, it is allowed only if nothing of the command
arrived: say so with --absent, and with --evidence where that can be seen.`,
		Example: `  executor resend 019a9c3e-7b1c-7d5e-9a55-0d6a5c1f2b3d --reason "their outage is over"
  executor resend 019a9c3e-7b1c-7d5e-9a55-0d6a5c1f2b3d --absent --evidence TICKET-7 --reason "their support found nothing"`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			if r.Absent && r.EvidenceReference == "" {
				return usage(errors.New("--absent needs --evidence: where can it be seen that nothing arrived?"))
			}
			if err := needReason(f.reason); err != nil {
				return err
			}
			r.Reason = f.reason
			return f.act(cmd, given[0], "Sending once more", func(ctx context.Context, c *client.Client, version int) (client.Command, error) {
				return c.Resend(ctx, given[0], version, r)
			})
		},
	}
	f.add(cmd)
	f.addReason(cmd)
	cmd.Flags().BoolVar(&r.Absent, "absent", false, "you found that nothing of it arrived")
	cmd.Flags().StringVar(&r.EvidenceReference, "evidence", "", "where that can be seen: a ticket, a statement")
	return cmd
}
