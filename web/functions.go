package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"executor/outcome"
)

// functions are what templates can call.
func functions(a *assets) template.FuncMap {
	return template.FuncMap{
		"asset":    a.path,
		"time":     timeTag,
		"ago":      ago,
		"duration": duration,
		"millis":   millis,
		"number":   number,
		"short":    short,
		"tone":     tone,
		"join":     func(list []string, by string) string { return strings.Join(list, by) },
		"pretty":   pretty,
		"dict":     dict,
		"list":     func(values ...any) []any { return values },
		"title":    capital,
		"plural":   plural,
	}
}

// timeTag is a moment in UTC, to the second, for people and for machines. With
// script the reader's own time stands in its title. Takes a time.Time or a
// *time.Time; nothing for none.
func timeTag(moment any) template.HTML {
	t, ok := momentOf(moment)
	if !ok {
		return ""
	}
	t = t.UTC()
	return template.HTML(`<time datetime="` + t.Format(time.RFC3339Nano) + `">` + t.Format("2006-01-02 15:04:05") + ` UTC</time>`) //nolint:gosec // only digits
}

// ago is a moment as a distance from now, past or future: "3m ago", "in 2h".
func ago(moment any) template.HTML {
	t, ok := momentOf(moment)
	if !ok {
		return ""
	}
	text := "now"
	switch d := time.Since(t); {
	case d >= time.Second:
		text = duration(d.Truncate(time.Second)) + " ago"
	case d <= -time.Second:
		text = "in " + duration((-d).Truncate(time.Second))
	}
	return template.HTML(`<time datetime="` + t.UTC().Format(time.RFC3339Nano) + `" title="` + t.UTC().Format("2006-01-02 15:04:05") + ` UTC">` + text + `</time>`) //nolint:gosec // only digits
}

func momentOf(moment any) (time.Time, bool) {
	switch t := moment.(type) {
	case time.Time:
		return t, !t.IsZero()
	case *time.Time:
		if t == nil {
			return time.Time{}, false
		}
		return *t, !t.IsZero()
	default:
		return time.Time{}, false
	}
}

// duration is a span in its two largest units: "2d 3h", "4m 10s", "350ms".
func duration(d time.Duration) string {
	if d < 0 {
		return "-" + duration(-d)
	}
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return strconv.FormatFloat(d.Truncate(100*time.Millisecond).Seconds(), 'f', -1, 64) + "s"
	case d < time.Hour:
		return two(int(d/time.Minute), "m", int(d%time.Minute/time.Second), "s")
	case d < 24*time.Hour:
		return two(int(d/time.Hour), "h", int(d%time.Hour/time.Minute), "m")
	default:
		return two(int(d/(24*time.Hour)), "d", int(d%(24*time.Hour)/time.Hour), "h")
	}
}

func two(large int, unit string, small int, part string) string {
	if small == 0 {
		return strconv.Itoa(large) + unit
	}
	return strconv.Itoa(large) + unit + " " + strconv.Itoa(small) + part
}

// millis is a number of milliseconds as a span.
func millis(ms any) string {
	switch n := ms.(type) {
	case int64:
		return duration(time.Duration(n) * time.Millisecond)
	case *int64:
		if n == nil {
			return ""
		}
		return duration(time.Duration(*n) * time.Millisecond)
	case float64:
		return duration(time.Duration(n * float64(time.Millisecond)))
	default:
		return ""
	}
}

// number groups the digits of a whole number by threes.
func number(n any) string {
	text := fmt.Sprint(n)
	sign := ""
	if strings.HasPrefix(text, "-") {
		sign, text = "-", text[1:]
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "\u202f" + text[i:]
	}
	return sign + text
}

// short is the end of an id, where it differs from its neighbours.
func short(id any) string {
	switch v := id.(type) {
	case uuid.UUID:
		return "…" + v.String()[24:]
	case *uuid.UUID:
		if v != nil {
			return "…" + v.String()[24:]
		}
	}
	return ""
}

// tone is the colour of a word: good, bad, doubt, busy or calm.
func tone(word any) string {
	switch fmt.Sprint(word) {
	case string(outcome.StateSuccess), "applied", "delivered", "done", "enabled", "matched", "settled", "live":
		return "good"
	case string(outcome.StateRejected), "refused", "failed", "conflict", "revoked", "disabled", "declined":
		return "bad"
	case string(outcome.StateUnresolved), "possibly_crossed", "unclear", "unknown", "review", "sent_no_response", "partial_response", "paused", "frozen", "kept":
		return "doubt"
	case string(outcome.StatePending), string(outcome.StateExecuting), "lookup", "running", "uploading", "comparing", "applying":
		return "busy"
	default:
		return "calm"
	}
}

// prettyDepth bounds the nesting of what is indented: each level makes all lines within
// it longer, and ten kilobytes of brackets would become a page of fifty megabytes.
const prettyDepth = 32

// pretty indents JSON; anything else, and what is nested too deep, stays as it is.
func pretty(raw []byte) string {
	var b bytes.Buffer
	if deeper(raw, prettyDepth) || json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// deeper reports whether brackets outside of strings nest deeper than that.
func deeper(raw []byte, most int) bool {
	depth, quoted := 0, false
	for i := 0; i < len(raw) && depth <= most; i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		}
	}
	return depth > most
}

// dict passes several values to a part: {{template "x" dict "A" 1 "B" 2}}.
func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, fmt.Errorf("dict takes pairs, not %d values", len(pairs))
	}
	m := make(map[string]any, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		m[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return m, nil
}

// capital makes a word of the API the beginning of a sentence: "not_sent" is
// "Not sent".
func capital(word any) string {
	text := strings.ReplaceAll(fmt.Sprint(word), "_", " ")
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// plural is "1 attempt", "2 attempts".
func plural(n any, one, many string) string {
	if fmt.Sprint(n) == "1" {
		return "1 " + one
	}
	return number(n) + " " + many
}
