package simulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

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
	{"endless", "never end the answer's body, until the client closes", "endless", onlyFlag(func(b *Behavior, on bool) { b.endless = on })},
	{"effect_after", "answer (or drop, or stall) now, the effect takes place later", "effect_after=2s", span(func(b *Behavior, d time.Duration) { b.effectAfter = d })},
	{"pending", "answer 202 with a link; the payment is done after the duration, or once it was found pending so many times, without either never", "pending[=2s|3]", setPending},
	{"link", "where the link of a 202 stands", "link=Location|Operation-Location|body|none", func(b *Behavior, v string) error {
		b.link = v
		return oneOf(v, "Location", "Operation-Location", "body", "none")
	}},
	{"link_to", "the link of a 202 is this, and leads to the payment", "link_to=/jobs/{id}", func(b *Behavior, v string) error { b.linkTo = v; return printable(v) }},
	{"errored", "the payment fails (at once: 402, or after pending) and can be found so; it moves no money", "errored", onlyFlag(func(b *Behavior, on bool) { b.errored = on })},
	{"lag", "searches find the payment only after this time, without one never", "lag[=2s]", duration(func(b *Behavior, d time.Duration) { b.lag = d })},
	{"vanish", "it is found so many times, by searches and links, and then no more", "vanish=1", func(b *Behavior, v string) (err error) {
		b.vanish, err = number(v, 1, 1<<30)
		return err
	}},
	{"copies", "searches find it so many times, each with an id of its own", "copies=2", func(b *Behavior, v string) (err error) {
		b.copies, err = number(v, 1, 100)
		return err
	}},
	{"amount", "it is found with this amount instead of its own", "amount=7", func(b *Behavior, v string) error { b.amount = v; return jsonNumber(v) }},
	{"lookup", "any step, for the questions about this payment: by id, link, key or client_reference", "lookup.status=500", func(*Behavior, string) error { return errors.New("it needs a step") }},
	{"notice", "once the payment is done or errored, and this time later, a notice goes to the receiver of /_notices", "notice[=2s]", func(b *Behavior, v string) error {
		if v == "" {
			v = "1ns"
		}
		return span(func(b *Behavior, d time.Duration) { b.notice = d })(b, v)
	}},
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

// setPending takes a span, a number of questions, or nothing for never.
func setPending(b *Behavior, v string) error {
	if n, err := number(v, 1, 1<<30); err == nil {
		b.pendingTimes = n
		return nil
	}
	return duration(func(b *Behavior, d time.Duration) { b.pending = d })(b, v)
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

func jsonNumber(v string) error {
	var n json.Number
	if err := json.Unmarshal([]byte(v), &n); err != nil {
		return fmt.Errorf("%q is not a number", v)
	}
	return nil
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
