package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// canary is a secret that can be told from all others, wherever a part of it
// turns up and in whatever spelling.
type canary struct {
	name  string
	value string
	parts []string // what is looked for
}

// odd stands in canaries: each of the usual ways to write a text down spells some
// of it differently, and a header can carry it.
const odd = `/+=<&"> '\%~`

// canaries are those of one run. where says who may hold one.
type canaries struct {
	list []canary
	own  map[string][]string // by the canary's name: places that may hold it
}

// make makes a canary with the odd characters in its middle. So what is cut off
// somewhere in it, or spelled in part, still has one of two plain halves.
func (c *canaries) make(name string) string {
	n := len(c.list)
	return c.know(name, fmt.Sprintf("K7q%02dZaw%s%02dP9vXu%02d", n, odd, n, n))
}

// know takes a secret as it is, such as one that the executor made.
func (c *canaries) know(name, value string) string {
	c.list = append(c.list, canary{name, value, partsOf(value)})
	return value
}

// value is what stands behind a name.
func (c *canaries) value(name string) string {
	return c.list[slices.IndexFunc(c.list, func(one canary) bool { return one.name == name })].value
}

// allow says that a place may hold a canary.
func (c *canaries) allow(name string, places ...string) {
	if c.own == nil {
		c.own = map[string][]string{}
	}
	c.own[name] = append(c.own[name], places...)
}

// plainRun is text that every spelling but base64 and hex leaves alone.
var plainRun = regexp.MustCompile(`[A-Za-z0-9]{8,}`)

// partsOf are the pieces that betray a value: its plain runs, their beginnings and
// ends, and each of these in base64 at any offset, in hex, and with every byte
// escaped.
func partsOf(value string) []string {
	var parts []string
	for _, run := range plainRun.FindAllString(value, -1) {
		parts = append(parts, run[:8], run[len(run)-8:])
	}
	if len(parts) == 0 {
		parts = []string{value}
	}
	for _, part := range slices.Clone(parts) {
		parts = append(parts, inBase64(part)...)
		parts = append(parts, hex.EncodeToString([]byte(part)), strings.ToUpper(hex.EncodeToString([]byte(part))), each(part, "%%%02x"), each(part, "%%%02X"), each(part, `\u%04x`), each(part, "&#%d;"), each(part, `\x%02x`))
	}
	slices.Sort(parts)
	return slices.Compact(parts)
}

// inBase64 is what base64 makes of a text in the middle of something, without the
// signs that depend on its neighbours.
func inBase64(text string) []string {
	var out []string
	for offset := range 3 {
		encoded := base64.StdEncoding.EncodeToString(append(make([]byte, offset), text...))
		from, to := (offset*8+5)/6, (offset+len(text))*8/6
		out = append(out, encoded[from:to], strings.NewReplacer("+", "-", "/", "_").Replace(encoded[from:to]))
	}
	return out
}

func each(text, format string) string {
	var b strings.Builder
	for i := range len(text) {
		fmt.Fprintf(&b, format, text[i])
	}
	return b.String()
}

// place is somewhere a secret could have got to.
type place struct {
	name string
	text []byte
}

// search reports every canary that is where it must not be.
func (c *canaries) search(t *testing.T, places []place) {
	t.Helper()
	size := 0
	for _, p := range merged(places) {
		size += len(p.text)
		for _, secret := range c.list {
			if slices.ContainsFunc(c.own[secret.name], func(own string) bool { return strings.HasPrefix(p.name, own) }) {
				continue
			}
			for _, part := range secret.parts {
				if at := bytes.Index(p.text, []byte(part)); at >= 0 {
					t.Errorf("%s holds %q of %s: …%q…", p.name, part, secret.name, p.text[max(0, at-80):min(len(p.text), at+len(part)+40)])
					break
				}
			}
		}
	}
	t.Logf("searched %d answers, %d KiB, for %d secrets", len(places), size>>10, len(c.list))
}

// merged puts places of a kind together: to search few long texts is quicker.
func merged(places []place) []place {
	kinds := map[string]*bytes.Buffer{}
	for _, p := range places {
		kind := kindOf(p.name)
		if kinds[kind] == nil {
			kinds[kind] = &bytes.Buffer{}
		}
		kinds[kind].Write(p.text)
		kinds[kind].WriteByte('\n')
	}
	var list []place
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		list = append(list, place{kind, kinds[kind].Bytes()})
	}
	return list
}

// kindOf is a place without what tells it from its like.
func kindOf(name string) string { return idInPath.ReplaceAllString(name, "*") }
