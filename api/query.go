package api

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"
)

// families are parameters of the form FAMILY.NAME=VALUE, with names that the
// caller chooses; each stands in openapi.yaml as one parameter.
var families = []string{"metadata", "metadata_min", "metadata_max", "columns", "states", "compare"}

// repeated are parameters that may be given more than once.
var repeated = []string{"state", "kind", "reason", "evidence"}

// readQuery reads the query parameters and refuses those that the operation does
// not have: a filter that is misspelt must not select everything.
func readQuery(r *http.Request, known []string) (url.Values, error) {
	if r.URL.RawQuery == "" {
		return nil, nil
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, &failure{code: ProblemCodeInvalidParameter, detail: "The query string is malformed: check its percent signs and separators."}
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		family, _, ofFamily := strings.Cut(name, ".")
		if !slices.Contains(known, family) || slices.Contains(families, family) != ofFamily {
			return nil, badParameter(name, fmt.Sprintf("This call has no query parameter %s.", quote([]byte(name))))
		}
		for _, value := range append(query[name], name) {
			if !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
				return nil, badParameter(name, "A parameter must be UTF-8 text without NUL characters.")
			}
		}
		if len(query[name]) > 1 && !slices.Contains(repeated, name) {
			return nil, badParameter(name, fmt.Sprintf("The parameter %s is given more than once.", quote([]byte(name))))
		}
	}
	return query, nil
}

// param is a query parameter, "" if it is not given.
func param(r *http.Request, name string) string {
	if values := callOf(r).query[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

func given(r *http.Request, name string) bool { return len(callOf(r).query[name]) > 0 }

// span reads a duration parameter; absent is 0.
func span(r *http.Request, name string) (time.Duration, error) {
	if !given(r, name) {
		return 0, nil
	}
	d, err := time.ParseDuration(param(r, name))
	if err != nil || d < 0 {
		return 0, badParameter(name, fmt.Sprintf("The parameter %s is a duration such as 90m or 24h.", name))
	}
	return d, nil
}

// boolean reads a boolean parameter; absent is false.
func boolean(r *http.Request, name string) (bool, error) {
	switch param(r, name) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	if given(r, name) {
		return false, badParameter(name, fmt.Sprintf("The parameter %s is true or false.", name))
	}
	return false, nil
}

// number reads an integer parameter; absent is otherwise.
func number(r *http.Request, name string, low, high, otherwise int) (int, error) {
	if !given(r, name) {
		return otherwise, nil
	}
	n, err := strconv.Atoi(param(r, name))
	if err != nil || n < low || n > high {
		return 0, badParameter(name, fmt.Sprintf("The parameter %s is an integer from %d to %d.", name, low, high))
	}
	return n, nil
}

// moment reads a time parameter; absent is nil.
func moment(r *http.Request, name string) (*time.Time, error) {
	if !given(r, name) {
		return nil, nil
	}
	t, err := time.Parse(time.RFC3339, param(r, name))
	if err != nil {
		return nil, badParameter(name, fmt.Sprintf("The parameter %s is a time such as 2026-12-01T00:00:00Z (with + written as %%2B).", name))
	}
	return &t, nil
}

// pathParam is a parameter of the path, decoded.
func pathParam(r *http.Request, name string) string {
	value := chi.URLParam(r, name)
	if r.URL.RawPath == "" {
		return value
	}
	decoded, err := url.PathUnescape(value)
	if err != nil {
		return value
	}
	return decoded
}

// commandID reads the command's id in the path.
func commandID(r *http.Request) (uuid.UUID, error) { return pathID(r, "command's") }

// pathID reads an id in the path, in its one usual form.
func pathID(r *http.Request, whose string) (uuid.UUID, error) {
	id, ok := parseID(pathParam(r, "id"))
	if !ok {
		return uuid.UUID{}, badParameter("id", "The "+whose+" id is a UUID.")
	}
	return id, nil
}

// queryID reads an id from the query; absent is nil.
func queryID(r *http.Request, name string) (*uuid.UUID, error) {
	if !given(r, name) {
		return nil, nil
	}
	id, ok := parseID(param(r, name))
	if !ok {
		return nil, badParameter(name, "The parameter "+name+" is a UUID.")
	}
	return &id, nil
}

func parseID(given string) (uuid.UUID, bool) {
	id, err := uuid.Parse(given)
	return id, err == nil && len(given) == 36
}

// upstreamName reads the upstream's name in the path.
func upstreamName(r *http.Request) (string, error) {
	name := pathParam(r, "name")
	if !isUpstreamName(name) {
		return "", badParameter("name", "An upstream's name has 1 to 63 of a-z, 0-9, _ and -.")
	}
	return name, nil
}

func isUpstreamName(name string) bool {
	fit := func(c rune) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '_' || c == '-' }
	return name != "" && len(name) <= 63 && !strings.ContainsFunc(name, func(c rune) bool { return !fit(c) })
}
