package upstreams

import (
	"net/http"
	"testing"
	"time"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 30, 0, time.UTC)
	at := func(offset time.Duration) string { return now.Add(offset).Format(http.TimeFormat) }
	for name, tt := range map[string]struct {
		header http.Header
		want   string
		noted  bool
	}{
		"none":                       {http.Header{}, "", false},
		"seconds":                    {http.Header{"Retry-After": {"120"}, "Date": {at(time.Hour)}}, "120", false},
		"the same twice":             {http.Header{"Retry-After": {"7", " 7", ""}}, "7", false},
		"two that differ":            {http.Header{"Retry-After": {"7", "9"}}, "7, 9", false},
		"a date alone":               {http.Header{"Retry-After": {at(time.Minute)}}, at(time.Minute), false},
		"a date by our clock":        {http.Header{"Retry-After": {at(time.Minute)}, "Date": {at(0)}}, "60", false},
		"a date by a clock ahead":    {http.Header{"Retry-After": {at(11 * time.Minute)}, "Date": {at(10 * time.Minute)}}, "60", true},
		"a date by a clock behind":   {http.Header{"Retry-After": {at(-9 * time.Minute)}, "Date": {at(-10 * time.Minute)}}, "60", true},
		"a date before the response": {http.Header{"Retry-After": {at(-time.Hour)}, "Date": {at(0)}}, at(-time.Hour), false},
		"a Date from long ago":       {http.Header{"Retry-After": {at(time.Minute)}, "Date": {at(-8760 * time.Hour)}}, at(time.Minute), false},
		"no Date to speak of":        {http.Header{"Retry-After": {at(time.Minute)}, "Date": {"now"}}, at(time.Minute), false},
		"kept by a cache":            {http.Header{"Retry-After": {at(time.Minute)}, "Date": {at(-time.Hour)}, "Age": {"3600"}}, at(time.Minute), false},
		"nonsense":                   {http.Header{"Retry-After": {"soon"}}, "soon", false},
	} {
		t.Run(name, func(t *testing.T) {
			got, note := RetryAfter(tt.header, now)
			if got != tt.want || (note != "") != tt.noted {
				t.Errorf("%q, note %q, want %q", got, note, tt.want)
			}
		})
	}
}
