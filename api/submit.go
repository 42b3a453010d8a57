package api

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"executor/commands"
)

// SubmitCommand accepts a command, or shows what it would send.
func (s *Server) SubmitCommand(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Vary", "Prefer")
	key, err := idempotencyKey(r.Header)
	if err != nil {
		return err
	}
	dry, err := boolean(r, "dry_run")
	if err != nil {
		return err
	}
	src, err := readBody(w, r, s.submitBytes, "application/json")
	if err != nil {
		return err
	}
	sub, err := decodeSubmission(src)
	if err != nil {
		return err
	}
	caller := callOf(r).key
	sub.Tenant, sub.Actor, sub.Key = caller.Tenant, caller.Name, key
	if dry {
		return s.preview(w, r, sub)
	}
	return s.submit(w, r, sub)
}

func (s *Server) preview(w http.ResponseWriter, r *http.Request, sub commands.Submission) error {
	p, err := s.commands.DryRun(r.Context(), sub)
	if err != nil {
		return aboutHeader(err)
	}
	return write(w, http.StatusOK, "application/json", view(p, writePreview))
}

func (s *Server) submit(w http.ResponseWriter, r *http.Request, sub commands.Submission) error {
	accepted, err := s.commands.Submit(r.Context(), sub)
	if err != nil {
		return aboutHeader(err)
	}
	c, h := accepted.Command, w.Header()
	if wait, asked := preferredWait(r.Header); asked {
		notePreference(h, wait)
		if !c.Final() && wait > 0 {
			if c, err = s.await(w, r, c.ID, wait); err != nil {
				return err
			}
		}
	}
	h.Set("Location", "/v1/commands/"+c.ID.String())
	h.Set("ETag", etag(c))
	status := http.StatusAccepted
	switch {
	case accepted.Replayed:
		h.Set("Idempotent-Replayed", "true")
		status = http.StatusOK
	case c.Final():
		status = http.StatusOK
	default:
		h.Set("Retry-After", "1")
	}
	return write(w, status, "application/json", view(c, writeCommand))
}

// SubmitBatch accepts many commands, each on its own.
func (s *Server) SubmitBatch(w http.ResponseWriter, r *http.Request) error {
	src, err := readBody(w, r, s.batchBytes, "application/json")
	if err != nil {
		return err
	}
	items, err := decodeBatch(src)
	if err != nil {
		return err
	}
	caller := callOf(r).key
	var (
		subs  []commands.Submission
		index []int // of the items that are submitted
	)
	for i, item := range items {
		if int64(item.bytes) > s.submitBytes {
			items[i].err = tooLarge(s.submitBytes)
		}
		if items[i].err == nil {
			item.sub.Tenant, item.sub.Actor = caller.Tenant, caller.Name
			subs, index = append(subs, item.sub), append(index, i)
		}
	}
	results := make([]commands.BatchResult, len(items))
	for i, item := range items {
		results[i].Err = item.err
	}
	if len(subs) > 0 {
		for i, result := range s.commands.SubmitBatch(r.Context(), subs) {
			results[index[i]] = result
		}
	}
	return s.writeResults(w, r, results)
}

// writeResults writes a batch's results in the order of its items.
func (s *Server) writeResults(w http.ResponseWriter, r *http.Request, results []commands.BatchResult) error {
	out := &jsonWriter{}
	out.begin('{')
	out.array("results", len(results), func(i int) {
		out.begin('{')
		out.integer("index", int64(i))
		if err := results[i].Err; err != nil {
			s.writeItemProblem(out, r, i, err)
		} else {
			status := http.StatusAccepted
			if results[i].Accepted.Replayed {
				status = http.StatusOK
			}
			out.integer("status", int64(status))
			out.name("command")
			writeCommand(out, results[i].Accepted.Command)
		}
		out.end('}')
	})
	out.end('}')
	return write(w, http.StatusOK, "application/json", append(out.buf, '\n'))
}

// writeItemProblem writes what became of an item that was not accepted. The
// pointers of a store are into the item.
func (s *Server) writeItemProblem(out *jsonWriter, r *http.Request, item int, err error) {
	f := problemFor(err)
	problem, status := f.view(callOf(r).requestID)
	base := "/commands/" + strconv.Itoa(item)
	problem.Errors = slices.Clone(problem.Errors)
	for i, field := range problem.Errors {
		if !strings.HasPrefix(field.Pointer, base+"/") && field.Pointer != base {
			problem.Errors[i].Pointer = base + field.Pointer
		}
	}
	if f.ours(status) {
		s.log.Error("batch item failed", "request_id", problem.RequestID, "index", item, "code", f.code, "error", err)
	}
	out.integer("status", int64(status))
	encoded, _ := encodeJSON(problem) // texts and numbers always encode
	out.raw("problem", encoded)
}

// aboutHeader moves what a store says of the key to where the key came from.
func aboutHeader(err error) error {
	f := problemFor(err)
	if f.code != ProblemCodeInvalidRequest {
		return err
	}
	for i, field := range f.fields {
		if field.Pointer == "/idempotency_key" {
			f.fields[i].Pointer, f.fields[i].Header = "", keyHeader
		}
	}
	return f
}
