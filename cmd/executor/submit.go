package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"executor/client"
)

// submitFlags are what describes a command.
type submitFlags struct {
	clientFlags
	key                 string // of the command, not of the API
	upstream, operation string
	params, query       pairs
	header              headerPairs
	metadata            pairs
	body, bodyFile      string
	bodyRef, bodyKind   string
	parts               []string
	contentType         string
	timeout             time.Duration
	deadline, notBefore moment
	priority            string
	wait                time.Duration
	dryRun              bool
}

func newSubmitCommand() *cobra.Command {
	var f submitFlags
	cmd := &cobra.Command{
		Use:   "submit --upstream NAME --operation NAME",
		Short: "Submit a command",
		Long: `Submit has a command accepted: from then on it is durable and ends in exactly one final
state. With --wait it waits for that, and the exit code tells which: 0 success,
5 rejected, 6 unresolved, 7 cancelled, 8 still running when the wait ended.

A command belongs to its key for good. Submitting the same again under the same key is
safe and gives the command as it is now. Without --key one is made, and shown on stderr
before anything is sent.

A body that is JSON is sent byte for byte as given. Any other body needs --content-type.

--body-kind one_shot keeps the body in the memory of the process that accepts it: it is
sent once at most, and the command is cancelled should that process end before.
--body-ref names a file that the service reads at each attempt, below its folder for
bodies: PATH;from=FILE takes size and SHA-256 from a copy that is here, or give them as
PATH;size=BYTES;sha256=HEX. --part builds a multipart body: NAME=TEXT, NAME=@FILE or
NAME=ref:PATH;from=FILE, each with ;type=TYPE and ;filename=NAME behind it.`,
		Example: `  executor submit --upstream ledger --operation create_payment --param account=a1 --body '{"amount": 100}' --wait 30s
  executor submit --upstream ledger --operation create_payment --param account=a1 --body @payment.json --key order-42
  executor submit --upstream ledger --operation create_payment --param account=a1 --body - --dry-run < payment.json`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.addTo(cmd)
	return cmd
}

func (f *submitFlags) addTo(cmd *cobra.Command) {
	f.clientFlags.add(cmd)
	f.deadline.sign, f.notBefore.sign = 1, 1
	flags := cmd.Flags()
	flags.StringVar(&f.upstream, "upstream", "", "the upstream, as its profile names it")
	flags.StringVar(&f.operation, "operation", "", "the operation, as the profile names it")
	flags.StringVar(&f.key, "key", "", "the idempotency key; one of your own data survives a crash, such as an order number")
	flags.Var(&f.params, "param", "a parameter of the operation's path or query; repeatable")
	flags.Var(&f.query, "query", "a query parameter that the profile lets callers set; repeatable")
	flags.Var(&f.header, "header", "a header that the profile lets callers set, as name=value or 'Name: value'; repeatable")
	flags.Var(&f.metadata, "metadata", "a label of your own, to list by; repeatable")
	flags.StringVar(&f.body, "body", "", "the body; @FILE reads a file, - reads stdin")
	flags.StringVar(&f.bodyFile, "body-file", "", "a file that holds the body")
	flags.StringVar(&f.bodyRef, "body-ref", "", "a file of the service that is the body, PATH;from=FILE or PATH;size=BYTES;sha256=HEX")
	flags.StringArrayVar(&f.parts, "part", nil, "a part of a multipart body, NAME=TEXT, NAME=@FILE or NAME=ref:PATH;from=FILE; repeatable")
	flags.StringVar(&f.bodyKind, "body-kind", "", "replayable (default) or one_shot")
	flags.StringVar(&f.contentType, "content-type", "", "what a body is that is not JSON")
	flags.DurationVar(&f.timeout, "timeout", 0, "time until the deadline, for instance 15m")
	flags.Var(&f.deadline, "deadline", "no attempt starts after it: a time, or a duration from now")
	flags.Var(&f.notBefore, "not-before", "no attempt starts before it: a time, or a duration from now")
	flags.StringVar(&f.priority, "priority", "", "high, normal or low")
	flags.DurationVar(&f.wait, "wait", 0, "wait so long for a final state")
	flags.BoolVar(&f.dryRun, "dry-run", false, "show what would be sent; nothing is accepted")
}

func (f *submitFlags) run(cmd *cobra.Command) error {
	s, err := f.submission(cmd.InOrStdin())
	if err != nil {
		return err
	}
	c, err := f.connect()
	if err != nil {
		return err
	}
	if f.dryRun {
		return f.preview(cmd, c, s)
	}
	if s.Key == "" {
		s.Key = client.NewKey()
		cmd.PrintErrf("key: %s\n", s.Key) // before it is sent: whatever ends this process, the key is known
	}
	accepted, err := c.Submit(cmd.Context(), s)
	if err != nil {
		return err
	}
	if accepted.Replayed {
		cmd.PrintErrln("The key was known: this is its command as it is now.")
	}
	return waitAndPrint(cmd, c, f.out, accepted.Command, f.wait)
}

// submission checks what only the flags show; the rest is for the client and the
// service.
func (f *submitFlags) submission(stdin io.Reader) (client.Submission, error) {
	switch {
	case f.upstream == "" || f.operation == "":
		return client.Submission{}, usage(errors.New(`--upstream and --operation are needed ("executor profiles list" shows what there is)`))
	case f.body != "" && f.bodyFile != "":
		return client.Submission{}, usage(errors.New("--body and --body-file are both given: use one"))
	case f.timeout != 0 && !f.deadline.IsZero():
		return client.Submission{}, usage(errors.New("--timeout and --deadline are both given: use one"))
	case f.timeout < 0 || f.wait < 0:
		return client.Submission{}, usage(errors.New("--timeout and --wait cannot be negative"))
	}
	s := client.Submission{
		Key: f.key, Upstream: f.upstream, Operation: f.operation, Params: f.params, Query: f.query, Headers: f.header,
		ContentType: f.contentType, Deadline: f.deadline.Time, Timeout: f.timeout, NotBefore: f.notBefore.Time,
		Priority: client.Priority(f.priority), Metadata: f.metadata,
	}
	if err := f.referTo(&s); err != nil {
		return s, err
	}
	body, given, err := f.readBody(stdin)
	if err != nil || !given {
		return s, err
	}
	return s, f.place(&s, body)
}

// place decides how a body travels: JSON as it stands, anything else as bytes.
func (f *submitFlags) place(s *client.Submission, body []byte) error {
	switch {
	case f.contentType != "" && f.contentType != "application/json":
		s.BodyBytes = body
	case json.Valid(body):
		s.Body = body
	case f.contentType == "application/json":
		return usage(errors.New("the body is not JSON"))
	default:
		return usage(errors.New("the body is not JSON: correct it, or say with --content-type what it is"))
	}
	return nil
}

// readBody takes the body from where the flags say.
func (f *submitFlags) readBody(stdin io.Reader) (body []byte, given bool, err error) {
	file, isFile := strings.CutPrefix(f.body, "@")
	if f.bodyFile != "" {
		file, isFile = f.bodyFile, true
	}
	switch {
	case isFile:
		body, err = os.ReadFile(file)
	case f.body == "-":
		body, err = io.ReadAll(stdin)
	default:
		return []byte(f.body), f.body != "", nil
	}
	if err != nil {
		return nil, false, usage(fmt.Errorf("read the body: %w", err))
	}
	return body, true, nil
}

// preview prints the request as it would go out.
func (f *submitFlags) preview(cmd *cobra.Command, c *client.Client, s client.Submission) error {
	p, err := c.DryRun(cmd.Context(), s)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if f.out == formatJSON {
		return writeJSON(out, p.JSON())
	}
	fmt.Fprintf(out, "%s %s\n", p.Request.Method, plain(p.Request.URL))
	for _, h := range p.Request.Headers {
		fmt.Fprintf(out, "%s: %s\n", h.Name, plain(h.Value))
	}
	fmt.Fprintf(out, "\n%s\n", p.Request.Body)
	for _, file := range p.Request.BodyFiles {
		cmd.PrintErrln(placed(p.Request.Body, file))
	}
	cmd.PrintErrf("Nothing was accepted. Deadline %s, profile version %d. Credentials are added at each attempt.\n", stamp(p.Deadline), p.ProfileVersion)
	if p.Existing != nil {
		cmd.PrintErrf("The key already belongs to command %s, which is %s.\n", p.Existing.ID, p.Existing.State)
	}
	return nil
}

// placed says where in the body a file goes that the service reads later.
func placed(body []byte, file client.PlacedFile) string {
	text := fmt.Sprintf("The file %s (%d bytes) is ", plain(file.Path), file.Size)
	if len(body) == 0 {
		return text + "the body."
	}
	return text + fmt.Sprintf("sent after %d bytes of the body shown.", file.At)
}

// waitAndPrint prints a command, after a wait if one was asked for; then the
// exit code tells its state.
func waitAndPrint(cmd *cobra.Command, c *client.Client, out format, command client.Command, wait time.Duration) error {
	if wait > 0 && !command.Final {
		var err error
		if command, err = waitFor(cmd.Context(), c, command, wait); err != nil {
			return err
		}
	}
	if err := show(cmd.OutOrStdout(), out, command); err != nil {
		return err
	}
	if wait == 0 {
		return nil
	}
	if !command.Final {
		cmd.PrintErrf("Still %s after %s; \"executor get %s --wait 1m\" waits on.\n", command.State, wait, command.ID)
	}
	return stateExit(command.State)
}

// waitFor waits for a final state; the end of the wait is no error.
func waitFor(ctx context.Context, c *client.Client, command client.Command, wait time.Duration) (client.Command, error) {
	bound, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	seen, err := c.Wait(bound, command.ID)
	switch {
	case ctx.Err() != nil:
		return command, ctx.Err()
	case err != nil && bound.Err() == nil:
		return command, err
	case seen.ID == "":
		return command, nil
	}
	return seen, nil
}

func show(w io.Writer, out format, c client.Command) error {
	if out == formatJSON {
		return writeJSON(w, c)
	}
	return printCommand(w, c)
}
