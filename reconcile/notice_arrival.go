package reconcile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"executor/commands"
	"executor/internal/egress"
	"executor/outcome"
	"executor/upstreams"
)

// arrival is a verified notice, read, and what of it may be kept.
type arrival struct {
	upstreams.Notice
	upstream upstreams.Upstream
	weight   string
	raw      []byte // as it came
	headers  http.Header
	body     []byte
}

// noticeHeaderBytes bounds what is kept of the headers.
const noticeHeaderBytes = 16 << 10

// readArrival reads a notice twice: what decides from all of it, and what is kept
// and shown from what the newest profile does not redact.
func readArrival(u upstreams.Upstream, secrets []egress.Secret, header http.Header, body []byte) (arrival, error) {
	rules := u.Profile.Notices
	read, err := rules.Read(header, body)
	if err != nil {
		return arrival{}, err
	}
	a := arrival{Notice: read, upstream: u, weight: rules.Weight, raw: body}
	a.headers = keptHeaders(u.Profile, header, secrets)
	a.body = egress.Mask(redactAnywhere(u.Profile, body), secrets...)
	if a.Finding == outcome.FindingAbsent { // what is not there sends no notice
		a.Finding, a.Notes = outcome.FindingUnknown, append(a.Notes, "an absence in a notice proves nothing")
	}
	shown, err := rules.Read(a.headers, a.body)
	if err != nil {
		shown = upstreams.Notice{}
	}
	if shown.Reference != a.Reference {
		a.Reference, a.Notes = "", append(a.Notes, "reference: redacted, left out")
	}
	if shown.Code != a.Code || shown.Message != a.Message {
		a.Code, a.Message = shown.Code, shown.Message
	}
	a.Reference, a.Code, a.Message = commands.CleanText(a.Reference), commands.CleanText(a.Code), commands.CleanText(a.Message)
	return a, nil
}

func (a arrival) state() NoticeState {
	if a.Value == "" {
		return NoticeIgnored
	}
	return NoticeUnmatched
}

func (a arrival) notes() []string {
	if a.Notes == nil {
		return []string{}
	}
	return a.Notes
}

// keptHeaders are the headers without credentials, what any operation redacts, and
// signatures, as far as they fit.
func keptHeaders(p *upstreams.Profile, header http.Header, secrets []egress.Secret) http.Header {
	var flat []upstreams.Header
	for name, values := range header {
		for _, v := range values {
			flat = append(flat, upstreams.Header{Name: name, Value: string(egress.Mask([]byte(v), secrets...))})
		}
	}
	slices.SortFunc(flat, func(a, b upstreams.Header) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Value, b.Value))
	})
	for _, op := range p.Operations {
		flat = op.Redact(flat)
	}
	kept, room := http.Header{}, noticeHeaderBytes
	for _, h := range flat {
		if room -= len(h.Name) + len(h.Value); room < 0 {
			break
		}
		if h.Name == p.Notices.Signature.Header || h.Name == "Webhook-Signature" {
			h.Value = redacted
		}
		kept[h.Name] = append(kept[h.Name], h.Value)
	}
	return kept
}

// redactAnywhere blanks what any operation redacts in its responses, wherever in
// the document it stands: a notice wraps what the response would have been.
func redactAnywhere(p *upstreams.Profile, body []byte) []byte {
	var rules [][]string
	for _, op := range p.Operations {
		for _, pointer := range op.Redaction.Response {
			rules = append(rules, pointerPath(pointer))
		}
	}
	if len(rules) == 0 {
		return body
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var document any
	if err := decoder.Decode(&document); err != nil || decoder.More() {
		return []byte(redacted) // nothing in it can be found for sure
	}
	b := blanking{rules: rules}
	document = b.blank(document, nil)
	if !b.blanked {
		return body
	}
	return []byte(jsonText(document))
}

// blanking is one document while what the rules name is taken out.
type blanking struct {
	rules   [][]string // paths, from wherever they begin
	blanked bool
}

// blank replaces a value at which a path ends; begun are those that lead here.
func (b *blanking) blank(v any, begun [][]string) any {
	paths := append(slices.Clone(begun), b.rules...)
	if slices.ContainsFunc(paths, func(path []string) bool { return len(path) == 0 }) {
		b.blanked = true
		return redacted
	}
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			v[name] = b.blank(member, onwards(paths, name))
		}
	case []any:
		for i, member := range v {
			v[i] = b.blank(member, onwards(paths, strconv.Itoa(i)))
		}
	}
	return v
}

// onwards are the paths that go on through a step, shortened by it.
func onwards(paths [][]string, step string) [][]string {
	var on [][]string
	for _, path := range paths {
		if path[0] == step {
			on = append(on, path[1:])
		}
	}
	return on
}
