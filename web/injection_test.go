package web_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"executor/commands"
	"executor/outcome"
	"executor/web"
)

// TestNoFieldIsSQL puts SQL into every parameter that a page may read, one by one, on
// every page that is named by no id. No answer is an error of the database, and none
// shows what is another tenant's.
func TestNoFieldIsSQL(t *testing.T) {
	s := newSite(t)
	s.ended(t, "paid-1", "create_payment", "", outcome.StateSuccess)
	const foreign = "of-another-tenant"
	id := s.submit(t, foreign, "create_payment", "", func(sub *commands.Submission) { sub.Metadata = map[string]string{"shop": foreign} })
	s.await(t, id, outcome.StateSuccess)
	if _, err := s.pool.Exec(t.Context(), `UPDATE commands SET tenant = 'other' WHERE id = $1`, id); err != nil {
		t.Fatal(err)
	}
	ada := s.as(t, "ada")
	parameters, asked := queryNames(t), 0
	for _, route := range web.AllRoutes() {
		if route.Method != http.MethodGet || route.Role == "" || strings.Contains(route.Pattern, "{") || route.Pattern == "/live" {
			continue
		}
		ask := func(query url.Values) {
			p := ada.get(route.Pattern + "?" + query.Encode())
			if asked++; p.status >= 500 {
				t.Errorf("%s answers %d", p.path, p.status)
			}
			p.lacks(t, foreign)
		}
		for _, name := range parameters {
			ask(url.Values{name: {`a'b"c\d;$1--`}}) // unbalanced wherever it stands
		}
		ask(url.Values{"sort": {"created_at; DROP TABLE commands"}})
		for _, text := range []string{`' OR '1'='1`, `%_`} {
			for _, name := range []string{"q", "key", "metadata", "sort", "cursor", "upstream", "actor", "type"} {
				ask(url.Values{name: {text}})
			}
		}
	}
	if asked < 500 {
		t.Errorf("only %d questions: the parameters are read wrongly", asked)
	}
}

// queryNames lists the parameters that any page reads from its address.
func queryNames(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	read := regexp.MustCompile(`\bquery(?:\("|\["|\.Get\("|\(\)\.Get\("|\(\)\["|List\(")([a-z_]+)"`)
	names := web.ReviewFields()
	seen := map[string]bool{}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range read.FindAllStringSubmatch(string(source), -1) {
			if !seen[match[1]] {
				names, seen[match[1]] = append(names, match[1]), true
			}
		}
	}
	return names
}
