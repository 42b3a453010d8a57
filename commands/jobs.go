package commands

import (
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"executor/outcome"
)

// AttemptArgs wakes a worker for a command that may be due. It carries the id
// and nothing else: the row decides what happens.
type AttemptArgs struct {
	ID uuid.UUID `json:"id"`
}

// Kind is a wire format and is never renamed.
func (AttemptArgs) Kind() string { return "command_attempt" }

// jobAttempts is River's own limit, as high as its column allows: River's
// attempts count faults of our side, and a discarded wake-up would strand its
// command until the sweeper comes by.
const jobAttempts = 32767

// QueueFor names an upstream's queue. It holds the number, since River's name
// rules are narrower than ours.
func QueueFor(upstreamID int64) string { return "u" + strconv.FormatInt(upstreamID, 10) }

// queued is a command that needs a job.
type queued struct {
	id         uuid.UUID
	upstreamID int64
	priority   Priority
	due        time.Time
	now        time.Time // of the database, whose clock due is measured by
}

// jobFor is the only place that says what a state waits for. An executing
// command is looked after by its attempt's lease; a final one waits for nothing
// (unresolved ones keep their place in the data until lookups exist).
func jobFor(state outcome.State, q queued) (river.InsertManyParams, bool) {
	if state != outcome.StatePending {
		return river.InsertManyParams{}, false
	}
	if !q.due.After(q.now) {
		q.due = time.Time{} // available at once; any other time would wait for River's scheduler
	}
	return river.InsertManyParams{
		Args: AttemptArgs{ID: q.id},
		InsertOpts: &river.InsertOpts{
			MaxAttempts: jobAttempts,
			Priority:    q.priority.Number(),
			Queue:       QueueFor(q.upstreamID),
			ScheduledAt: q.due,
		},
	}, true
}

// LiveJobStates are the states in which a job will still wake somebody.
func LiveJobStates() []string {
	return []string{
		string(rivertype.JobStateAvailable), string(rivertype.JobStatePending), string(rivertype.JobStateRetryable),
		string(rivertype.JobStateRunning), string(rivertype.JobStateScheduled),
	}
}

// Number is the priority as River counts it, 1 the most urgent.
func (p Priority) Number() int {
	for i, q := range Priorities() {
		if p == q {
			return i + 1
		}
	}
	return 2
}

func priorityOf(number int) Priority {
	if all := Priorities(); number >= 1 && number <= len(all) {
		return all[number-1]
	}
	return PriorityNormal
}
