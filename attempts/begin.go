package attempts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/commands"
	"executor/internal/postgres"
	"executor/outcome"
)

// sendWindow bounds how long after its commit an attempt may still start to
// send: a process that was stopped meanwhile must not.
const sendWindow = commands.SendWindow

// beginning is one command of a batch on its way to an open attempt.
type beginning struct {
	start   Start
	command commands.Locked
	number  int
	send    time.Time // send deadline, by the database's clock
}

// scene is what a batch reads besides its commands.
type scene struct {
	leaseEnds time.Time // zero: the lease is not held
	frozen    bool
	upstreams map[int64]upstreamRow
	commands  map[uuid.UUID]commands.Locked
	history   map[uuid.UUID][]commands.Past
}

// upstreamRow is the moving part of an upstream.
type upstreamRow struct {
	ID             int64
	PausedAt       *time.Time
	ThrottledUntil *time.Time
	BudgetTokens   float64
	BudgetAt       time.Time
}

// begin opens attempts for the commands of a batch, in one transaction. Item
// by item it answers with a *Begun or a *Refusal.
func (s *Store) begin(ctx context.Context, tx pgx.Tx, epoch int64, starts []Start) ([]beginResult, error) {
	sc, err := s.look(ctx, tx, epoch, starts)
	if err != nil {
		return nil, err
	}
	var (
		results = make([]beginResult, len(starts))
		opened  []beginning
		moves   []commands.Move
	)
	for i, start := range starts {
		v, err := s.mayBegin(ctx, sc, start)
		if err != nil {
			return nil, err
		}
		results[i] = beginResult{refusal: v.refusal}
		if v.move == nil {
			continue
		}
		moves = append(moves, *v.move)
		sc.take(start.CommandID)
		switch {
		case v.move.To == outcome.StateExecuting:
			b := beginning{start: start, command: v.move.Command, number: v.move.Attempts, send: sc.sendDeadline(v.move.Command)}
			opened = append(opened, b)
			results[i].begun = &Begun{Command: b.command, Number: b.number, Epoch: epoch, StartedAt: b.command.Now, Deadline: b.command.Deadline.Sub(b.command.Now)}
		case v.move.To.Final():
			results[i].closed = v.move.To
		}
	}
	if err := s.insertOpen(ctx, tx, epoch, opened); err != nil {
		return nil, err
	}
	_, err = s.commands.Move(ctx, tx, moves)
	return results, err
}

type beginResult struct {
	begun   *Begun
	refusal *Refusal
	closed  outcome.State // the final state that the command went to instead
}

// verdict is what mayBegin decided: at most one move, and a refusal unless the
// move opens the attempt.
type verdict struct {
	move    *commands.Move
	refusal *Refusal
}

func refuse(why string, again time.Duration) verdict {
	return verdict{refusal: &Refusal{Why: why, Again: again}}
}

// mayBegin asks everything that could stand in the way, under the row lock.
func (s *Store) mayBegin(ctx context.Context, sc *scene, start Start) (verdict, error) {
	c, ok := sc.commands[start.CommandID]
	up := sc.upstreams[c.UpstreamID]
	switch {
	case !ok:
		return refuse("its row is held elsewhere", busyWait), nil
	case c.State != outcome.StatePending:
		return refuse("not pending", 0), nil
	case c.Attempts != start.After:
		return refuse("attempts were counted since it was read", busyWait), nil
	case sc.leaseEnds.IsZero():
		return refuse("the lease is not held", time.Second), nil
	case c.NextAttemptAt.After(c.Now):
		return refuse("not due", c.NextAttemptAt.Sub(c.Now)), nil
	case c.BlockedUntil != nil && c.BlockedUntil.After(c.Now):
		return refuse("a lost attempt may still be under way", c.BlockedUntil.Sub(c.Now)), nil
	case sc.frozen:
		return refuse("the deployment is frozen", recheck), nil
	case up.PausedAt != nil:
		return refuse("the upstream is paused", recheck), nil
	case up.ThrottledUntil != nil && up.ThrottledUntil.After(c.Now):
		return refuse("the upstream is throttled", min(up.ThrottledUntil.Sub(c.Now), recheck)), nil // a new profile may end it
	}
	terms, err := s.commands.Terms(ctx, c)
	if err != nil {
		return verdict{}, err
	}
	past := sc.history[c.ID]
	facts := commands.FactsBefore(terms, c, past)
	facts.Draining = s.draining()
	switch d := outcome.MayStart(facts); d.Verdict {
	case outcome.VerdictRetry:
		return verdict{move: &commands.Move{Command: c, To: outcome.StateExecuting, Attempts: c.Attempts + 1}}, nil
	case outcome.VerdictHandBack:
		return refuse("this process is draining", recheck), nil
	default:
		by := outcome.DecidedByAttempt
		switch d.Reason {
		case outcome.ReasonDeadline:
			by = outcome.DecidedByDeadline
		case outcome.ReasonCancelRequested:
			by = outcome.DecidedByCancel
		}
		return verdict{
			refusal: &Refusal{Why: "closed: " + string(d.Reason)},
			move: &commands.Move{
				Command: c, To: d.Outcome.State, Attempts: c.Attempts,
				Outcome: commands.FinalOf(*d.Outcome, d.Reason, by, past),
			},
		}, nil
	}
}

// standstill asks whether this process sends nothing: the deployment is frozen,
// the database was promoted under it, or the data is another deployment's.
const standstill = `SELECT frozen_at IS NOT NULL OR timeline <> ` + timelineSQL + ` OR ($1 <> '' AND id <> $1) FROM deployment`

// look reads all of it in one round trip. The lease is held against a reaper
// by a key-share lock, which its own renewal does not disturb.
func (s *Store) look(ctx context.Context, tx pgx.Tx, epoch int64, starts []Start) (*scene, error) {
	ids := postgres.Column(starts, func(st Start) uuid.UUID { return st.CommandID })
	sc := &scene{upstreams: make(map[int64]upstreamRow), commands: make(map[uuid.UUID]commands.Locked)}
	batch := &pgx.Batch{}
	batch.Queue(`
		SELECT expires_at FROM leases WHERE epoch = $1 AND ended_at IS NULL AND expires_at > clock_timestamp()
		FOR KEY SHARE`, epoch).QueryRow(func(row pgx.Row) error {
		if err := row.Scan(&sc.leaseEnds); !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		return nil
	})
	batch.Queue(standstill, s.expected).QueryRow(func(row pgx.Row) error { return row.Scan(&sc.frozen) })
	s.commands.QueueLock(batch, ids, func(list map[uuid.UUID]commands.Locked) { sc.commands = list })
	batch.Queue(`
		SELECT id, paused_at, throttled_until, budget_tokens, budget_at FROM upstreams
		WHERE id = ANY(SELECT upstream_id FROM commands WHERE id = ANY($1))`, ids).Query(func(rows pgx.Rows) error {
		list, err := pgx.CollectRows(rows, pgx.RowToStructByName[upstreamRow])
		for _, u := range list {
			sc.upstreams[u.ID] = u
		}
		return err
	})
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("begin attempts: %w", err)
	}
	tried := slices.DeleteFunc(ids, func(id uuid.UUID) bool { return sc.commands[id].Attempts == 0 })
	var err error
	sc.history, err = s.commands.History(ctx, tx, tried)
	return sc, err
}

// sendDeadline is the least of the lease's end, the send window and the
// command's deadline, by the database's clock.
func (sc *scene) sendDeadline(c commands.Locked) time.Time {
	at := c.Now.Add(sendWindow)
	for _, other := range []time.Time{sc.leaseEnds, c.Deadline} {
		if other.Before(at) {
			at = other
		}
	}
	return at
}

// take leaves nothing of a command for a second start of it in the same batch.
func (sc *scene) take(id uuid.UUID) { delete(sc.commands, id) }

func (s *Store) insertOpen(ctx context.Context, tx pgx.Tx, epoch int64, list []beginning) error {
	if len(list) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO attempts (command_id, number, tenant, upstream_id, profile_version, started_at, send_deadline, latest_end,
			request, bytes_total, body_sha256, refreshed_auth, deadline_left_ms, epoch, instance)
		SELECT *, $14::bigint, $15::text FROM unnest($1::uuid[], $2::int[], $3::text[], $4::bigint[], $5::int[], $6::timestamptz[],
			$7::timestamptz[], $8::timestamptz[], $9::json[], $10::bigint[], $11::bytea[], $12::bool[], $13::bigint[])`,
		postgres.Column(list, func(b beginning) uuid.UUID { return b.command.ID }),
		postgres.Column(list, func(b beginning) int32 { return int32(b.number) }),
		postgres.Column(list, func(b beginning) string { return b.command.Tenant }),
		postgres.Column(list, func(b beginning) int64 { return b.command.UpstreamID }),
		postgres.Column(list, func(b beginning) int32 { return int32(b.command.ProfileVersion) }),
		postgres.Column(list, func(b beginning) time.Time { return b.command.Now }),
		postgres.Column(list, func(b beginning) time.Time { return b.send }),
		postgres.Column(list, func(b beginning) time.Time { return b.send.Add(b.start.Total) }),
		postgres.Column(list, func(b beginning) string { return b.start.Request }),
		postgres.Column(list, func(b beginning) int64 { return b.start.BytesTotal }),
		postgres.Column(list, func(b beginning) []byte { return b.start.BodySHA256 }),
		postgres.Column(list, func(b beginning) bool { return b.start.RefreshedAuth }),
		postgres.Column(list, func(b beginning) int64 { return b.command.Deadline.Sub(b.command.Now).Milliseconds() }),
		epoch, s.instance)
	if err != nil {
		return fmt.Errorf("open attempts: %w", err)
	}
	return nil
}
