package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"executor/client"
)

// listenFlags describe a receiver on this machine.
type listenFlags struct {
	secrets []string
	port    int
	forward string
	out     format
}

func newWebhooksListenCommand() *cobra.Command {
	var f listenFlags
	cmd := &cobra.Command{
		Use:   "listen --secret SECRET",
		Short: "Receive webhooks on this machine, verify and print them",
		Long: `Listen is a receiver for trying things out: it listens on this machine alone, verifies the
signature of what arrives, prints it and takes it. It answers the challenge that a new
receiver gets first; "executor webhooks verify" asks it again. With --forward-to each that verifies is
handed on as it came, and the answer is handed back. It needs no API key, and ends with
Ctrl-C.`,
		Example: `  executor webhooks create http://127.0.0.1:4242/
  executor webhooks listen --secret whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYq=
  executor webhooks listen --secret @secret.txt --port 0 --forward-to http://127.0.0.1:3000/hooks --output json`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.secrets, "secret", nil, "the secret that create or rotate showed; @FILE reads a file; repeatable while one is rotated")
	flags.IntVar(&f.port, "port", 4242, "port on 127.0.0.1; 0 = any that is free")
	flags.StringVar(&f.forward, "forward-to", "", "hand on to this URL what verifies")
	addOutput(cmd, &f.out)
	return cmd
}

func (f *listenFlags) run(cmd *cobra.Command) error {
	secrets, err := readSecrets(f.secrets)
	if err != nil {
		return err
	}
	if f.forward != "" {
		if u, err := url.Parse(f.forward); err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
			return usage(fmt.Errorf("--forward-to: %q is not a URL such as http://127.0.0.1:3000/hooks", f.forward))
		}
	}
	if _, err := client.WebhookHandler(secrets, nil); err != nil {
		return usage(err)
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(f.port)))
	if err != nil {
		return fmt.Errorf("listen for webhooks: %w", err)
	}
	cmd.PrintErrf("Receiving webhooks at http://%s/ until interrupted.\n", l.Addr())
	return serveUntil(cmd.Context(), l, &listener{listenFlags: *f, secrets: secrets, cmd: cmd})
}

// readSecrets takes each from the command line or from the file that it names.
func readSecrets(given []string) ([]string, error) {
	if len(given) == 0 {
		return nil, usage(errors.New(`--secret is needed: "executor webhooks create" and "rotate" show one`))
	}
	secrets := make([]string, len(given))
	for i, s := range given {
		if file, isFile := strings.CutPrefix(s, "@"); isFile {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, usage(fmt.Errorf("read the secret: %w", err))
			}
			s = string(text)
		}
		secrets[i] = strings.TrimSpace(s)
	}
	return secrets, nil
}

// serveUntil serves until ctx ends, which is the usual end.
func serveUntil(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return ctx.Err()
}

// listener prints what arrives, one at a time.
type listener struct {
	listenFlags
	secrets []string
	cmd     *cobra.Command
	mu      sync.Mutex
}

// forwardTimeout is less than the executor waits for an answer.
const forwardTimeout = 10 * time.Second

func (l *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		http.Error(w, "the body cannot be read", http.StatusBadRequest)
		return
	}
	event, err := client.VerifyWebhook(l.secrets, r.Header, body, client.WebhookOptions{})
	if err != nil {
		l.refuse(w, r, err)
		return
	}
	if event.Type == client.WebhookChallenge {
		l.print(event, body, http.StatusOK, "answered: this receiver wants webhooks")
		client.AnswerWebhookChallenge(w, event)
		return
	}
	status, said := http.StatusNoContent, ""
	if l.forward != "" {
		status, said = forwardWebhook(r, l.forward, body)
	}
	l.print(event, body, status, said)
	w.WriteHeader(status)
}

func (l *listener) refuse(w http.ResponseWriter, r *http.Request, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cmd.PrintErrf("refused %s from %s: %s\n", plain(r.Method+" "+r.URL.Path), r.RemoteAddr, plain(err.Error()))
	http.Error(w, err.Error(), http.StatusUnauthorized)
}

// forwardWebhook hands a webhook on, with what its signature covers, and gives the
// status that is answered with.
func forwardWebhook(r *http.Request, to string, body []byte) (status int, said string) {
	ctx, cancel := context.WithTimeout(r.Context(), forwardTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return http.StatusBadGateway, err.Error()
	}
	for _, name := range []string{"Content-Type", client.HeaderWebhookID, client.HeaderWebhookTimestamp, client.HeaderWebhookSignature} {
		req.Header[http.CanonicalHeaderKey(name)] = r.Header.Values(name)
	}
	once := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := once.Do(req)
	if err != nil {
		return http.StatusBadGateway, err.Error()
	}
	defer res.Body.Close()
	return res.StatusCode, "forwarded, answered " + res.Status
}

// print shows an event in one line, or in JSON with what was answered.
func (l *listener) print(e client.WebhookEvent, body []byte, status int, said string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.cmd.OutOrStdout()
	if l.out == formatJSON {
		_ = json.NewEncoder(jsonWriter{out}).Encode(map[string]any{"webhook_id": e.ID, "sent_at": e.SentAt, "answered": status, "event": json.RawMessage(body)})
		return
	}
	line := fmt.Sprintf("%s  %-18s  %s", stamp(e.Timestamp), e.Type, e.ID)
	if e.CommandID != "" {
		line += fmt.Sprintf("  command %s, key %s, sequence %d", e.CommandID, e.Key, e.Sequence)
	}
	if e.Outcome != nil {
		line += ": " + movedText(e)
	}
	if said != "" {
		line += "  (" + said + ")"
	}
	fmt.Fprintln(out, plain(line))
}

// movedText is the outcome, with the one before it.
func movedText(e client.WebhookEvent) string {
	text := string(e.Outcome.State()) + " (" + whyText(e.Outcome.Common()) + ")"
	if e.PreviousState != "" {
		text = string(e.PreviousState) + " → " + text
	}
	return text
}
