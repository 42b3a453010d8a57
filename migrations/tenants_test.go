package migrations_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"executor/internal/testkit"
)

// untenanted are the unique keys and foreign keys without the tenant in them, each
// with the reason why it joins or parts no two tenants.
var untenanted = map[string]string{
	// An id of a tenant's thing is a UUID that we make, or that nobody can choose.
	"commands_pkey":           "a UUID of ours",
	"command_requests_pkey":   "the command's",
	"doubts_pkey":             "the command's",
	"attempts_pkey":           "the command's, and a number",
	"attempts_one_open":       "the command's",
	"events_pkey":             "the command's, and a number",
	"findings_pkey":           "a number of ours",
	"lookups_pkey":            "a number of ours",
	"notices_pkey":            "a number of ours",
	"reports_pkey":            "a UUID of ours",
	"report_lines_pkey":       "the report's, and a number",
	"report_items_pkey":       "the report's, and a number",
	"webhook_endpoints_pkey":  "a UUID of ours",
	"webhook_secrets_pkey":    "a UUID of ours",
	"webhook_events_pkey":     "a UUID of ours",
	"webhook_deliveries_pkey": "a UUID of ours",
	"webhook_deliveries_event_id_endpoint_id_key": "two UUIDs of ours, of one tenant",
	"webhook_tries_pkey":                          "the delivery's, and a number",
	"upstreams_pkey":                              "a number of ours, of one tenant",
	"upstream_versions_pkey":                      "the upstream's, and a number",
	"notices_upstream_id_event_id_key":            "the upstream's, which is one tenant's: the event ids of two are apart",
	"api_keys_pkey":                               "a UUID of ours",
	"api_keys_hash_key":                           "of 32 random bytes; it finds the tenant",
	// People and processes are the deployment's.
	"operators_pkey":               "people are the deployment's; their roles are a tenant's",
	"operators_issuer_subject_key": "who they are elsewhere",
	"operators_name":               "the audit names them by it",
	"operator_sessions_pkey":       "a person's",
	"operator_sessions_id_key":     "a person's",
	"operator_links_pkey":          "a person's",
	"sign_in_failures_pkey":        "of strangers",
	"leases_pkey":                  "a process's",
	"deployment_pkey":              "there is one row",
	"goose_db_version_pkey":        "of the schema",
	// Foreign keys: what they lead to has the same tenant, which a test of everything
	// that a tenant can have looks at.
	"findings_command_id_fkey":           "the command's",
	"webhook_secrets_endpoint_id_fkey":   "the endpoint's",
	"upstream_versions_upstream_id_fkey": "the upstream's",
	"operator_roles_operator_id_fkey":    "a person of the deployment",
	"operator_sessions_operator_id_fkey": "a person of the deployment",
	"operator_links_operator_id_fkey":    "a person of the deployment",
}

// TestKeysNameTheTenant: what a tenant chooses (a name, a key, a URL, an id) is unique
// within the tenant only. Two never learn of each other by a name that is taken.
func TestKeysNameTheTenant(t *testing.T) {
	pool := testkit.Database(t)
	rows, _ := pool.Query(t.Context(), `
		WITH keys AS (
			SELECT i.relname AS name, x.indrelid AS relation, x.indkey::int2[] AS columns
			FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid WHERE x.indisunique
			UNION ALL
			SELECT conname, conrelid, conkey FROM pg_constraint WHERE contype = 'f')
		SELECT k.name::text FROM keys k JOIN pg_class t ON t.oid = k.relation
		WHERE t.relnamespace = 'public'::regnamespace AND t.relkind IN ('r', 'p') AND t.relname NOT LIKE 'river%' AND NOT EXISTS (
			SELECT FROM pg_attribute a WHERE a.attrelid = k.relation AND a.attnum = ANY (k.columns) AND a.attname = 'tenant')
		ORDER BY 1`)
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range found {
		if untenanted[name] == "" {
			t.Errorf("%s has no tenant in it: add it, or say here why it is right", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(untenanted)) {
		if !slices.Contains(found, name) {
			t.Errorf("there is no key %s without a tenant: take it off the list", name)
		}
	}
}
