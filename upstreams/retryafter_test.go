package upstreams

import (
	"net/http"
	"testing"
	"time"
)

// TestRetryAfterAt reads what upstreams write where Retry-After is not the place.
func TestRetryAfterAt(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 30, 0, time.UTC)
	for found, want := range map[string]string{
		"64.57": "65", "5": "5", "0.2": "1", "1796126490": "60", "1796126490.5": "61", "1796126490000": "60",
		"2026-12-01T12:01:30Z": "60", "2026-12-01T13:01:30.250+01:00": "61", "Tue, 01 Dec 2026 12:01:30 GMT": "60",
		"2026-12-01T12:00:00Z": "2026-12-01T12:00:00Z", "1796126400": "1796126400", "-5": "-5", "0": "0", "soon": "soon", "NaN": "NaN", "1e300": "1e300",
	} {
		if got, note := RetryAfterAt(found, http.Header{}, now); got != want || note != "" {
			t.Errorf("%s: %q, note %q, want %q", found, got, note, want)
		}
	}
	ahead := http.Header{"Date": {now.Add(10 * time.Minute).Format(http.TimeFormat)}}
	if got, note := RetryAfterAt("1796127090", ahead, now); got != "60" || note == "" {
		t.Errorf("by a clock that is ahead: %q, note %q", got, note)
	}
}

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
		"no wait by a clock ahead":   {http.Header{"Retry-After": {at(10 * time.Minute)}, "Date": {at(10 * time.Minute)}}, "0", true},
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
