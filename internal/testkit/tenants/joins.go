package tenants

import (
	"strings"
	"testing"
)

// joins are the tables with a tenant of their own whose rows belong to a row of
// another table. No foreign key has the tenant in it: the rows are compared.
var joins = map[string]string{
	"command_requests":   `commands p ON p.id = c.command_id`,
	"attempts":           `commands p ON p.id = c.command_id`,
	"findings":           `commands p ON p.id = c.command_id`,
	"events":             `commands p ON p.id = c.command_id`,
	"doubts":             `commands p ON p.id = c.command_id`,
	"lookups":            `commands p ON p.id = c.command_id`,
	"bulk_items":         `commands p ON p.id = c.command_id`,
	"audit":              `commands p ON p.id = c.command_id`,
	"commands":           `upstreams p ON p.id = c.upstream_id`,
	"notices":            `upstreams p ON p.id = c.upstream_id`,
	"reports":            `upstreams p ON p.id = c.upstream_id`,
	"tally_deltas":       `upstreams p ON p.id = c.upstream_id`,
	"tally_totals":       `upstreams p ON p.id = c.upstream_id`,
	"tallies":            `upstreams p ON p.id = c.upstream_id`,
	"webhook_secrets":    `webhook_endpoints p ON p.id = c.endpoint_id`,
	"webhook_deliveries": `webhook_endpoints p ON p.id = c.endpoint_id`,
	"webhook_events":     `commands p ON p.id = c.command_id`,
	"webhook_tries":      `webhook_deliveries p ON p.id = c.delivery_id`,
}

// CheckJoins fails the test where a row belongs to a row of another tenant.
func (w *World) CheckJoins(t testing.TB) {
	t.Helper()
	for table, parent := range joins {
		var rows, crossed int
		err := w.Pool.QueryRow(t.Context(), `SELECT count(*), count(*) FILTER (WHERE p.tenant <> c.tenant) FROM `+table+` c JOIN `+parent).Scan(&rows, &crossed)
		if err != nil {
			t.Fatal(err)
		}
		if crossed > 0 {
			t.Errorf("%d of %d rows of %s belong to something of another tenant", crossed, rows, table)
		}
		if rows == 0 && !strings.HasPrefix(table, "tall") { // which a duty folds
			t.Errorf("there is no row of %s to look at", table)
		}
	}
}
