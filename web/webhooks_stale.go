package web

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"executor/webhooks"
)

// changed is something that is not any more as the person saw it.
type changed struct{ What, Was, Now string }

// snapshot is a webhook as a form was rendered from it. It travels with the form,
// only to say what changed: the version decides.
type snapshot struct {
	Version     int      `json:"version"`
	URL         string   `json:"url"`
	Description string   `json:"description"`
	Events      []string `json:"events"`
	Upstreams   []string `json:"upstreams"`
	Ordered     bool     `json:"ordered"`
	Disabled    string   `json:"disabled"` // by what
	Secret      string   `json:"secret"`   // the id of the newest
}

func snapshotOf(e webhooks.Endpoint) snapshot {
	s := snapshot{Version: e.Version, URL: e.URL, Description: e.Description, Events: e.Events, Upstreams: e.Upstreams, Ordered: e.Ordered}
	if e.DisabledAt != nil {
		s.Disabled = e.DisabledReason
	}
	if len(e.Secrets) > 0 {
		s.Secret = e.Secrets[0].ID.String()
	}
	return s
}

func (s snapshot) encode() string {
	text, _ := json.Marshal(s) // texts always encode
	return string(text)
}

// seen is the snapshot that a form brought. Version 0, of a form without one, is
// never current.
func (v *visit) seen() (s snapshot) {
	if json.Unmarshal([]byte(v.form("seen")), &s) != nil || s.Version <= 0 {
		return snapshot{Version: -1}
	}
	return s
}

// since lists what is different now.
func (s snapshot) since(e webhooks.Endpoint) (list []changed) {
	now := snapshotOf(e)
	add := func(what, was, is string) {
		if was != is {
			list = append(list, changed{what, was, is})
		}
	}
	add("URL", s.URL, now.URL)
	add("Description", s.Description, now.Description)
	add("Events", orAll(s.Events), orAll(now.Events))
	add("Upstreams", orAll(s.Upstreams), orAll(now.Upstreams))
	add("Order", orderText(s.Ordered), orderText(now.Ordered))
	add("Standing", standingText(s.Disabled), standingText(now.Disabled))
	add("Newest secret", s.Secret, now.Secret)
	if len(list) == 0 { // changed and changed back
		list = []changed{{"Version", strconv.Itoa(s.Version), strconv.Itoa(now.Version)}}
	}
	return list
}

func orAll(list []string) string {
	if len(list) == 0 {
		return "all"
	}
	return strings.Join(slices.Sorted(slices.Values(list)), ", ")
}

func orderText(ordered bool) string {
	if ordered {
		return "kept for each command"
	}
	return "not kept"
}

func standingText(disabled string) string {
	if disabled == "" {
		return "enabled"
	}
	return disabled
}
