package attempts

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/commands"
	"executor/internal/egress"
	"executor/outcome"
	"executor/upstreams"
)

// work is one attempt being prepared: the command as it was read, outside any
// lock. Begin reads it again, under one.
type work struct {
	commands.Prepared
	attempts  int            // on record
	left      time.Duration  // until it is due, by the database's clock
	last      outcome.Reason // of the last one that was sent
	profile   *upstreams.Profile
	operation *upstreams.Operation
	target    Target
	request   WireRequest
	start     Start
	secrets   []egress.Secret // what must not be kept of an answer that echoes it
	token     egress.Secret   // the access token in use, to be dropped after a 401
	tokenKey  string
	refreshed bool
}

// errGone: the command is not pending any more.
var errGone = errors.New("command is not pending")

// load reads a pending command with its request.
func (s *Store) load(ctx context.Context, id uuid.UUID) (*work, error) {
	var (
		w       work
		state   outcome.State
		left    *float64
		headers string
	)
	err := s.pool.QueryRow(ctx, `
		SELECT c.id, c.tenant, c.upstream_id, c.operation, c.profile_version, c.created_at, c.deadline, c.attempts,
			c.state, extract(epoch FROM greatest(c.next_attempt_at, c.blocked_until) - clock_timestamp())::float8, r.method, r.path, r.headers::text, r.body, r.key_in, r.key_name, r.wire_key,
			coalesce((SELECT reason FROM attempts a WHERE a.command_id = c.id AND a.evidence <> 'not_sent'
				ORDER BY a.number DESC LIMIT 1), '')
		FROM commands c JOIN command_requests r ON r.command_id = c.id WHERE c.id = $1`, id).Scan(
		&w.ID, &w.Tenant, &w.UpstreamID, &w.Operation, &w.ProfileVersion, &w.CreatedAt, &w.Deadline, &w.attempts,
		&state, &left, &w.Request.Method, &w.Request.Path, &headers, &w.Request.Body, &w.Request.Identity.In,
		&w.Request.Identity.Name, &w.Request.Identity.Key, &w.last)
	if errors.Is(err, pgx.ErrNoRows) || (err == nil && state != outcome.StatePending) {
		return nil, errGone
	}
	if err != nil {
		return nil, fmt.Errorf("load command %s: %w", id, err)
	}
	if left != nil {
		w.left = time.Duration(*left * float64(time.Second))
	}
	if err := json.Unmarshal([]byte(headers), &w.Request.Headers); err != nil {
		return nil, fmt.Errorf("decode headers of command %s: %w", id, err)
	}
	return &w, nil
}

// pin finds the contract and the target of the version that the command was
// accepted under. Limits are the newest version's.
func (e *Engine) pin(ctx context.Context, w *work) error {
	ctx, cancel := context.WithTimeout(ctx, readBound)
	defer cancel()
	var err error
	if w.profile, err = e.upstreams.Profile(ctx, w.UpstreamID, w.ProfileVersion); err != nil {
		return err
	}
	var ok bool
	if w.operation, ok = w.profile.Operation(w.Operation); !ok {
		return fmt.Errorf("upstream %d has no operation %q in version %d", w.UpstreamID, w.Operation, w.ProfileVersion)
	}
	newest, err := e.store.upstream(ctx, w.UpstreamID)
	if err != nil {
		return err
	}
	tlsConfig, err := TLSConfig(w.profile, e.readFile)
	if err != nil {
		return fmt.Errorf("%w: %w", egress.ErrMissing, err)
	}
	w.target = Target{
		UpstreamID: w.UpstreamID, Version: w.ProfileVersion, Base: w.profile.Base, Allow: w.profile.Egress.Allow,
		Proxy: w.profile.Egress.Proxy, TLS: tlsConfig, Timeouts: w.operation.Timeouts, Limits: newest.Profile.Limits,
		Fresh: w.operation.FreshConnection(), Idle: w.profile.Connection.Idle,
	}
	return nil
}

// readFile opens what a profile's tls section names.
func (e *Engine) readFile(name string) ([]byte, error) {
	if strings.HasPrefix(name, "file:") {
		s, err := e.secrets.Lookup(name)
		return []byte(s.Reveal()), err
	}
	return os.ReadFile(name)
}

// dress completes the request with what is never stored: the credential, and
// the marks of a repeat. What may be put on record of it is there also if there
// is no credential: that is an attempt too.
func (e *Engine) dress(ctx context.Context, w *work) error {
	headers := append([]upstreams.Header(nil), w.Request.Headers...)
	if w.attempts > 0 {
		headers = append(headers, w.operation.RetryHeaders()...)
	}
	credential, missing := e.credential(ctx, w)
	w.request = WireRequest{
		Method: w.Request.Method, Path: w.Request.Path, Headers: append(headers, credential...), Body: w.Request.Body,
	}
	shown := w.operation.Redact(headers)
	for _, h := range credential {
		shown = append(shown, upstreams.Header{Name: h.Name, Value: redacted})
	}
	record, err := json.Marshal(commands.AttemptRequest{
		Method: w.Request.Method, URL: w.profile.Base.Scheme + "://" + w.profile.Base.Host + w.Request.Path, Headers: shown,
	})
	if err != nil {
		return fmt.Errorf("encode request of command %s: %w", w.ID, err)
	}
	sum := sha256.Sum256(w.Request.Body)
	w.start = Start{
		CommandID: w.ID, Request: string(record), BodySHA256: sum[:], RefreshedAuth: w.refreshed, Total: w.target.Timeouts.Total,
	}
	if head, err := Encode(w.request, w.target); err == nil {
		w.start.BytesTotal = int64(len(head) + len(w.Request.Body))
	}
	return missing
}

const redacted = "[redacted]"

// credential is the header that authorises the request. A missing secret is
// egress.ErrMissing: the command waits for it. A token endpoint that fails is
// an *egress.TokenError: an attempt that was not sent.
func (e *Engine) credential(ctx context.Context, w *work) ([]upstreams.Header, error) {
	a := w.profile.Auth
	switch a.Type {
	case upstreams.AuthBearer:
		token, err := e.secrets.Lookup(a.Token)
		return w.authorization("Bearer ", token, err)
	case upstreams.AuthBasic:
		user, err := e.reference(a.Username)
		if err != nil {
			return nil, err
		}
		password, err := e.secrets.Lookup(a.Password)
		w.secrets = append(w.secrets, password)
		pair := user.Reveal() + ":" + password.Reveal()
		return w.authorization("Basic ", egress.NewSecret(base64.StdEncoding.EncodeToString([]byte(pair))), err)
	case upstreams.AuthHeader:
		value, err := e.secrets.Lookup(a.Value)
		if err != nil {
			return nil, err
		}
		w.secrets = append(w.secrets, value)
		return []upstreams.Header{{Name: a.Name, Value: value.Reveal()}}, nil
	case upstreams.AuthOAuth2:
		token, err := e.accessToken(ctx, w)
		return w.authorization("Bearer ", token, err)
	default:
		return nil, nil
	}
}

func (w *work) authorization(scheme string, credential egress.Secret, err error) ([]upstreams.Header, error) {
	if err != nil {
		return nil, err
	}
	w.secrets = append(w.secrets, credential)
	return []upstreams.Header{{Name: "Authorization", Value: scheme + credential.Reveal()}}, nil
}

// reference resolves a value that may be given as it is or as a reference.
func (e *Engine) reference(value string) (egress.Secret, error) {
	if strings.HasPrefix(value, "env:") || strings.HasPrefix(value, "file:") {
		return e.secrets.Lookup(value)
	}
	return egress.NewSecret(value), nil
}

// accessToken gets the token of the upstream. After a 401 that called for a
// refresh it makes sure that the token is a new one, whichever process saw the
// 401.
func (e *Engine) accessToken(ctx context.Context, w *work) (egress.Secret, error) {
	a := w.profile.Auth
	id, err := e.reference(a.ClientID)
	if err != nil {
		return egress.Secret{}, err
	}
	secret, err := e.secrets.Lookup(a.ClientSecret)
	if err != nil {
		return egress.Secret{}, err
	}
	w.tokenKey = strconv.FormatInt(w.UpstreamID, 10)
	r := egress.TokenRequest{
		Key: w.tokenKey, URL: a.TokenURL, ClientID: id, ClientSecret: secret, Scopes: a.Scopes, Allow: w.target.Allow, TLS: tokenTLS(w.target.TLS),
	}
	token, err := e.tokens.Token(ctx, r)
	if err == nil && w.last == outcome.ReasonAuthRefresh && !w.refreshed {
		e.tokens.Invalidate(w.tokenKey, token)
		token, err = e.tokens.Token(ctx, r)
	}
	w.refreshed = w.last == outcome.ReasonAuthRefresh
	w.token = token
	return token, err
}

// tokenTLS trusts whom the upstream's own connections trust; the name to expect
// is the token endpoint's.
func tokenTLS(config *tls.Config) *tls.Config {
	if config == nil {
		return nil
	}
	config = config.Clone()
	config.ServerName = ""
	return config
}
