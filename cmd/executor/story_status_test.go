//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"testing"

	"executor/client"
	"executor/internal/testkit"
)

// transient lists 500 as a status that passes.
var transient = settings{"retry": "{transient_statuses: [500]}"}

// strict is an operation whose successes must name what they made.
var strict = settings{"result": "{reference: json.id, require: [has(json.id)]}"}

// ruled is an operation with rules of its own.
func ruled(rules string) settings { return settings{"answers": "[" + rules + "]"} }

// statusStories are about answers that say no, or that say nothing clear. A status
// alone does not tell whether the effect took place.
func statusStories() []story {
	return []story{
		{name: "500 with the effect, keyed", kind: "keyed", meets: "status=500,commit",
			attempts: []string{"response_received unclear 500"}, ends: "unresolved unclear_response status_denied", effects: 1},
		{name: "500 without the effect, keyed", kind: "keyed", meets: "status=500",
			attempts: []string{"response_received unclear 500"}, ends: "unresolved unclear_response status_denied"},
		{name: "500 with the effect, no key", kind: "none", meets: "status=500,commit",
			attempts: []string{"response_received unclear 500"}, ends: "unresolved unclear_response status_denied", effects: 1},
		{name: "500 without the effect, no key", kind: "none", meets: "status=500",
			attempts: []string{"response_received unclear 500"}, ends: "unresolved unclear_response status_denied"},
		{name: "500 with the effect, natural", kind: "natural", meets: "status=500,commit",
			attempts: []string{"response_received unclear 500"}, ends: "unresolved unclear_response status_denied", effects: 1},
		{name: "500 without the effect, natural", kind: "natural", meets: "status=500",
			attempts: []string{"response_received unclear 500"}, ends: "unresolved unclear_response status_denied"},
		{name: "500, safe", kind: "safe", meets: "status=500",
			attempts: []string{"response_received unclear 500"}, ends: "cancelled no_effect status_denied"},

		{name: "500 listed as transient, keyed", kind: "keyed", meets: "status=500,commit,times=1", operation: transient,
			attempts: []string{"response_received unclear 500", created}, ends: "success applied applied", effects: 1},
		{name: "500 listed as transient, no key", kind: "none", meets: "status=500,commit", operation: transient,
			attempts: []string{"response_received unclear 500"}, ends: "unresolved unclear_response status_denied", effects: 1},
		{name: "500 listed as transient, natural", kind: "natural", meets: "status=500,commit,times=1", operation: transient,
			attempts: []string{"response_received unclear 500", done}, ends: "success applied applied", effects: 2},
		{name: "500 listed as transient, safe", kind: "safe", meets: "status=500,times=1", operation: transient,
			attempts: []string{"response_received unclear 500", done}, ends: "success applied applied"},

		{name: "502 with the effect, keyed", kind: "keyed", meets: "status=502,commit,times=1",
			attempts: []string{"response_received unclear 502", created}, ends: "success applied applied", effects: 1},
		{name: "502 without the effect, keyed", kind: "keyed", meets: "status=502,times=1",
			attempts: []string{"response_received unclear 502", created}, ends: "success applied applied", effects: 1},
		{name: "502 with the effect, no key", kind: "none", meets: "status=502,commit",
			attempts: []string{"response_received unclear 502"}, ends: "unresolved unclear_response ambiguous", effects: 1},
		{name: "502 without the effect, no key", kind: "none", meets: "status=502",
			attempts: []string{"response_received unclear 502"}, ends: "unresolved unclear_response ambiguous"},
		{name: "502 with the effect, natural", kind: "natural", meets: "status=502,commit,times=1",
			attempts: []string{"response_received unclear 502", done}, ends: "success applied applied", effects: 2},
		{name: "502 without the effect, natural", kind: "natural", meets: "status=502,times=1",
			attempts: []string{"response_received unclear 502", done}, ends: "success applied applied", effects: 1},
		{name: "502, safe", kind: "safe", meets: "status=502,times=1",
			attempts: []string{"response_received unclear 502", done}, ends: "success applied applied"},

		{name: "503 with the effect, keyed", kind: "keyed", meets: "status=503,commit,times=1",
			attempts: []string{"response_received unclear 503", created}, ends: "success applied applied", effects: 1},
		{name: "503 without the effect, keyed", kind: "keyed", meets: "status=503,times=1",
			attempts: []string{"response_received unclear 503", created}, ends: "success applied applied", effects: 1},
		{name: "503 without the effect, no key", kind: "none", meets: "status=503",
			attempts: []string{"response_received unclear 503"}, ends: "unresolved unclear_response ambiguous"},
		{name: "503 with the effect, no key", kind: "none", meets: "status=503,commit",
			attempts: []string{"response_received unclear 503"}, ends: "unresolved unclear_response ambiguous", effects: 1},
		{name: "503 with the effect, natural", kind: "natural", meets: "status=503,commit,times=1",
			attempts: []string{"response_received unclear 503", done}, ends: "success applied applied", effects: 2},
		{name: "503 without the effect, natural", kind: "natural", meets: "status=503,times=1",
			attempts: []string{"response_received unclear 503", done}, ends: "success applied applied", effects: 1},
		{name: "503, safe", kind: "safe", meets: "status=503,times=1",
			attempts: []string{"response_received unclear 503", done}, ends: "success applied applied"},
		{name: "503 for ever, safe", kind: "safe", meets: "status=503",
			attempts: []string{"response_received unclear 503", "response_received unclear 503", "response_received unclear 503"},
			ends:     "cancelled no_effect max_attempts"},
		{name: "504 for ever after the effect, keyed", kind: "keyed", meets: "status=504,commit",
			attempts: []string{"response_received unclear 504", "response_received unclear 504", "response_received unclear 504"},
			ends:     "unresolved unclear_response max_attempts", effects: 1},

		// Only the origin's own mark proves something; any proxy on the way can say 502.
		{name: "502 with the mark of the origin, no key", kind: "none", operation: ruled(`{when: status == 502 && "x-origin" in headers, answer: declined}`),
			script:   answers(response("502 Bad Gateway", "X-Origin: 1\r\n", `{}`), testkit.Reply(201, `{"id":"p1"}`)),
			attempts: []string{"response_received declined 502", created}, ends: "success applied applied"},
		{name: "502 without the mark of the origin, no key", kind: "none", operation: ruled(`{when: status == 502 && "x-origin" in headers, answer: declined}`),
			script:   answers(testkit.Reply(502, `{}`)),
			attempts: []string{"response_received unclear 502"}, ends: "unresolved unclear_response ambiguous"},
		{name: "520 of an edge, no key", kind: "none", script: answers("HTTP/1.1 520 Odd\r\nContent-Length: 0\r\n\r\n"),
			attempts: []string{"response_received unclear 520"}, ends: "unresolved unclear_response status_denied"},

		{name: "422, keyed", kind: "keyed", meets: "status=422", attempts: []string{refused}, ends: "rejected refused refused", check: toldWhy},
		{name: "422, no key", kind: "none", meets: "status=422", attempts: []string{refused}, ends: "rejected refused refused", check: toldWhy},
		{name: "422, natural", kind: "natural", meets: "status=422", attempts: []string{refused}, ends: "rejected refused refused", check: toldWhy},
		{name: "422, safe", kind: "safe", meets: "status=422", attempts: []string{refused}, ends: "rejected refused refused", check: toldWhy},
		{name: "404, no key", kind: "none", meets: "status=404",
			attempts: []string{"response_received refused 404"}, ends: "rejected refused refused"},
		{name: "409, no key", kind: "none", meets: "status=409",
			attempts: []string{"response_received refused 409"}, ends: "rejected refused refused"},

		// Not followed: all that arrives at the upstream is the one request.
		{name: "302, keyed", kind: "keyed", meets: "redirect=/elsewhere/{token}",
			attempts: []string{"response_received unclear 302"}, ends: "unresolved unclear_response status_denied"},
		{name: "302 after the effect, no key", kind: "none", meets: "commit,redirect=/elsewhere/{token}",
			attempts: []string{"response_received unclear 302"}, ends: "unresolved unclear_response status_denied", effects: 1},
		{name: "302, natural", kind: "natural", meets: "redirect=/elsewhere/{token}",
			attempts: []string{"response_received unclear 302"}, ends: "unresolved unclear_response status_denied"},
		{name: "302, safe", kind: "safe", meets: "redirect=/elsewhere/{token}",
			attempts: []string{"response_received unclear 302"}, ends: "cancelled no_effect status_denied"},
		{name: "307 to another host, keyed", kind: "keyed", meets: "redirect=" + toNobody + "/{token},status=307",
			attempts: []string{"response_received unclear 307"}, ends: "unresolved unclear_response status_denied"},
		{name: "303 that the profile calls applied", kind: "none", meets: "commit,redirect=/elsewhere/{token},status=303",
			operation: ruled(`{when: status == 303, answer: applied, reference: 'headers["location"][0]'}`),
			attempts:  []string{"response_received applied 303"}, ends: "success applied applied", effects: 1,
			check: func(t *testing.T, o told) { o.reference(t, "/elsewhere/"+o.token) }},
		{name: "201 with a Location on a foreign host", kind: "none", operation: settings{"result": "{reference: json.id, headers: [Location]}"},
			script:   answers(response("201 Created", "Location: "+toNobody+"/x\r\n", `{"id":"p1"}`)),
			attempts: []string{created}, ends: "success applied applied",
			check: func(t *testing.T, o told) {
				if at := o.result(t).Headers.Get("Location"); at != toNobody+"/x" {
					t.Errorf("Location %q is not kept", at)
				}
			}},

		{name: "202, keyed", kind: "keyed", meets: "pending",
			attempts: []string{"response_received pending 202"}, ends: "unresolved remote_pending pending"},
		{name: "202, no key", kind: "none", meets: "pending",
			attempts: []string{"response_received pending 202"}, ends: "unresolved remote_pending pending"},
		{name: "202, natural", kind: "natural", meets: "status=202",
			attempts: []string{"response_received pending 202"}, ends: "unresolved remote_pending pending", effects: 1},
		{name: "202, safe", kind: "safe", meets: "status=202",
			attempts: []string{"response_received pending 202"}, ends: "unresolved remote_pending pending"},

		{name: "200 of a login page, keyed", kind: "keyed", meets: "html", operation: strict,
			attempts: []string{"response_received unclear 200"}, ends: "unresolved unclear_response status_denied"},
		{name: "200 of a login page, no key", kind: "none", meets: "html,commit", operation: strict,
			attempts: []string{"response_received unclear 200"}, ends: "unresolved unclear_response status_denied", effects: 1},
		{name: "200 of a login page, natural", kind: "natural", meets: "html", operation: strict,
			attempts: []string{"response_received unclear 200"}, ends: "unresolved unclear_response status_denied"},
		{name: "200 of a login page, safe", kind: "safe", meets: "html", operation: settings{"result": "{require: [has(json.items)]}"},
			attempts: []string{"response_received unclear 200"}, ends: "cancelled no_effect status_denied"},
		{name: "200 with an error in it that proves a refusal", kind: "none", script: answers(testkit.Reply(200, `{"error":{"code":"declined_card","message":"No."}}`)),
			operation: ruled(`{when: status == 200 && has(json.error), answer: refused}`),
			attempts:  []string{"response_received refused 200"}, ends: "rejected refused refused",
			check: func(t *testing.T, o told) { o.rejection(t, 200, "declined_card", "No.") }},
		{name: "200 with a throttle in it and nothing done", kind: "none", operation: ruled(`{when: 'status == 200 && has(json.errors) && !has(json.data.id)', answer: declined}`),
			script:   answers(testkit.Reply(200, `{"data":{},"errors":[{"code":"THROTTLED"}]}`), testkit.Reply(200, `{"data":{"id":"p1"}}`)),
			attempts: []string{"response_received declined 200", done}, ends: "success applied applied"},
		{name: "200 with a throttle in it and the thing done", kind: "none", operation: ruled(`{when: 'status == 200 && has(json.errors) && !has(json.data.id)', answer: declined}`),
			script:   answers(testkit.Reply(200, `{"data":{"id":"p1"},"errors":[{"code":"THROTTLED"}]}`)),
			attempts: []string{done}, ends: "success applied applied"},
		{name: "204 without a body", kind: "natural", script: answers("HTTP/1.1 204 No Content\r\n\r\n"),
			attempts: []string{"response_received applied 204"}, ends: "success applied applied"},
		{name: "200 with an error in it that proves nothing", kind: "none", script: answers(testkit.Reply(200, `{"error":"InternalError"}`)),
			operation: ruled(`{when: status == 200 && has(json.error), answer: unclear}`),
			attempts:  []string{"response_received unclear 200"}, ends: "unresolved unclear_response status_denied"},
	}
}

// toldWhy: the upstream's reason is handed on.
func toldWhy(t *testing.T, o told) {
	t.Helper()
	o.rejection(t, 422, "simulated_422", "simulated: Unprocessable Entity")
}

func (o told) rejection(t *testing.T, status int, code, message string) {
	t.Helper()
	got, ok := o.command.Outcome.(client.Rejected)
	if want := (client.Rejection{Status: status, Code: code, Message: message}); !ok || got.Rejection != want {
		t.Errorf("rejection %+v, want %+v", got.Rejection, want)
	}
}

func (o told) result(t *testing.T) client.Result {
	t.Helper()
	got, ok := o.command.Outcome.(client.Success)
	if !ok {
		t.Fatalf("no success: %s", o.command.JSON())
	}
	return got.Result
}

func (o told) reference(t *testing.T, want string) {
	t.Helper()
	if got := o.result(t).Reference; got != want {
		t.Errorf("reference %q, want %q", got, want)
	}
}
