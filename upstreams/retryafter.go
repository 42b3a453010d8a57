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
	if err != nil || header.Get("Age") != "" {
		return value, ""
	}
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return value, ""
	}
	counted := strconv.FormatInt(int64(math.Ceil(at.Sub(date).Seconds())), 10)
	if _, ok := outcome.RetryAfter(counted, now); !ok {
		return value, ""
	}
	if apart := date.Sub(now).Round(time.Second); apart.Abs() > clockApart {
		note = fmt.Sprintf("Retry-After is counted from the response's own Date, which is %s from our clock", apart)
	}
	return counted, note
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
