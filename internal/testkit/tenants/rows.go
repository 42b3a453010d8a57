package tenants

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// belongs says which rows are a tenant's, of the tables that have no such column.
var belongs = map[string]string{
	"upstream_versions": `upstream_id IN (SELECT id FROM upstreams WHERE tenant = $1)`,
	"report_lines":      `report_id IN (SELECT id FROM reports WHERE tenant = $1)`,
	"report_items":      `report_id IN (SELECT id FROM reports WHERE tenant = $1)`,
	"operators":         `id IN (SELECT operator_id FROM operator_roles WHERE tenant = $1)`,
	"operator_sessions": `operator_id IN (SELECT operator_id FROM operator_roles WHERE tenant = $1)`,
	"operator_links":    `operator_id IN (SELECT operator_id FROM operator_roles WHERE tenant = $1)`,
	"deployment":        `$1 <> ''`, // of all of them
}

// ofNobody are tables of the processes themselves, and of strangers.
var ofNobody = []string{"leases", "sign_in_failures", "goose_db_version"}

// Rows are all rows of a tenant, as text. A table of which nobody said whose its
// rows are fails the test.
func (w *World) Rows(t testing.TB, tenant string) []string {
	t.Helper()
	var all []string
	for table, where := range w.tables(t) {
		rows, _ := w.Pool.Query(t.Context(), `SELECT to_jsonb(x)::text FROM `+pgx.Identifier{table}.Sanitize()+` x WHERE `+where, tenant)
		list, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatalf("%s: %v", table, err)
		}
		for _, row := range list {
			all = append(all, table+" "+row)
		}
	}
	slices.Sort(all)
	return all
}

// tables are those of the schema, with what makes a row a tenant's.
func (w *World) tables(t testing.TB) map[string]string {
	t.Helper()
	rows, _ := w.Pool.Query(t.Context(), `
		SELECT c.relname, EXISTS (SELECT 1 FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant' AND NOT a.attisdropped)
		FROM pg_class c WHERE c.relkind IN ('r', 'p') AND c.relnamespace = 'public'::regnamespace AND c.relname NOT LIKE 'river%'`)
	tables := map[string]string{}
	var name string
	var own bool
	_, err := pgx.ForEachRow(rows, []any{&name, &own}, func() error {
		where, said := belongs[name]
		switch {
		case own:
			tables[name] = "tenant = $1"
		case said:
			tables[name] = where
		case !slices.Contains(ofNobody, name):
			return fmt.Errorf("nobody said which rows of %s are a tenant's", name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tables
}

var uuids = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// IDs are the UUIDs in texts.
func IDs(texts ...string) map[string]bool {
	found := map[string]bool{}
	for _, text := range texts {
		for _, id := range uuids.FindAllString(text, -1) {
			found[id] = true
		}
	}
	return found
}

// Secrets are what only rows of the tenant hold: its ids and its name.
func (w *World) Secrets(t testing.TB, tenant string) []string {
	t.Helper()
	list := []string{tenant}
	for id := range IDs(w.Rows(t, tenant)...) {
		list = append(list, id)
	}
	return list
}

// Leaks are the secrets in a text that the question did not hold already.
func Leaks(secrets []string, question, answer string) (list []string) {
	for _, secret := range secrets {
		if strings.Contains(answer, secret) && !strings.Contains(question, secret) {
			list = append(list, secret)
		}
	}
	return list
}
