package main

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"executor/internal/operators"
)

// admitFlags say how an operator comes in: with a password that is made here or read
// from stdin, or by a link that signs them in once.
type admitFlags struct {
	operatorsFlags
	fromStdin bool
	url       string
	validFor  time.Duration
}

func (f *admitFlags) addPassword(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.fromStdin, "password-stdin", false, "read the password from stdin, instead of making one")
}

func (f *admitFlags) addLink(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.url, "url", "http://127.0.0.1:8080", "where the dashboard is")
	fromEnv(cmd.Flags(), "url", "EXECUTOR_URL")
	cmd.Flags().DurationVar(&f.validFor, "valid-for", 24*time.Hour, "how long the link works, up to 168h")
}

// admitted is the only answer that ever holds a password or a link.
type admitted struct {
	ID        string     `json:"id"`
	Name      string     `json:"name"`
	Password  string     `json:"password,omitempty"` // one that was made here
	Link      string     `json:"link,omitempty"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"` // of the link
}

func (f *admitFlags) print(cmd *cobra.Command, a admitted) error {
	if f.out == formatJSON {
		return writeJSON(cmd.OutOrStdout(), a)
	}
	t := newTable(cmd.OutOrStdout())
	t.row("id", a.ID)
	t.row("name", a.Name)
	note := ""
	if a.Password != "" {
		t.row("password", a.Password)
		note = "Keep the password now: only its hash is stored, and it cannot be shown again."
	}
	if a.Link != "" {
		t.row("link", a.Link)
		t.row("expires", stamp(*a.ExpiresAt))
		note = "The link signs in once. Whoever has it is " + a.Name + ": hand it over in confidence."
	}
	if err := t.flush(); err != nil {
		return err
	}
	if note != "" {
		cmd.PrintErrln(note)
	}
	return nil
}

// password reads one, or makes it; shown is what has to be printed.
func (f *admitFlags) password(in io.Reader) (password, shown string, err error) {
	if !f.fromStdin {
		password = operators.NewPassword()
		return password, password, nil
	}
	text, err := io.ReadAll(io.LimitReader(in, 2*operators.MaxPassword))
	if err != nil {
		return "", "", fmt.Errorf("read the password from stdin: %w", err)
	}
	password = strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	if strings.ContainsAny(password, "\r\n") {
		return "", "", usage(errors.New("the password on stdin has more than one line"))
	}
	if password == "" {
		return "", "", usage(errors.New("there is no password on stdin"))
	}
	return password, "", nil
}

// base checks where links lead.
func (f *admitFlags) base() (string, error) {
	u, err := url.Parse(f.url)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return "", usage(fmt.Errorf("%q is not a URL like https://executor.example.com", f.url))
	}
	return u.Scheme + "://" + u.Host + strings.TrimRight(u.Path, "/"), nil
}

// checkLink refuses what no link can be made with, before anything is done.
func (f *admitFlags) checkLink() error {
	if _, err := f.base(); err != nil {
		return err
	}
	if err := operators.CheckLink(f.validFor); err != nil {
		return usage(err)
	}
	return nil
}

// link makes a link for an operator and prints it.
func (f *admitFlags) link(cmd *cobra.Command, store *operators.Store, o operators.Operator) error {
	base, err := f.base()
	if err != nil {
		return err
	}
	token, err := store.CreateLink(cmd.Context(), f.by(), o.ID, f.validFor)
	if err != nil {
		return err
	}
	expires := time.Now().UTC().Add(f.validFor).Truncate(time.Second)
	return f.print(cmd, admitted{ID: o.ID.String(), Name: o.Name, Link: base + "/sign-in/link?token=" + url.QueryEscape(token), ExpiresAt: &expires})
}

func newOperatorsAddCommand() *cobra.Command {
	var f admitFlags
	var byLink bool
	n := operators.New{}
	cmd := &cobra.Command{
		Use:   "add NAME --role viewer|operator|admin",
		Short: "Let somebody sign in to the dashboard",
		Long: `Add makes an operator and prints the password that was made for them, or, with --link, a
link that signs them in once, so that they choose a password by themselves. Only hashes
are stored: neither can be shown again.

A viewer reads; an operator also acts on commands, reports, deliveries and upstreams; an
admin also changes webhooks, keys, operators and profiles, freezes and resumes.`,
		Example: `  executor operators add ann --role admin
  executor operators add bob@example.com --role operator --link --url https://executor.example.com
  pass show executor/eve | executor operators add eve --role viewer --tenant acme --password-stdin`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			n.Name = given[0]
			if n.Role == "" {
				return usage(errors.New("--role is needed: viewer, operator or admin"))
			}
			if byLink && f.fromStdin {
				return usage(errors.New("give one of --link and --password-stdin"))
			}
			return f.create(cmd, n, byLink)
		},
	}
	f.add(cmd)
	f.addPassword(cmd)
	f.addLink(cmd)
	addTenant(cmd, &n.Tenant)
	addReason(cmd, &f.reason)
	cmd.Flags().BoolVar(&byLink, "link", false, "make a link that signs in once, instead of a password")
	cmd.Flags().Var(&roleFlag{&n.Role}, "role", "what they may do in the tenant")
	_ = cmd.RegisterFlagCompletionFunc("role", cobra.FixedCompletions([]string{"viewer", "operator", "admin"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// create adds the operator and prints how they come in.
func (f *admitFlags) create(cmd *cobra.Command, n operators.New, byLink bool) error {
	shown, err := "", f.checkLink()
	if !byLink {
		n.Password, shown, err = f.password(cmd.InOrStdin())
	}
	if err != nil {
		return err
	}
	return f.with(cmd.Context(), func(store *operators.Store, _ *operators.Sessions) error {
		o, err := store.Create(cmd.Context(), f.by(), n)
		if err != nil {
			return err
		}
		if !byLink {
			return f.print(cmd, admitted{ID: o.ID.String(), Name: o.Name, Password: shown})
		}
		if err := f.link(cmd, store, o); err != nil {
			return fmt.Errorf("%w\n%s was added; \"executor operators link %s\" makes the link", err, o.Name, o.Name)
		}
		return nil
	})
}

// roleFlag is a role on the command line.
type roleFlag struct{ role *operators.Role }

func (f *roleFlag) String() string { return "" }
func (f *roleFlag) Type() string   { return "viewer|operator|admin" }

func (f *roleFlag) Set(s string) (err error) {
	*f.role, err = operators.ParseRole(s)
	return err
}

func newOperatorsPasswordCommand() *cobra.Command {
	var f admitFlags
	cmd := &cobra.Command{
		Use:   "password NAME",
		Short: "Give an operator another password, and end their sessions",
		Long: `Password makes another password and prints it, or reads it from stdin: 12 characters at
least, 256 bytes at most. All sessions and links of the operator end, and so does the
wait after failed sign-ins.`,
		Example: "  executor operators password ann\n  executor operators password ann --password-stdin < secret.txt",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			password, shown, err := f.password(cmd.InOrStdin())
			if err != nil {
				return err
			}
			return f.withNamed(cmd.Context(), given[0], func(store *operators.Store, _ *operators.Sessions, o operators.Operator) error {
				if o, err = store.SetPassword(cmd.Context(), f.by(), o.ID, password); err != nil {
					return err
				}
				return f.print(cmd, admitted{ID: o.ID.String(), Name: o.Name, Password: shown})
			})
		},
	}
	f.add(cmd)
	f.addPassword(cmd)
	addReason(cmd, &f.reason)
	return cmd
}

func newOperatorsLinkCommand() *cobra.Command {
	var f admitFlags
	cmd := &cobra.Command{
		Use:   "link NAME",
		Short: "Make a link that signs an operator in once",
		Long: `Link prints a link that signs an operator in once: an invitation, for somebody who forgot
their password, or while failed sign-ins make them wait. Another password, disabling them
and ending their sessions void it.`,
		Example: "  executor operators link ann --url https://executor.example.com --valid-for 1h",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			if err := f.checkLink(); err != nil {
				return err
			}
			return f.withNamed(cmd.Context(), given[0], func(store *operators.Store, _ *operators.Sessions, o operators.Operator) error {
				return f.link(cmd, store, o)
			})
		},
	}
	f.add(cmd)
	f.addLink(cmd)
	addReason(cmd, &f.reason)
	return cmd
}
