package outcome_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"executor/outcome"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

// TestSettle follows whole histories of lookups: at second n this was found.
func TestSettle(t *testing.T) {
	type look struct {
		second  int
		finding outcome.Finding
	}
	twice := outcome.Absence{SettlesAfter: 90 * time.Second, Confirmations: 2, Spacing: 30 * time.Second}
	tests := []struct {
		name    string
		absence outcome.Absence
		looks   []look
		want    outcome.SettlementVerdict
		absents int
		next    int // second at which the next absent counts; 0 = never
	}{
		{"applied", twice, []look{{2, "applied"}}, outcome.SettlementApplied, 0, 0},
		{"refused", twice, []look{{2, "refused"}}, outcome.SettlementRefused, 0, 0},
		{"unknown proves nothing", twice, []look{{100, "unknown"}, {200, "unknown"}, {300, "unknown"}}, outcome.SettlementOpen, 0, 0},
		{"too early", twice, []look{{20, "absent"}, {50, "absent"}, {89, "absent"}}, outcome.SettlementOpen, 0, 90},
		{"one is not enough", twice, []look{{90, "absent"}}, outcome.SettlementOpen, 1, 120},
		{"not spaced", twice, []look{{90, "absent"}, {119, "absent"}}, outcome.SettlementOpen, 1, 120},
		{"confirmed", twice, []look{{20, "absent"}, {90, "absent"}, {120, "absent"}}, outcome.SettlementAbsent, 2, 0},
		{"an error in between is no finding", twice, []look{{90, "absent"}, {100, "unknown"}, {120, "absent"}}, outcome.SettlementAbsent, 2, 0},
		{"found in the end", twice, []look{{90, "absent"}, {120, "applied"}}, outcome.SettlementApplied, 1, 0},
		{"seen, then not", twice, []look{{90, "absent"}, {100, "pending"}, {200, "absent"}}, outcome.SettlementOpen, 1, 230},
		{"seen, then surely gone", twice, []look{{90, "absent"}, {100, "pending"}, {200, "absent"}, {230, "absent"}}, outcome.SettlementVanished, 2, 0},
		{"never proves anything", outcome.Absence{Confirmations: 1}, []look{{900, "absent"}, {9000, "absent"}}, outcome.SettlementOpen, 0, 0},
		{"one is enough", outcome.Absence{SettlesAfter: time.Second, Confirmations: 1}, []look{{1, "absent"}}, outcome.SettlementAbsent, 1, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got outcome.Settlement
			for _, l := range tt.looks {
				got = outcome.Settle(l.finding, got.Search, tt.absence, noon, at(l.second))
			}
			next := 0
			if !got.NotBefore.IsZero() {
				next = int(got.NotBefore.Sub(noon).Seconds())
			}
			if got.Verdict != tt.want || got.Search.Absents != tt.absents || next != tt.next {
				t.Errorf("%s after %d absents, next at %d; want %s, %d, %d", got.Verdict, got.Search.Absents, next, tt.want, tt.absents, tt.next)
			}
		})
	}
}

// TestOneMoreAttemptStartsTheCountAnew: what was not found before it proves nothing
// about it.
func TestOneMoreAttemptStartsTheCountAnew(t *testing.T) {
	twice := outcome.Absence{SettlesAfter: 90 * time.Second, Confirmations: 2, Spacing: 30 * time.Second}
	got := outcome.Settle("absent", outcome.Search{}, twice, noon, at(90))
	got = outcome.Settle("absent", got.Search, twice, at(200), at(210))
	if got.Verdict != outcome.SettlementOpen || got.Search.Absents != 0 || !got.NotBefore.Equal(at(290)) {
		t.Errorf("too early after it: %+v", got)
	}
	for n, want := range []outcome.SettlementVerdict{outcome.SettlementOpen, outcome.SettlementAbsent} {
		got = outcome.Settle("absent", got.Search, twice, at(200), at(290+30*n))
		if got.Verdict != want || got.Search.Absents != n+1 {
			t.Errorf("absent %d after it: %+v, want %s", n+1, got, want)
		}
	}
}

// TestNoEarlyAbsence: whatever was found in whatever order, and whatever was sent
// in between, an absence is never confirmed before the settle time, nor with fewer
// absents in a row than asked for, nor after a sight of the command.
func TestNoEarlyAbsence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := outcome.Absence{
			SettlesAfter:  time.Duration(rapid.IntRange(0, 100).Draw(t, "settles")) * time.Second,
			Confirmations: rapid.IntRange(1, 4).Draw(t, "confirmations"),
			Spacing:       time.Duration(rapid.IntRange(0, 40).Draw(t, "spacing")) * time.Second,
		}
		var (
			s       outcome.Search
			second  int
			until   int // an attempt may be under way
			counted []int
			seen    bool
		)
		for range rapid.IntRange(1, 20).Draw(t, "looks") {
			second += rapid.IntRange(0, 60).Draw(t, "later")
			f := rapid.SampledFrom(outcome.Findings()).Draw(t, "finding")
			if rapid.IntRange(0, 9).Draw(t, "sent") == 0 {
				until, counted = second+rapid.IntRange(0, 30).Draw(t, "lasts"), nil
			}
			got := outcome.Settle(f, s, a, at(until), at(second))
			if f == outcome.FindingAbsent && (got.Search.Absents > s.Absents || got.Search.LastAbsentAt.After(s.LastAbsentAt)) {
				counted = append(counted, second)
			}
			seen = seen || f == outcome.FindingPending
			if f == outcome.FindingPending {
				counted = nil
			}
			if got.Verdict == outcome.SettlementAbsent {
				switch {
				case seen, a.SettlesAfter == 0, len(counted) < a.Confirmations, at(counted[0]).Before(at(until).Add(a.SettlesAfter)):
					t.Fatalf("confirmed absent with %v under %+v", counted, a)
				}
				for i := 1; i < len(counted); i++ {
					if at(counted[i]).Sub(at(counted[i-1])) < a.Spacing {
						t.Fatalf("confirmed absent with %v under %+v", counted, a)
					}
				}
			}
			if got.Verdict != outcome.SettlementOpen {
				return
			}
			s = got.Search
		}
	})
}

func TestScheduleNext(t *testing.T) {
	s := outcome.Schedule{FirstAfter: 2 * time.Second, Factor: 3, MaxInterval: time.Minute}
	for rounds, want := range []int{2, 6, 18, 54, 60, 60} {
		if got := s.Next(rounds, noon, time.Time{}); !got.Equal(at(want)) {
			t.Errorf("after %d rounds in %s, want %d s", rounds, got.Sub(noon), want)
		}
	}
	if got := s.Next(5, noon, at(30)); !got.Equal(at(30)) {
		t.Errorf("an absence that counts in 30 s is asked for in %s", got.Sub(noon))
	}
	if got := s.Next(0, noon, at(30)); !got.Equal(at(2)) {
		t.Errorf("an absence that counts later is asked for in %s", got.Sub(noon))
	}
	if got := (outcome.Schedule{Factor: 1, MaxInterval: time.Minute}).Next(0, noon, time.Time{}); !got.Equal(at(1)) {
		t.Errorf("a schedule that begins at once goes on in %s", got.Sub(noon))
	}
	if got := (outcome.Schedule{FirstAfter: time.Hour, Factor: 100, MaxInterval: 24 * time.Hour}).Next(1000, noon, time.Time{}); !got.Equal(noon.Add(24 * time.Hour)) {
		t.Errorf("after a thousand rounds in %s", got.Sub(noon))
	}
}
