package api

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"executor/internal/testkit/tenants"
)

// injections break out of SQL text in every way of quoting it, or widen a condition.
var injections = []string{
	`a'b"c\d;$1--`, // unbalanced wherever it stands
	`' OR '1'='1`, `1 OR 1=1`, `x') OR 1=1 UNION SELECT tenant, name FROM api_keys --`,
	`created_at; DROP TABLE commands`, `%_\`, "\x00",
}

// TestNoParameterIsSQL puts SQL into every parameter of every question that only reads,
// in the path too. No answer is an error of the database, none holds what is another
// tenant's, and nothing changes.
func TestNoParameterIsSQL(t *testing.T) {
	n := newNeighbours(t)
	names := n.names(n.acme)
	before := [][]string{n.world.Rows(t, tenants.Acme), n.world.Rows(t, tenants.Globex)}
	secret, asked := n.acme.Scopes["admin"].Secret, 0
	for _, op := range operations() {
		if op.method != "GET" || strings.HasSuffix(op.id, "Health") {
			continue
		}
		own := strings.NewReplacer("{id}", names[thing(op)], "{name}", names[thing(op)]).Replace(op.pattern)
		for _, text := range injections {
			paths := []string{strings.NewReplacer("{id}", url.PathEscape(text), "{name}", url.PathEscape(text)).Replace(op.pattern)}
			for _, name := range op.query {
				paths = append(paths, own+"?"+url.Values{name: {text}}.Encode(), own+"?"+url.Values{name + "." + text: {text}}.Encode())
			}
			for _, path := range slices.Compact(paths) {
				r := n.put(question{method: op.method, path: path}, secret)
				if asked++; r.status >= 500 {
					t.Errorf("%s answers %d %s; the log: %s", path, r.status, r.body, n.log)
				}
				if leaks := tenants.Leaks(n.secrets, path, string(r.body)); len(leaks) > 0 {
					t.Errorf("%s tells %q of the other tenant", path, leaks)
				}
			}
		}
	}
	if asked < 300 {
		t.Errorf("only %d questions: the parameters are read wrongly", asked)
	}
	after := [][]string{n.world.Rows(t, tenants.Acme), n.world.Rows(t, tenants.Globex)}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("a question changed something:\n%s", diff)
	}
}
