package reconcile

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkReport compares 100,000 lines with 100,000 commands: by key or by
// reference, with an amount, every hundredth line different, missing here or
// missing there.
func BenchmarkReport(b *testing.B) {
	const n = 100_000
	r := newReportRig(b)
	r.crowd(b, n, "success")
	for _, name := range []string{"key", "reference"} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				r.benchmarkOne(b, name, n)
			}
		})
	}
}

func (r *reportRig) benchmarkOne(b *testing.B, name string, n int) {
	prefix := map[string]string{"key": "k", "reference": "ref"}[name]
	file := &lineGenerator{header: name + ",state,amount\n", n: n, line: func(i int) string {
		switch i % 100 {
		case 0:
			return fmt.Sprintf("%s%d,rejected,%d.5\n", prefix, i, i)
		case 1:
			return fmt.Sprintf("%s%d,success,%d.51\n", prefix, i, i)
		case 2:
			return fmt.Sprintf("%s%d,success,%d.5\n", prefix, i+n, i)
		default:
			return fmt.Sprintf("%s%d,success,%d.50\n", prefix, i, i)
		}
	}}
	began := time.Now()
	report, err := r.store.Upload(b.Context(), reportOf(func(q *ReportRequest) {
		q.From, q.Compare = time.Unix(0, 0), []Comparison{{"amount", "/body/amount"}}
	}), file)
	if err != nil {
		b.Fatal(err)
	}
	uploaded := time.Now()
	stop := r.run(b)
	report = r.reach(b, "default", report.ID, ReportCompared)
	stop()
	b.ReportMetric(uploaded.Sub(began).Seconds(), "s-upload")
	b.ReportMetric(time.Since(uploaded).Seconds(), "s-compare")
	want := ReportCounts{Matched: n / 100 * 97, Different: n / 50, MissingHere: n / 100, MissingThere: n / 100}
	if report.Counts != want {
		b.Errorf("got %+v, want %+v", report.Counts, want)
	}
}
