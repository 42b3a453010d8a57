package reconcile

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"executor/outcome"
)

// MaxForecast bounds how many lines a forecast counts.
const MaxForecast = 10_000

// ReportForecast is what applying a report would do if it were done now. Each line
// is weighed again when it is passed on: commands go on meanwhile.
type ReportForecast struct {
	Success   int  // unresolved commands that become success
	Rejected  int  // unresolved commands that become rejected
	Conflicts int  // lines against a settled state, which stays
	Kept      int  // commands that are still being sent: their next outcome takes the line into account
	None      int  // lines that the command has caught up with since the comparison
	Against   int  // lines that are not passed on, as another line says something else
	More      bool // there are more lines than MaxForecast; these are of the first
}

// Lines is the number of lines that were counted.
func (f ReportForecast) Lines() int {
	return f.Success + f.Rejected + f.Conflicts + f.Kept + f.None + f.Against
}

// Forecast tells what Apply would do with a compared report.
func (s *Store) Forecast(ctx context.Context, tenant string, id uuid.UUID) (ReportForecast, error) {
	if _, err := s.Report(ctx, tenant, id); err != nil {
		return ReportForecast{}, err
	}
	rows, err := s.pool.Query(ctx, `
		SELECT c.state, i.finding, EXISTS (
				SELECT FROM report_items d
				WHERE d.report_id = $1 AND d.duplicate_of = i.number AND d.finding IN ('applied', 'refused', 'absent') AND d.finding <> i.finding) AS against,
			count(*)
		FROM (
			SELECT number, command_id, finding FROM report_items
			WHERE report_id = $1 AND evidence AND effect IS NULL ORDER BY number LIMIT $2) i
		JOIN commands c ON c.id = i.command_id
		GROUP BY 1, 2, 3`, id, MaxForecast+1)
	if err != nil {
		return ReportForecast{}, unreadReport(err)
	}
	var (
		f       ReportForecast
		state   outcome.State
		finding outcome.Finding
		against bool
		n       int
	)
	_, err = pgx.ForEachRow(rows, []any{&state, &finding, &against, &n}, func() error {
		*f.place(state, finding, against) += n
		return nil
	})
	if err != nil {
		return ReportForecast{}, unreadReport(fmt.Errorf("forecast: %w", err))
	}
	f.More = f.Lines() > MaxForecast
	return f, nil
}

// place is where lines of a kind are counted. What they do is up to commands.Learn;
// a test holds the two together.
func (f *ReportForecast) place(state outcome.State, finding outcome.Finding, against bool) *int {
	switch {
	case against:
		return &f.Against
	case state == outcome.StateUnresolved && finding == outcome.FindingApplied:
		return &f.Success
	case state == outcome.StateUnresolved && finding == outcome.FindingRefused:
		return &f.Rejected
	case !state.Final() && finding != outcome.FindingPending:
		return &f.Kept
	case tells(state, finding) && !sameMeaning(state, finding) && state.Absorbing():
		// A refusal denies a success only: what was cancelled was not done either.
		if finding == outcome.FindingRefused && state != outcome.StateSuccess {
			return &f.None
		}
		return &f.Conflicts
	default:
		return &f.None
	}
}
