package api

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"executor/internal/testkit/tenants"
)

// question is one request that names something of a tenant.
type question struct {
	method, path, body string
	header             http.Header
	kind               string // of the thing that the path names
}

func (q question) String() string { return q.method + " " + q.path + " " + q.body }

// text is all that the question says.
func (q question) text() string { return fmt.Sprint(q, q.header) }

// thing is what the {id} of an operation is, as the first kind; a change that only
// one command takes names another one.
func thing(op operation) string {
	if kind, special := map[string]string{
		"LookUpCommand": "asked", "ResendCommand": "doubted", "CorrectCommand": "disputed", "CancelCommand": "waiting", "ListLookups": "asked", "ListNotices": "disputed", "ChallengeWebhook": "unproven",
	}[op.id]; special {
		return kind
	}
	if !strings.Contains(op.pattern, "{id}") {
		return ""
	}
	for prefix, kind := range map[string]string{
		"/v1/commands/": "command", "/v1/webhooks/": "webhook", "/v1/webhook-deliveries/": "delivery", "/v1/reconciliations/": "report", "/v1/reviews/bulk/": "bulk",
	} {
		if strings.HasPrefix(op.pattern, prefix) {
			return kind
		}
	}
	return ""
}

// questions are all that an operation can be asked about things of these names. An
// operation, a parameter or a body that the test knows nothing of fails it.
func questions(t *testing.T, op operation, n tenants.Names, versions map[string]string) []question {
	t.Helper()
	kinds := []string{""}
	if strings.Contains(op.pattern, "{id}") {
		kinds = n.IDs()
		slices.SortFunc(kinds, func(a, b string) int {
			if own := thing(op); a == own || b == own {
				return map[bool]int{true: -1, false: 1}[a == own]
			}
			return strings.Compare(a, b)
		})
		if !slices.Contains(kinds, thing(op)) {
			t.Fatalf("%s: the test does not know what its {id} is of", op.id)
		}
	}
	var list []question
	for _, kind := range kinds {
		path := strings.NewReplacer("{id}", n[kind], "{name}", n["upstream"], "{upstream}", n["upstream"], "{code}", "not_found").Replace(op.pattern)
		if strings.Contains(path, "{") {
			t.Fatalf("%s: the test does not know the parameter of %s", op.id, path)
		}
		for _, query := range queries(t, op, n) {
			for _, body := range bodies(t, op, n) {
				list = append(list, question{method: op.method, path: path + query, body: body, kind: kind, header: headers(op, n, versions[kind])})
			}
		}
		if op.id == "ListEvents" {
			stream := question{method: op.method, path: path, kind: kind, header: http.Header{"Accept": {eventStream}, "Last-Event-Id": {"1"}}}
			list = append(list, stream)
		}
	}
	return list
}

// headers are those that an operation takes.
func headers(op operation, n tenants.Names, version string) http.Header {
	h := http.Header{}
	if version != "" {
		h.Set(versionHeader, version)
	}
	switch op.id {
	case "SubmitCommand":
		h.Set(keyHeader, n["key"])
	case "ReceiveNotice":
		h.Set("X-Signature", strings.Repeat("0", 64))
	case "CreateReconciliation":
		h.Set("Content-Type", csvType)
		return h
	case "ApplyUpstream":
		h.Set("Content-Type", yamlType)
		return h
	}
	h.Set("Content-Type", "application/json")
	return h
}

// queries are one for each parameter, and the one without any.
func queries(t *testing.T, op operation, n tenants.Names) []string {
	t.Helper()
	values := map[string]string{
		"state": "unresolved", "operation": "charge", "upstream": n["upstream"], "key": n["key"], "reference": n["reference"], "metadata": "",
		"created_after": "2020-01-01T00:00:00Z", "created_before": "2120-01-01T00:00:00Z", "since": "2020-01-01T00:00:00Z", "until": "2120-01-01T00:00:00Z",
		"after": "2020-01-01T00:00:00Z", "before": "2120-01-01T00:00:00Z", "from": "2020-01-01T00:00:00Z", "cursor": n["cursor "+op.id], "limit": "2",
		"wait": "1", "dry_run": "true", "kind": "unresolved", "reason": "no_response", "evidence": "sent_no_response", "assignee": n["actor"],
		"older_than": "0s", "metadata_min": "", "metadata_max": "", "webhook": n["webhook"], "command": n["paid"], "event": n["event"], "type": "command.success",
		"tenant": n["tenant"], "actor": n["actor"], "action": "command.note", "subject": n["webhook"], "pin": n["pin"], "verbose": "true",
		"columns": "", "states": "", "compare": "", "delimiter": ";", "settles_for": "1h",
	}
	families := map[string]string{
		"metadata": "metadata.of=" + n["tenant"], "metadata_min": "metadata_min.amount=1", "metadata_max": "metadata_max.amount=1000",
		"columns": "columns.key=key", "states": "states.paid=success", "compare": "compare.of=metadata.of",
	}
	base := ""
	if op.id == "CreateReconciliation" { // the report is of an upstream that both have
		base = "?upstream=" + tenants.Upstream
	}
	list := []string{base}
	for _, name := range op.query {
		value, known := values[name]
		query := cmpOr(families[name], url.Values{name: {value}}.Encode())
		switch {
		case !known:
			t.Fatalf("%s: the test does not know what to ask for by %s", op.id, name)
		case name == "cursor" && value == "", name == "upstream" && base != "":
			continue
		case base != "":
			query = base[1:] + "&" + query
		}
		list = append(list, "?"+query)
	}
	if op.id == "CreateReconciliation" {
		list = append(list, "?upstream="+n["upstream"])
	}
	if op.id == "ReceiveNotice" {
		list = append(list, "?tenant="+n["tenant"])
	}
	return list
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// bodies are those that an operation can be sent.
func bodies(t *testing.T, op operation, n tenants.Names) []string {
	t.Helper()
	submission := func(key, upstream string) string {
		return `{"idempotency_key":"` + key + `","upstream":"` + upstream + `","operation":"charge","body":{"amount":1},"metadata":{"of":"` + n["tenant"] + `"}}`
	}
	bulk := func(more string) string { return `{"action":"note","reason":"shift",` + more + `}` }
	all := map[string][]string{
		"SubmitCommand": {
			`{"upstream":"` + n["upstream"] + `","operation":"pay","headers":{"X-Reference":"` + n["reference"] + `","X-Note":"` + n["tenant"] +
				`"},"body":{"amount": 100, "note": "for ` + n["tenant"] + `"},"metadata":{"of":"` + n["tenant"] + `"}}`,
			`{"upstream":"` + tenants.Upstream + `","operation":"pay","body":{"amount":100}}`,
		},
		"SubmitBatch": {`{"commands":[` + submission(n["key"], tenants.Upstream) + `,` + submission("item-"+n["tenant"], n["upstream"]) + `,` +
			submission(tenants.KeyOfPaid, tenants.Upstream) + `]}`},
		"ResolveCommand": {`{"state":"success","reference":"` + n["reference"] + `","reason":"seen"}`},
		"CorrectCommand": {`{"state":"rejected","reason":"seen"}`},
		"LookUpCommand":  {`{"reason":"seen"}`},
		"ResendCommand":  {`{"absent":true,"reason":"seen","evidence_reference":"statement 7"}`},
		"AssignCommand":  {`{"assignee":"` + n["actor"] + `","reason":"knows it"}`},
		"NoteCommand":    {`{"text":"called them"}`},
		"StartBulk": {
			bulk(`"dry_run":true,"filter":{"upstream":"` + n["upstream"] + `"}`),
			bulk(`"dry_run":true,"filter":{"assignee":"` + n["actor"] + `"}`),
			bulk(`"dry_run":true,"filter":{"metadata":{"of":"` + n["tenant"] + `"}}`),
			bulk(`"id":"` + n["bulk"] + `","filter":{"upstream":"` + tenants.Upstream + `"}`),
		},
		"ApplyUpstream": {
			"version: 1\nupstream: " + n["upstream"] + "\ntenant: " + n["tenant"] + "\nbase_url: https://bank.example\noperations: {pay: {method: POST, path: /p, body: json}}\n",
			"version: 1\nupstream: " + n["upstream"] + "\ntenant: acme\nbase_url: https://bank.example\noperations: {pay: {method: POST, path: /p, body: json}}\n",
		},
		"PauseUpstream":    {`{"reason":"maintenance"}`},
		"FreezeDeployment": {`{"reason":"drill"}`},
		"ReceiveNotice":    {`{"event":"` + tenants.Event + `","key":"` + tenants.KeyOfPaid + `","state":"refused"}`},
		"CreateReconciliation": {"command_id,key,reference,state\n" + n["paid"] + ",,,rejected\n" + n["command"] + ",,,success\n," + n["key"] + ",,rejected\n,," +
			n["reference"] + ",rejected\n"},
		"ApplyReconciliation": {`{"reason":"closing"}`},
		"CreateWebhook":       {`{"url":"` + n["url"] + `","upstreams":["` + n["upstream"] + `"]}`},
		"UpdateWebhook":       {`{"upstreams":["` + n["upstream"] + `"]}`, `{"disabled":true}`},
		"RotateWebhookSecret": {`{"reason":"leaked"}`},
		"RedeliverRange":      {`{"since":"2020-01-01T00:00:00Z","states":["delivered","pending"]}`},
	}
	if known, found := all[op.id]; found {
		return known
	}
	empty := []string{"CancelCommand", "ResumeUpstream", "ResumeDeployment", "AdoptDeployment", "DeleteWebhook", "TestWebhook", "ChallengeWebhook", "Redeliver"}
	if op.method != http.MethodGet && !slices.Contains(empty, op.id) {
		t.Fatalf("%s: the test does not know what to send to it", op.id)
	}
	return []string{""}
}

// versionsOf are those of the things that have one, so that a change which crossed
// would be made.
func versionsOf(t *testing.T, w *tenants.World, th *tenants.Things) map[string]string {
	t.Helper()
	versions := map[string]string{}
	names := th.Names()
	for _, kind := range slices.Sorted(maps.Keys(names)) {
		id, ok := parseID(names[kind])
		if !ok {
			continue
		}
		if c, err := w.Commands.Get(t.Context(), th.Tenant, id); err == nil {
			versions[kind] = quoted(c.Version)
		} else if e, err := w.Hooks.Get(t.Context(), th.Tenant, id); err == nil {
			versions[kind] = quoted(e.Version)
		} else {
			versions[kind] = "1"
		}
	}
	return versions
}
