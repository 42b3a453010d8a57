package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"executor/client"
	"executor/upstreams"
)

func newProfilesCommand() *cobra.Command {
	return group("profiles", "Validate, explain and apply upstream profiles; pause upstreams",
		newProfilesValidateCommand(), newProfilesExplainCommand(), newProfilesApplyCommand(), newProfilesListCommand(),
		newProfilesPauseCommand(), newProfilesResumeCommand())
}

// parseFile reads one profile. What is wrong with it is said with line and
// column; what is doubtful goes to stderr, with the code that the manual has.
func parseFile(cmd *cobra.Command, path string) (*upstreams.Profile, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, usage(err)
	}
	profile, err := upstreams.Parse(path, source)
	if err != nil {
		return nil, err
	}
	for _, w := range profile.Warnings {
		cmd.PrintErrf("warning %s  %s:%s\n", w.Code, path, w)
	}
	return profile, nil
}

// validated is the verdict on one file as JSON shows it.
type validated struct {
	File     string              `json:"file"`
	Valid    bool                `json:"valid"`
	Upstream string              `json:"upstream,omitempty"`
	Error    string              `json:"error,omitempty"`
	Warnings []upstreams.Warning `json:"warnings"`
}

func newProfilesValidateCommand() *cobra.Command {
	var out format
	cmd := &cobra.Command{
		Use:   "validate FILE…",
		Short: "Check profiles, without a server",
		Long: `Validate checks profiles as applying them would: their form, every expression, and whether
the contract is honest and complete. Errors and warnings have file, line and column, and
a warning the code under which the manual of profiles says what to do.
It ends with 1 if a profile does not hold; warnings pass.`,
		Example: "  executor profiles validate examples/ledger.yaml",
		Args:    args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, files []string) error {
			results, err := validateFiles(cmd, files)
			if exitCode(err) == exitUsage {
				return err
			}
			if out == formatJSON {
				return errors.Join(writeJSON(cmd.OutOrStdout(), results), err)
			}
			t := newTable(cmd.OutOrStdout(), "FILE", "UPSTREAM", "VALID", "WARNINGS")
			for _, r := range results {
				t.row(r.File, r.Upstream, yes(r.Valid), len(r.Warnings))
			}
			return errors.Join(t.flush(), err)
		},
	}
	addOutput(cmd, &out)
	return cmd
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// validateFiles judges every file; the error is about those that do not hold.
func validateFiles(cmd *cobra.Command, files []string) ([]validated, error) {
	var results []validated
	var errs []error
	for _, file := range files {
		r := validated{File: file, Warnings: []upstreams.Warning{}}
		profile, err := parseFile(cmd, file)
		if exitCode(err) == exitUsage {
			return nil, err // there is no such file
		}
		if err != nil {
			r.Error = err.Error()
			errs = append(errs, err)
		} else {
			r.Valid, r.Upstream = true, profile.Upstream
			r.Warnings = append(r.Warnings, profile.Warnings...)
		}
		results = append(results, r)
	}
	return results, errors.Join(errs...)
}

func newProfilesExplainCommand() *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use:   "explain FILE|NAME",
		Short: "Show what each kind of failure would end in",
		Long: `Explain prints, for each operation, what would happen after every kind of failure: what is
decided, and how a command ends if it goes on like that. A file is read here, without a
server; a name is an upstream of the server.`,
		Example: "  executor profiles explain examples/ledger.yaml\n  executor profiles explain ledger --output json",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			if isFile(given[0]) {
				return explainFile(cmd, f.out, given[0])
			}
			c, err := f.connect()
			if err != nil {
				return err
			}
			return explainName(cmd, c, f.out, given[0])
		},
	}
	f.add(cmd)
	return cmd
}

// isFile tells a file from an upstream's name, which has neither dot nor slash.
func isFile(s string) bool {
	if strings.ContainsAny(s, `./\`) {
		return true
	}
	info, err := os.Stat(s)
	return err == nil && !info.IsDir()
}

func explainFile(cmd *cobra.Command, out format, path string) error {
	profile, err := parseFile(cmd, path)
	if err != nil {
		return err
	}
	if out == formatJSON {
		return writeJSON(cmd.OutOrStdout(), profile.Explain())
	}
	_, err = profile.Explain().WriteTo(cmd.OutOrStdout())
	return err
}

func explainName(cmd *cobra.Command, c *client.Client, out format, name string) error {
	if out == formatJSON {
		document, err := c.ExplainJSON(cmd.Context(), name)
		if err != nil {
			return err
		}
		return writeJSON(cmd.OutOrStdout(), document)
	}
	text, err := c.Explain(cmd.Context(), name)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(cmd.OutOrStdout(), plainLines(text))
	return err
}

func newProfilesApplyCommand() *cobra.Command {
	var f clientFlags
	var reason string
	cmd := &cobra.Command{
		Use:   "apply FILE…",
		Short: "Apply profiles to the server (scope admin)",
		Long: `Apply makes each profile the newest version of its upstream. Commands keep the version
they were accepted under. The same text again makes no new version. All files are
checked before the first is applied.`,
		Example: "  executor profiles apply examples/ledger.yaml",
		Args:    args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, files []string) error {
			profiles, err := parseFiles(cmd, files)
			if err != nil {
				return err
			}
			c, err := f.connect()
			if err != nil {
				return err
			}
			applied, err := applyAll(cmd.Context(), c, files, profiles, reason)
			return errors.Join(printApplied(cmd, f.out, applied), err)
		},
	}
	f.add(cmd)
	addReason(cmd, &reason)
	return cmd
}

func parseFiles(cmd *cobra.Command, files []string) ([]*upstreams.Profile, error) {
	var profiles []*upstreams.Profile
	var errs []error
	for _, file := range files {
		profile, err := parseFile(cmd, file)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		profiles = append(profiles, profile)
	}
	return profiles, errors.Join(errs...)
}

// applyAll stops at the first that is refused; what it returns was applied.
func applyAll(ctx context.Context, c *client.Client, files []string, profiles []*upstreams.Profile, reason string) ([]client.Upstream, error) {
	var applied []client.Upstream
	for i, p := range profiles {
		u, err := c.PutUpstream(ctx, p.Upstream, p.Source, reason)
		if err != nil {
			return applied, fmt.Errorf("apply %s: %w", files[i], err)
		}
		applied = append(applied, u)
	}
	return applied, nil
}

func printApplied(cmd *cobra.Command, out format, applied []client.Upstream) error {
	if out == formatJSON {
		return writeJSON(cmd.OutOrStdout(), map[string]any{"data": applied})
	}
	if len(applied) == 0 {
		return nil
	}
	t := newTable(cmd.OutOrStdout(), "UPSTREAM", "VERSION", "CHANGED")
	for _, u := range applied {
		t.row(u.Name, u.Version, yes(u.Changed))
	}
	return t.flush()
}

func newProfilesListCommand() *cobra.Command {
	var f clientFlags
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the upstreams of the server",
		Example: "  executor profiles list",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.connect()
			if err != nil {
				return err
			}
			list, err := c.Upstreams(cmd.Context())
			if err != nil {
				return err
			}
			return printUpstreams(cmd, f.out, list)
		},
	}
	f.add(cmd)
	return cmd
}

func printUpstreams(cmd *cobra.Command, out format, list []client.Upstream) error {
	if out == formatJSON {
		return writeJSON(cmd.OutOrStdout(), map[string]any{"data": list})
	}
	t := newTable(cmd.OutOrStdout(), "UPSTREAM", "VERSION", "BASE URL", "OPERATIONS", "SENDING")
	for _, u := range list {
		t.row(u.Name, u.Version, u.BaseURL, strings.Join(u.Operations, ","), sendingText(u))
	}
	return t.flush()
}

func sendingText(u client.Upstream) string {
	switch {
	case u.Paused != nil:
		return "paused by " + u.Paused.By + ": " + u.Paused.Reason
	case u.ThrottledUntil != nil:
		return "throttled until " + stamp(*u.ThrottledUntil)
	default:
		return "on"
	}
}
