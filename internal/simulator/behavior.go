package simulator

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// forever is the duration of a step that names none.
const forever time.Duration = -1

// Behavior is what one request shall meet, parsed from steps such as
// `commit,drop` or `times=2;status=503`. The zero Behavior is an upstream that
// works.
type Behavior struct {
	text string

	commit       *bool // as asked for; nil follows from the rest, see commits
	drop         bool
	reset        bool
	early        bool
	closes       bool
	leftover     bool
	html         bool
	expiredToken bool
	storeErrors  bool
	noReplay     bool
	gzip         string // "", "true" or "broken"
	status       int
	retryAfter   string
	redirect     string
	truncates    bool
	truncate     int // bytes of the body that are sent, if it truncates
	times        int // 0: every attempt
	stall        time.Duration
	effectAfter  time.Duration
	pending      time.Duration
	lag          time.Duration
	retention    time.Duration
}

// step is one word of a behaviour.
type step struct {
	name  string
	means string // for people; the value, if it takes one, stands in the name's place in usage
	usage string
	set   func(b *Behavior, value string) error
}

// steps are all words, in the order in which the manual shows them.
var steps = []step{
	{"commit", "the effect takes place, before anything that goes wrong", "commit[=true|false]", func(b *Behavior, v string) error {
		yes, err := flag(v)
		b.commit = &yes
		return err
	}},
	{"drop", "close the connection without an answer; without commit nothing took place", "drop", onlyFlag(func(b *Behavior, on bool) { b.drop = on })},
	{"reset", "like drop, with a TCP reset", "reset", onlyFlag(func(b *Behavior, on bool) { b.reset = on })},
	{"stall", "wait, before the effect or, with commit, after it; without a duration no answer ever comes", "stall[=2s]", duration(func(b *Behavior, d time.Duration) { b.stall = d })},
	{"status", "answer this status; the effect takes place if it is 2xx, or with commit", "status=503", func(b *Behavior, v string) (err error) {
		b.status, err = number(v, 200, 599)
		return err
	}},
	{"retry_after", "send this Retry-After", "retry_after=2", func(b *Behavior, v string) error { b.retryAfter = v; return printable(v) }},
	{"redirect", "answer 302 (or the status given) with this Location; no effect without commit", "redirect[=/elsewhere]", func(b *Behavior, v string) error {
		b.redirect = v
		if v == "" {
			b.redirect = "/v1/elsewhere"
		}
		return printable(v)
	}},
	{"html", "answer 200 with a page, as a proxy or a login would; no effect without commit", "html", onlyFlag(func(b *Behavior, on bool) { b.html = on })},
	{"truncate", "send this many bytes of the answer's body, then close", "truncate=10", func(b *Behavior, v string) (err error) {
		b.truncates = true
		b.truncate, err = number(v, 0, 1<<30)
		return err
	}},
	{"gzip", "compress the answer, asked for or not; broken damages it", "gzip[=broken]", func(b *Behavior, v string) error {
		b.gzip = v
		if v == "" {
			b.gzip = "true"
		}
		return oneOf(b.gzip, "true", "broken")
	}},
	{"early", "answer before the request's body is read; only by header or for a path", "early", onlyFlag(func(b *Behavior, on bool) { b.early = on })},
	{"leftover", "send a second answer after the first, which nobody asked for", "leftover", onlyFlag(func(b *Behavior, on bool) { b.leftover = on })},
	{"close", "close the connection after the answer", "close", onlyFlag(func(b *Behavior, on bool) { b.closes = on })},
	{"effect_after", "answer (or drop) now, the effect takes place later", "effect_after=2s", span(func(b *Behavior, d time.Duration) { b.effectAfter = d })},
	{"pending", "answer 202 with a link; the payment is done after the duration, without one never", "pending[=2s]", duration(func(b *Behavior, d time.Duration) { b.pending = d })},
	{"lag", "searches find the payment only after this time, without one never", "lag[=2s]", duration(func(b *Behavior, d time.Duration) { b.lag = d })},
	{"expired_token", "answer 401 until a newer token of /oauth/token comes", "expired_token", onlyFlag(func(b *Behavior, on bool) { b.expiredToken = on })},
	{"replay", "off: the key means nothing, each request has its effect", "replay=on|off", func(b *Behavior, v string) error {
		b.noReplay = v == "off"
		return oneOf(v, "on", "off")
	}},
	{"retention", "the key is forgotten after this time", "retention=2s", span(func(b *Behavior, d time.Duration) { b.retention = d })},
	{"store_errors", "an error is stored under the key and replayed too", "store_errors", onlyFlag(func(b *Behavior, on bool) { b.storeErrors = on })},
	{"times", "all of this for the first attempts only, then work", "times=2", func(b *Behavior, v string) (err error) {
		b.times, err = number(v, 1, 1<<30)
		return err
	}},
}

// ParseBehavior reads steps, each `name` or `name=value`, separated by commas or
// semicolons. Their order does not matter.
func ParseBehavior(text string) (Behavior, error) {
	b := Behavior{text: strings.TrimSpace(text)}
	for _, word := range strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == ';' }) {
		name, value, _ := strings.Cut(strings.TrimSpace(word), "=")
		if name == "first" {
			name = "times"
		}
		i := slices.IndexFunc(steps, func(s step) bool { return s.name == name })
		if i < 0 {
			return Behavior{}, fmt.Errorf("unknown step %q; there are %s", name, stepNames())
		}
		if err := steps[i].set(&b, value); err != nil {
			return Behavior{}, fmt.Errorf("step %s: %w; write %s", name, err, steps[i].usage)
		}
	}
	return b, nil
}

// Steps lists every step as it is written, with its meaning.
func Steps() [][2]string {
	list := make([][2]string, len(steps))
	for i, s := range steps {
		list[i] = [2]string{s.usage, s.means}
	}
	return list
}

// String is the behaviour as it was asked for.
func (b Behavior) String() string { return b.text }

// commits says whether the effect takes place.
func (b Behavior) commits() bool {
	switch {
	case b.commit != nil:
		return *b.commit
	case b.effectAfter > 0:
		return true
	case b.drop, b.reset, b.stall == forever, b.html, b.redirect != "":
		return false
	default:
		return b.status == 0 || b.status < 300
	}
}

// lies says whether the answer claims an effect that does not take place.
func (b Behavior) lies() bool {
	return b.commit != nil && !*b.commit && b.status >= 200 && b.status < 300
}

// stallsFirst says whether a stall comes before the effect.
func (b Behavior) stallsFirst() bool { return b.stall != 0 && b.commit == nil }

func (b Behavior) cuts() bool { return b.drop || b.reset }

func stepNames() string {
	names := make([]string, len(steps))
	for i, s := range steps {
		names[i] = s.name
	}
	return strings.Join(names, ", ")
}

func onlyFlag(set func(*Behavior, bool)) func(*Behavior, string) error {
	return func(b *Behavior, v string) error {
		on, err := flag(v)
		set(b, on)
		return err
	}
}

func flag(v string) (bool, error) {
	if v == "" {
		return true, nil
	}
	on, err := strconv.ParseBool(v)
	if err != nil {
		return false, fmt.Errorf("%q is neither true nor false", v)
	}
	return on, nil
}

// duration takes a span, or nothing for forever.
func duration(set func(*Behavior, time.Duration)) func(*Behavior, string) error {
	bounded := span(set)
	return func(b *Behavior, v string) error {
		if v == "" {
			set(b, forever)
			return nil
		}
		return bounded(b, v)
	}
}

func span(set func(*Behavior, time.Duration)) func(*Behavior, string) error {
	return func(b *Behavior, v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d <= 0 {
			return fmt.Errorf("%q is not a duration above 0", v)
		}
		set(b, d)
		return nil
	}
}

func number(v string, least, most int) (int, error) {
	n, err := strconv.Atoi(v)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%q is not a number from %d to %d", v, least, most)
	}
	return n, nil
}

func oneOf(v string, words ...string) error {
	if !slices.Contains(words, v) {
		return fmt.Errorf("%q is not one of %s", v, strings.Join(words, ", "))
	}
	return nil
}

// printable keeps a value from ending the header line it will stand in.
func printable(v string) error {
	if strings.ContainsFunc(v, func(c rune) bool { return c < ' ' || c > '~' }) {
		return fmt.Errorf("%q holds characters that no header can carry", v)
	}
	return nil
}
