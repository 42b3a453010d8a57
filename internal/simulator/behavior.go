package simulator

import (
	"fmt"
	"slices"
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
	pendingTimes int // questions that find it pending, instead of a duration
	lag          time.Duration
	retention    time.Duration
	errored      bool
	link         string // the header that carries the link of a 202, "body" or "none"
	linkTo       string
	copies       int // how often searches show the payment; 0: once
	amount       string
	vanish       int // how often it is found before it is gone; 0: it stays
	notice       time.Duration
	endless      bool
	lookup       *Behavior // of the questions about this payment
}

// ParseBehavior reads steps, each `name` or `name=value`, separated by commas or
// semicolons. Their order does not matter.
func ParseBehavior(text string) (Behavior, error) {
	b := Behavior{text: strings.TrimSpace(text)}
	var ofLookups []string
	for _, word := range strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == ';' }) {
		if inner, ok := strings.CutPrefix(strings.TrimSpace(word), "lookup."); ok {
			ofLookups = append(ofLookups, inner)
			continue
		}
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
	if len(ofLookups) == 0 {
		return b, nil
	}
	inner, err := ParseBehavior(strings.Join(ofLookups, ";"))
	b.lookup = &inner
	return b, err
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
	case b.effectAfter > 0, b.errored:
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
func (b Behavior) stallsFirst() bool { return b.stall != 0 && b.commit == nil && b.effectAfter == 0 }

// pends says whether the answer is that it was accepted and is not finished.
func (b Behavior) pends() bool { return b.pending != 0 || b.pendingTimes > 0 }

// hides says whether the answer is not shown.
func (b Behavior) hides() bool {
	return b.cuts() || b.status >= 300 || b.html || b.redirect != "" || b.stall == forever
}

func (b Behavior) cuts() bool { return b.drop || b.reset }

func stepNames() string {
	names := make([]string, len(steps))
	for i, s := range steps {
		names[i] = s.name
	}
	return strings.Join(names, ", ")
}
