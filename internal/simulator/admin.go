package simulator

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// serveAdmin answers what is about the simulator itself. It is not in the ledger
// and always works.
func (c *conn) serveAdmin(head *http.Request) (keep bool) {
	body, err := io.ReadAll(head.Body)
	if err != nil {
		return false
	}
	keep = !head.Close && head.ProtoAtLeast(1, 1)
	_, err = c.send(c.sim.admin(head, body).encode(!keep))
	return keep && err == nil
}

func (s *Simulator) admin(head *http.Request, body []byte) answer {
	if strings.HasPrefix(head.URL.Path, hooksPath) {
		return s.adminHook(head, body)
	}
	switch head.Method + " " + head.URL.Path {
	case "GET /":
		return answer{status: http.StatusOK, body: []byte(Help("http://" + head.Host))}.with("Content-Type", "text/plain; charset=utf-8")
	case "GET /_ledger":
		return s.listRequests(head)
	case "DELETE /_ledger":
		s.Reset()
		return answer{status: http.StatusNoContent}
	case "GET /_ledger/effects":
		return s.listEffects(head)
	case "GET /_ledger/lookups":
		return s.listLookups(head)
	case "GET /_ledger/counts":
		return jsonAnswer(http.StatusOK, s.Counts(head.URL.Query().Get("key")))
	case "GET /_notices":
		return listing(head, s.Notices(), s.droppedEntries())
	case "PUT /_notices":
		return s.putReceiver(body)
	case "POST /_notices":
		return s.postNotice(body)
	case "GET /_behavior":
		return s.listBehaviors()
	case "PUT /_behavior":
		return s.putBehaviors(body)
	case "DELETE /_behavior":
		_ = s.setBehaviors(nil, true)
		return answer{status: http.StatusNoContent}
	default:
		return nothingHere(head)
	}
}

func nothingHere(head *http.Request) answer {
	return problem(http.StatusNotFound, "not_found", "There is no "+head.Method+" "+head.URL.Path+" here; GET / tells what there is.")
}

func (s *Simulator) listRequests(head *http.Request) answer {
	return s.listFound(head, s.Requests)
}

func (s *Simulator) listLookups(head *http.Request) answer {
	return s.listFound(head, s.Lookups)
}

// listFound lists the requests that find has for a key.
func (s *Simulator) listFound(head *http.Request, find func(key string) []Request) answer {
	data := []Request{}
	for _, r := range find(head.URL.Query().Get("key")) {
		if hasPath(r.Path, head) {
			data = append(data, r)
		}
	}
	return listing(head, data, s.droppedEntries())
}

func (s *Simulator) listEffects(head *http.Request) answer {
	data := []Effect{}
	for _, e := range s.Effects(head.URL.Query().Get("key")) {
		if hasPath(e.Path, head) {
			data = append(data, e)
		}
	}
	return listing(head, data, s.droppedEntries())
}

// hasPath applies the filter path=, a prefix.
func hasPath(path string, head *http.Request) bool {
	return strings.HasPrefix(path, head.URL.Query().Get("path"))
}

// listing shows the newest entries, as many as limit= says.
func listing[T any](head *http.Request, data []T, dropped int64) answer {
	total := len(data)
	if text := head.URL.Query().Get("limit"); text != "" {
		limit, err := strconv.Atoi(text)
		if err != nil || limit < 0 {
			return problem(http.StatusBadRequest, "invalid_limit", fmt.Sprintf("limit %q is not a number", text))
		}
		data = data[max(0, total-limit):]
	}
	return jsonAnswer(http.StatusOK, map[string]any{"data": data, "total": total, "dropped": dropped})
}

func (s *Simulator) droppedEntries() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.dropped
}

func (s *Simulator) listBehaviors() answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	texts := map[string]string{}
	for prefix, b := range s.behaviors {
		texts[prefix] = b.text
	}
	return jsonAnswer(http.StatusOK, texts)
}

func (s *Simulator) putBehaviors(body []byte) answer {
	var texts map[string]string
	if err := json.Unmarshal(body, &texts); err != nil {
		return problem(http.StatusBadRequest, "malformed", `The body must be an object of path prefixes and behaviours, such as {"/v1/charges": "status=503"}.`)
	}
	if err := s.setBehaviors(texts, true); err != nil {
		return problem(http.StatusBadRequest, "unknown_behavior", err.Error())
	}
	return s.listBehaviors()
}
