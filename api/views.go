package api

import (
	"executor/commands"
	"executor/internal/bodyfiles"
	"executor/upstreams"
)

// view encodes one value with write.
func view[T any](value T, write func(w *jsonWriter, value T)) []byte {
	w := &jsonWriter{buf: make([]byte, 0, 2048)}
	write(w, value)
	w.buf = append(w.buf, '\n')
	return w.buf
}

// page encodes a list. next is the cursor of the next page, "" at the end.
func page[T any](list []T, next string, write func(w *jsonWriter, value T)) []byte {
	w := &jsonWriter{buf: make([]byte, 0, 1024+1024*len(list))}
	w.begin('{')
	w.array("data", len(list), func(i int) { write(w, list[i]) })
	w.optional("next_cursor", next)
	w.end('}')
	w.buf = append(w.buf, '\n')
	return w.buf
}

func writeCommand(w *jsonWriter, c commands.Command) {
	w.begin('{')
	writeCommandMembers(w, c)
	w.end('}')
}

// writeCommandMembers writes a command without its braces, for those who add to
// it.
func writeCommandMembers(w *jsonWriter, c commands.Command) {
	w.text("id", c.ID.String())
	w.text("state", string(c.State))
	w.flag("final", c.Final())
	w.integer("version", int64(c.Version))
	w.text("idempotency_key", c.Key)
	w.text("upstream", c.Upstream)
	w.text("operation", c.Operation)
	w.integer("profile_version", int64(c.ProfileVersion))
	w.text("body_kind", string(c.BodyKind))
	w.text("priority", string(c.Priority))
	w.time("created_at", c.CreatedAt)
	w.time("deadline", c.Deadline)
	w.timeOrNull("not_before", c.NotBefore)
	w.timeOrNull("finalized_at", c.FinalizedAt)
	w.timeOrNull("next_attempt_at", c.NextAttemptAt)
	w.flag("cancel_requested", c.CancelRequested)
	writeWaiting(w, c.Waiting)
	writeOutcome(w, c.Outcome)
	writeRecord(w, c)
	writeReconciliation(w, c.Reconciliation)
	w.labels("metadata", c.Metadata)
}

func writeWaiting(w *jsonWriter, waiting *commands.Waiting) {
	if waiting == nil {
		w.null("waiting")
		return
	}
	w.object("waiting", func() {
		w.text("for", string(waiting.For))
		w.timeOrNull("until", waiting.Until)
	})
}

func writeOutcome(w *jsonWriter, o *commands.Outcome) {
	if o == nil {
		w.null("outcome")
		return
	}
	w.object("outcome", func() {
		w.text("state", string(o.State))
		w.text("reason", string(o.Reason))
		w.text("stopped_by", string(o.StoppedBy))
		if o.WaitedFor != "" {
			w.text("waited_for", string(o.WaitedFor))
		}
		w.text("decided_by", string(o.DecidedBy))
		w.time("decided_at", o.DecidedAt)
		w.integer("sequence", int64(o.Sequence))
		w.flag("safe_to_resubmit", o.SafeToResubmit)
		w.text("next_action", string(o.NextAction))
		if o.Result != nil {
			w.object("result", func() { writeResult(w, o.Result) })
		}
		if o.Rejection != nil {
			w.object("rejection", func() {
				w.integer("status", int64(o.Rejection.Status))
				w.optional("code", o.Rejection.Code)
				w.optional("message", o.Rejection.Message)
			})
		}
	})
}

func writeResult(w *jsonWriter, r *commands.Result) {
	w.integer("status", int64(r.Status))
	w.optional("reference", r.Reference)
	if len(r.Headers) > 0 {
		writeHeaders(w, r.Headers)
	}
	if r.ContentType != "" {
		w.text("content_type", r.ContentType)
	}
	w.body(r.Body)
	w.flag("incomplete", r.Incomplete)
}

func writeRecord(w *jsonWriter, c commands.Command) {
	r := c.Record
	w.object("decision_record", func() {
		w.integer("attempts", int64(c.Attempts))
		w.optional("last_response_class", r.LastResponseClass)
		if r.LastTimeout == nil {
			w.null("last_timeout")
		} else {
			w.object("last_timeout", func() {
				w.text("kind", string(r.LastTimeout.Kind))
				w.time("at", r.LastTimeout.At)
			})
		}
		w.integer("elapsed_ms", r.Elapsed.Milliseconds())
		writeIdentity(w, r.Identity)
		w.text("boundary", string(r.Boundary))
	})
}

// writeIdentity writes null for an operation whose key goes nowhere.
func writeIdentity(w *jsonWriter, id upstreams.Identity) {
	if id.In == "" {
		w.null("operation_identity")
		return
	}
	w.object("operation_identity", func() {
		w.text("in", string(id.In))
		w.text("name", id.Name)
		w.text("key", id.Key)
	})
}

func writeReconciliation(w *jsonWriter, r *commands.Reconciliation) {
	if r == nil {
		w.null("reconciliation")
		return
	}
	w.object("reconciliation", func() {
		w.text("phase", r.Phase)
		w.integer("lookups", int64(r.Lookups))
		w.timeOrNull("next_lookup_at", r.NextLookupAt)
		w.integer("absent_in_a_row", int64(r.AbsentInARow))
		w.integer("conflicts", int64(r.Conflicts))
		w.optional("assignee", r.Assignee)
	})
}

func writePreview(w *jsonWriter, p commands.Preview) {
	w.begin('{')
	w.flag("dry_run", true)
	w.object("request", func() {
		w.text("method", p.Method)
		w.text("url", p.URL)
		writeSentHeaders(w, p.Headers)
		if p.ContentType != "" {
			w.text("content_type", p.ContentType)
		}
		w.body(p.Body)
		w.integer("body_bytes", int64(len(p.Body))+fileBytes(p.Files))
		w.text("body_kind", string(p.BodyKind))
		if len(p.Files) > 0 {
			w.array("body_files", len(p.Files), func(i int) { writeFile(w, p.Files[i]) })
		}
	})
	w.time("deadline", p.Deadline)
	w.integer("profile_version", int64(p.ProfileVersion))
	writeIdentity(w, p.Identity)
	if p.Existing == nil {
		w.null("existing")
	} else {
		w.name("existing")
		writeCommand(w, *p.Existing)
	}
	w.end('}')
}

func writeFile(w *jsonWriter, f bodyfiles.Placed) {
	w.begin('{')
	w.integer("at", f.At)
	w.text("path", f.Path)
	w.integer("size", f.Size)
	w.text("sha256", f.SHA256)
	w.end('}')
}

func fileBytes(files []bodyfiles.Placed) (n int64) {
	for _, f := range files {
		n += f.Size
	}
	return n
}

func writeEvent(w *jsonWriter, e commands.Event) {
	w.begin('{')
	w.text("id", e.ID.String())
	w.integer("number", int64(e.Number))
	w.text("type", e.Type)
	w.time("at", e.At)
	w.integer("sequence", int64(e.Sequence))
	w.optional("actor", e.Actor)
	if len(e.Data) == 0 {
		w.raw("data", []byte("{}"))
	} else {
		w.raw("data", e.Data)
	}
	w.end('}')
}
