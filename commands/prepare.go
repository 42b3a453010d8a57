package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"executor/outcome"
	"executor/upstreams"
)

// entry is a submission on its way into the database.
type entry struct {
	sub      Submission
	id       uuid.UUID
	kept     identity
	upstream upstreams.Upstream
	request  upstreams.Request
	deadline *time.Time
	timeout  time.Duration
	claim    *int64 // epoch of the lease that claims the first attempt
	held     *int64 // epoch of the lease under which this process holds the body
	accepted Prepared
}

// prepare checks a submission and renders its request. What the caller can mend
// is an *Invalid, what the operator can a *FilesUnavailable.
func (s *Store) prepare(ctx context.Context, sub Submission) (*entry, error) {
	up, err := s.upstreams.Latest(ctx, sub.Tenant, sub.Upstream)
	if errors.Is(err, upstreams.ErrNotFound) {
		return nil, invalid("/upstream", "unknown_upstream", "There is no upstream %q.", sub.Upstream)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	op, ok := up.Profile.Operation(sub.Operation)
	if !ok {
		return nil, invalid("/operation", "unknown_operation", "The upstream %q has no operation %q.", sub.Upstream, sub.Operation)
	}
	e := &entry{sub: sub, id: uuid.Must(uuid.NewV7()), upstream: up}
	if bad := s.mayHold(sub, op); bad != nil {
		return nil, bad
	}
	e.kept = s.identityOf(sub)
	var fields []upstreams.FieldError
	if bad := e.setTimes(up.Profile, op, time.Now()); bad != nil {
		fields = bad.Fields
	}
	e.request, err = op.Render(upstreams.Input{
		Key: sub.Key, CommandID: e.id, Params: sub.Params, Query: sub.Query, Headers: sub.Headers,
		Body: sub.Body, HasBody: sub.HasBody, BodyFile: sub.BodyFile, Parts: sub.Parts, ContentType: sub.ContentType,
	})
	var bad *upstreams.InputError
	if errors.As(err, &bad) {
		fields, err = append(fields, bad.Fields...), nil
	}
	if err == nil && len(fields) == 0 {
		if fields, err = s.checkFiles(ctx, sub); err != nil {
			return nil, err
		}
	}
	switch {
	case err != nil:
		return nil, err
	case len(fields) == 1:
		return nil, &Invalid{Detail: fields[0].Detail, Fields: fields}
	case len(fields) > 1:
		return nil, &Invalid{Detail: "The submission does not fit the operation.", Fields: fields}
	default:
		return e, nil
	}
}

// setTimes settles deadline and priority. A deadline that leaves no room for
// one attempt is refused: the command could only be cancelled.
func (e *entry) setTimes(p *upstreams.Profile, op *upstreams.Operation, now time.Time) *Invalid {
	sub, window := e.sub, op.Policy().MinAttemptWindow
	if sub.Priority != "" && !slices.Contains(Priorities(), sub.Priority) {
		return invalid("/priority", "unknown_priority", "The priority is high, normal or low, not %q.", sub.Priority)
	}
	if !writable(sub.NotBefore) {
		return invalid("/not_before", "out_of_range", yearsAllowed)
	}
	start := now
	if sub.NotBefore != nil && sub.NotBefore.After(now) {
		start = *sub.NotBefore
	}
	if sub.Deadline != nil {
		if !writable(sub.Deadline) {
			return invalid("/deadline", "out_of_range", yearsAllowed)
		}
		if sub.Timeout != 0 {
			return invalid("/timeout", "both_given", "Give a deadline or a timeout, not both.")
		}
		if sub.Deadline.Sub(start) < window {
			return invalid("/deadline", "no_room", "The deadline leaves no room for one attempt, which needs %s.", window)
		}
		e.deadline = sub.Deadline
		return nil
	}
	e.timeout = sub.Timeout
	if e.timeout == 0 {
		e.timeout = p.Deadline
	}
	if e.timeout < window {
		return invalid("/timeout", "no_room", "The timeout leaves no room for one attempt, which needs %s.", window)
	}
	if end := start.Add(e.timeout); !writable(&end) {
		return invalid("/not_before", "out_of_range", "The deadline that follows from it lies behind the year 9999.")
	}
	return nil
}

const yearsAllowed = "A time lies between the years 1 and 9999, in UTC."

// writable says that RFC 3339, in which times are shown, can write a moment, in
// whichever zone it was given.
func writable(t *time.Time) bool {
	return t == nil || t.UTC().Year() >= 1 && t.UTC().Year() <= 9999
}

// startsSoon: a command that waits for a moment of its own goes through the
// queue.
func (e *entry) startsSoon() bool { return e.sub.NotBefore == nil || time.Until(*e.sub.NotBefore) <= 0 }

// commandOf is the command as it stands right after its acceptance.
func (e *entry) commandOf() Command {
	a := e.accepted
	c := Command{
		ID: a.ID, Tenant: a.Tenant, Key: e.sub.Key, UpstreamID: a.UpstreamID, Upstream: e.upstream.Name, Operation: a.Operation,
		ProfileVersion: a.ProfileVersion, BodyKind: e.kept.kind, State: outcome.StatePending, Version: 1, Priority: a.Priority,
		CreatedAt: a.CreatedAt, Deadline: a.Deadline, NotBefore: e.sub.NotBefore, NextAttemptAt: &a.Due, Metadata: e.sub.Metadata,
		Record: Record{Record: outcome.RecordOf(outcome.IdempotencyNone, nil), Identity: e.request.Identity},
	}
	switch {
	case e.upstream.PausedAt != nil:
		c.Waiting = &Waiting{For: WaitPaused}
	case a.Due.After(a.CreatedAt):
		c.Waiting = &Waiting{For: WaitNotBefore, Until: &a.Due}
	}
	return c
}
