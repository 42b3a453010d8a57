package attempts

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/commands"
	"executor/internal/bodyfiles"
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
	refreshed bool
	inDoubt   bool                 // an earlier attempt may have acted, where the profile asks for it
	unfit     *bodyfiles.Mismatch  // its body cannot be made, now or later
	access    upstreams.Credential // in use; a token is dropped after a 401
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
			c.state, extract(epoch FROM greatest(c.next_attempt_at, c.blocked_until) - clock_timestamp())::float8, r.method, r.path, r.headers::text, r.body, coalesce(r.body_files, '[]'), r.body_kind = 'one_shot', r.key_in, r.key_name, r.wire_key,
			coalesce((SELECT reason FROM attempts a WHERE a.command_id = c.id AND a.evidence <> 'not_sent'
				ORDER BY a.number DESC LIMIT 1), '')
		FROM commands c JOIN command_requests r ON r.command_id = c.id WHERE c.id = $1`, id).Scan(
		&w.ID, &w.Tenant, &w.UpstreamID, &w.Operation, &w.ProfileVersion, &w.CreatedAt, &w.Deadline, &w.attempts,
		&state, &left, &w.Request.Method, &w.Request.Path, &headers, &w.Request.Body, &w.Request.Files, &w.Request.OneShot, &w.Request.Identity.In,
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
	if w.inDoubt, err = e.doubts(ctx, w); err != nil {
		return err
	}
	newest, err := e.store.upstream(ctx, w.UpstreamID)
	if err != nil {
		return err
	}
	tlsConfig, err := e.access.TLS(w.profile)
	if err != nil {
		return err
	}
	w.target = Target{
		UpstreamID: w.UpstreamID, Version: w.ProfileVersion, Base: w.profile.Base, Allow: w.profile.Egress.Allow,
		Proxy: w.profile.Egress.Proxy, TLS: tlsConfig, Timeouts: w.operation.Timeouts, Limits: newest.Profile.Limits,
		Fresh: w.operation.FreshConnection(), Idle: w.profile.Connection.Idle, Hop: e.hop,
	}
	return nil
}

// doubts reports whether an attempt so far may have acted, where a rule of the
// profile asks for it.
func (e *Engine) doubts(ctx context.Context, w *work) (bool, error) {
	if w.attempts == 0 || !w.operation.AsksDoubt() {
		return false, nil
	}
	history, err := e.commands.History(ctx, e.store.pool, []uuid.UUID{w.ID})
	return commands.InDoubt(w.operation.Contract().Idempotency, history[w.ID]), err
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
	w.start = Start{
		CommandID: w.ID, After: w.attempts, Request: string(record), BodySHA256: w.digest(), RefreshedAuth: w.refreshed, Total: w.target.Timeouts.Total,
	}
	if head, err := Encode(w.request, w.target); err == nil {
		w.start.BytesTotal = int64(len(head) + len(w.Request.Body))
	}
	return missing
}

// digest is what is kept of the body with each attempt: nothing of one that must not
// be kept, since a short body can be guessed from its digest.
func (w *work) digest() []byte {
	if w.Request.OneShot || w.unfit != nil {
		return []byte{}
	}
	sum := sha256.Sum256(w.Request.Body)
	return sum[:]
}

const redacted = "[redacted]"

// credential finds the headers that authorise the request. After a 401 that
// called for a refresh the token is another one. A missing secret is
// egress.ErrMissing: the command waits for it. A token endpoint that fails is
// an *egress.TokenError: an attempt that was not sent.
func (e *Engine) credential(ctx context.Context, w *work) ([]upstreams.Header, error) {
	refresh := w.last == outcome.ReasonAuthRefresh
	var err error
	w.access, err = e.access.Credential(ctx, w.profile, w.UpstreamID, refresh && !w.refreshed)
	if w.access.IsToken() {
		w.refreshed = refresh
	}
	return w.access.Headers, err
}
