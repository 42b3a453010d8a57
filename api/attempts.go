package api

import (
	"maps"
	"net/http"
	"slices"

	"executor/commands"
	"executor/upstreams"
)

// writeAttempt writes null for what an open attempt does not know yet.
func writeAttempt(w *jsonWriter, a commands.Attempt) {
	ended := a.EndedAt != nil
	w.begin('{')
	w.integer("number", int64(a.Number))
	w.time("started_at", a.StartedAt)
	w.timeOrNull("ended_at", a.EndedAt)
	w.text("instance", a.Instance)
	w.optional("evidence", string(a.Evidence))
	w.optional("stage", string(a.Stage))
	w.optional("category", string(a.Category))
	w.optional("detail", a.Detail)
	w.optional("answer", string(a.Answer))
	w.integerOrNull("status", int64(a.Status))
	w.optional("boundary", string(a.Boundary))
	w.optional("settled_by", a.SettledBy)
	if ended {
		w.integer("rule", int64(a.Rule))
	} else {
		w.null("rule")
	}
	w.optional("decision", string(a.Decision))
	w.optional("reason", string(a.Reason))
	if a.WaitMS == nil {
		w.null("wait_ms")
	} else {
		w.integer("wait_ms", *a.WaitMS)
	}
	w.timeOrNull("retry_at", a.RetryAt)
	w.object("request", func() {
		w.text("method", a.Request.Method)
		w.text("url", a.Request.URL)
		writeSentHeaders(w, a.Request.Headers)
		w.integer("bytes_total", a.BytesTotal)
		w.integer("bytes_handed_over", a.BytesHandedOver)
		w.hex("body_sha256", a.BodySHA256)
	})
	writeResponse(w, a)
	w.array("addresses", len(a.Addresses), func(i int) {
		w.begin('{')
		w.text("address", a.Addresses[i].Address)
		w.optional("category", string(a.Addresses[i].Category))
		w.optional("detail", a.Addresses[i].Detail)
		w.end('}')
	})
	w.object("timings_ms", func() {
		for _, stage := range slices.Sorted(maps.Keys(a.Timings)) {
			w.float(stage, a.Timings[stage])
		}
	})
	writeConnection(w, a)
	w.integer("deadline_left_ms", a.DeadlineLeftMS)
	w.float("budget_tokens", a.BudgetTokens)
	w.integer("profile_version", int64(a.ProfileVersion))
	w.texts("notes", a.Notes)
	w.end('}')
}

// writeResponse writes null where no final headers came.
func writeResponse(w *jsonWriter, a commands.Attempt) {
	if a.Status == 0 {
		w.null("response")
		return
	}
	w.object("response", func() {
		writeHeaders(w, a.ResponseHeaders)
		w.body(a.ResponseBody)
		w.flag("truncated", a.ResponseTruncated)
		w.hex("sha256", a.ResponseSHA256)
		w.integer("bytes", a.ResponseBytes)
		if a.Reference != "" {
			w.text("reference", a.Reference)
		}
		if a.RejectionCode != "" {
			w.text("code", a.RejectionCode)
		}
		if a.RejectionMessage != "" {
			w.text("message", a.RejectionMessage)
		}
	})
}

// writeConnection writes null where none was made.
func writeConnection(w *jsonWriter, a commands.Attempt) {
	if a.Remote == "" {
		w.null("connection")
		return
	}
	w.object("connection", func() {
		w.text("remote", a.Remote)
		w.optional("protocol", a.Protocol)
		w.flag("reused", a.Reused)
	})
}

func writeSentHeaders(w *jsonWriter, headers []upstreams.Header) {
	w.array("headers", len(headers), func(i int) {
		w.begin('{')
		w.text("name", headers[i].Name)
		w.text("value", headers[i].Value)
		w.end('}')
	})
}

// writeHeaders writes what an upstream answered with; the names are its data.
func writeHeaders(w *jsonWriter, headers http.Header) {
	w.object("headers", func() {
		for _, name := range slices.Sorted(maps.Keys(headers)) {
			w.element()
			w.string(name)
			w.buf = append(w.buf, ':', '[')
			for _, value := range headers[name] {
				w.element()
				w.string(value)
			}
			w.buf = append(w.buf, ']')
		}
	})
}
