package upstreams

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"executor/outcome"
)

// clockApart is how far an upstream's clock may be from ours without a word.
const clockApart = 5 * time.Second

// RetryAfter gives the Retry-After of a response as decisions read it: seconds, or
// what makes no sense to them and is ignored there. A date is counted from the
// response's own Date (RFC 9110, section 6.6.1), since a clock that is wrong is wrong in
// both; from now where there is none, or where a cache may have kept the response
// (Age). Two values that differ are none. note is for people, "" if there is nothing to
// say.
func RetryAfter(header http.Header, now time.Time) (value, note string) {
	value = onlyValue(header.Values("Retry-After"))
	at, err := http.ParseTime(value)
	if date, ok := dateOf(header); ok && err == nil {
		return until(at, date, now, value)
	}
	return value, ""
}

// RetryAfterAt is RetryAfter of what a rule found in the response instead: seconds, with
// a fraction or without; seconds or milliseconds since 1970; a date of HTTP or of
// RFC 3339.
func RetryAfterAt(found string, header http.Header, now time.Time) (value, note string) {
	found = strings.TrimSpace(found)
	at, err := http.ParseTime(found)
	if err != nil {
		at, err = time.Parse(time.RFC3339, found)
	}
	if n, bad := strconv.ParseFloat(found, 64); bad == nil {
		switch {
		case n > 1e9 && n < 1e11:
			at, err = time.Unix(int64(math.Ceil(n)), 0), nil
		case n >= 1e12 && n < 1e14:
			at, err = time.UnixMilli(int64(n)), nil
		case n > 0 && n <= 1e9:
			return strconv.FormatInt(int64(math.Ceil(n)), 10), ""
		}
	}
	if err != nil {
		return found, ""
	}
	from, ok := dateOf(header)
	if !ok {
		from = now
	}
	return until(at, from, now, found)
}

// dateOf is when a response was made by the upstream's clock; false where it does not
// say, or a cache may have kept it.
func dateOf(header http.Header) (time.Time, bool) {
	date, err := http.ParseTime(header.Get("Date"))
	return date, err == nil && header.Get("Age") == ""
}

// until is the time from one moment to another in seconds, or fallback if that is no
// wait.
func until(at, from, now time.Time, fallback string) (value, note string) {
	value = strconv.FormatInt(int64(math.Ceil(at.Sub(from).Seconds())), 10)
	if _, ok := outcome.RetryAfter(value, now); !ok {
		if _, later := outcome.RetryAfter(fallback, now); later && at.Sub(from) < time.Second {
			return "0", "Retry-After is not later than the response's own Date: it asks for no wait"
		}
		return fallback, ""
	}
	if apart := from.Sub(now).Round(time.Second); apart.Abs() > clockApart {
		note = fmt.Sprintf("Retry-After is counted from the response's own Date, which is %s from our clock", apart)
	}
	return value, note
}

// onlyValue is a header's value where it is given once, or as often as you like but
// always the same. Others are put together, so that whoever reads them sees all.
func onlyValue(values []string) string {
	var different []string
	for _, v := range values {
		if v = strings.TrimSpace(v); v != "" && !slices.Contains(different, v) {
			different = append(different, v)
		}
	}
	return strings.Join(different, ", ")
}
