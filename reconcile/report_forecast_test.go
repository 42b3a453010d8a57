package reconcile

import (
	"encoding/json"
	"errors"
	"testing"

	"executor/commands"
	"executor/outcome"
)

// TestReportForecastIsWhatApplyingDoes holds a forecast against what became of the
// same report.
func TestReportForecastIsWhatApplyingDoes(t *testing.T) {
	r := newReportRig(t)
	report, ids := r.applicable(t)
	k := commands.Knowledge{Source: outcome.DecidedByLookup, Finding: outcome.FindingApplied, Observation: json.RawMessage(`{}`)}
	if err := r.learn(t, ids["settles"], k); err != nil { // between the comparison and the forecast
		t.Fatal(err)
	}
	f, err := r.store.Forecast(t.Context(), "default", report.ID)
	if err != nil {
		t.Fatal(err)
	}
	if want := (ReportForecast{Success: 1, Rejected: 1, Conflicts: 3, Kept: 1, None: 1, Against: 1}); f != want {
		t.Errorf("the forecast is %+v, want %+v", f, want)
	}
	report = r.applied(t, report.ID)
	got := ReportEffects{Settled: f.Success + f.Rejected, Kept: f.Kept, Conflicts: f.Conflicts, None: f.None + f.Against}
	if got != report.Effects {
		t.Errorf("the forecast was %+v, and it became %+v", got, report.Effects)
	}
	after, err := r.store.Forecast(t.Context(), "default", report.ID)
	if err != nil || after.Lines() != 0 {
		t.Errorf("what is applied is forecast again: %+v, %v", after, err)
	}
	if _, err := r.store.Forecast(t.Context(), "other", report.ID); !errors.Is(err, ErrReportNotFound) {
		t.Errorf("another tenant's report: %v", err)
	}
}
