package executor_test

import (
	"go/ast"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// ofTenants finds statements on tables whose rows are tenants'.
	ofTenants = regexp.MustCompile(`(?is)\b(FROM|JOIN|UPDATE|INTO)\s+(ONLY\s+)?(commands|command_requests|attempts|findings|events|api_keys|doubts|lookups|audit|audit_heads|` +
		`bulk_actions|bulk_items|notices|reports|report_lines|report_items|webhook_\w+|tally_\w+|tallies|operator_roles|upstreams|upstream_versions)\b`)
	// namesTenant finds what keeps a statement to one tenant: a condition, or the
	// tenant among the values of a new row.
	namesTenant = regexp.MustCompile(`(?is)\btenant\s*=|INTO\s+\w+\s*\([^)]*\btenant\b|\((\w\.)?tenant,`)
)

// crosses reports whether a statement on tenants' rows names no tenant.
func crosses(sql string) bool { return ofTenants.MatchString(sql) && !namesTenant.MatchString(sql) }

// acrossTenants are the functions with a statement on tenants' rows that names no
// tenant, each with the reason why nothing crosses. Ids are UUIDs, or numbers of
// upstreams, and each belongs to one tenant for good.
var acrossTenants = map[string][]string{
	"the work of the processes, which is for every tenant: rows are found by what is due, claimed, held or open under a lease": {
		"attempts: Store.OpenUnder", "attempts: Store.OpenUnderEnded", "attempts: Store.Unconfirmed", "attempts: Store.closeOpen",
		"attempts: Store.lock", "attempts: Store.load", "attempts: Store.lockBuckets", "attempts: Store.look", "attempts: Store.recognise",
		"attempts: Store.storeBuckets", "commands: Store.Claimed", "commands: Store.CloseLost", "commands: Store.CloseOverdue", "commands: Store.Gone",
		"commands: Store.Heal", "commands: Store.HeldUnder", "commands: Store.Running", "commands: Store.Unclaim", "commands: Store.finalAmong",
		"commands: Store.healBetween", "commands: Store.queue", "commands: Store.waiting", "reconcile: Store.claimDue", "reconcile: Store.claimReports",
		"reconcile: Store.dueNotices", "reconcile: Store.expire", "reconcile: Store.postpone", "reconcile: Store.postponeReport",
		"reconcile: Store.release", "reconcile: Store.releaseReport", "reconcile: Store.renew", "reconcile: Store.subject", "reconcile: holdReport",
		"reconcile: stillWaits", "webhooks: Store.askUnasked", "webhooks: Store.dropOrphans", "webhooks: Store.forgetAllowances", "webhooks: disable", "webhooks: Store.judge", "webhooks: Store.signers",
		"webhooks: Store.Sealed", "webhooks: Store.older", "webhooks: Store.reseal",
		"webhooks: Store.tendSecrets", "webhooks: anythingSQL", "webhooks: claimSQL", "webhooks: dropSQL", "webhooks: unprovenSQL",
	},
	"by ids of rows that the call has read, locked or claimed before, or whose tenant it compares before anything else": {
		"commands: Store.HandToReview", "commands: Store.History", "commands: Store.Peek", "commands: Store.Touch", "commands: Store.continueDoubts",
		"commands: Store.contradictKept", "commands: Store.refuteAbsence", "commands: Store.requestCancel", "commands: Store.results",
		"commands: Store.take", "commands: endDoubts", "commands: heldBackAtDeadline", "commands: noteEvidence", "commands: noteLink", "commands: precedes", "commands: reported",
		"commands: settle", "commands: unsettle", "reconcile: Store.Forecast", "reconcile: Store.applyStep", "reconcile: Store.compareStep",
		"reconcile: Store.conflicts", "reconcile: Store.fieldsOf", "reconcile: Store.lockStanding", "reconcile: Store.lookingUp",
		"reconcile: Store.scanPeriod", "reconcile: Store.startApplying", "reconcile: addProgress", "reconcile: arrival.noteAmbiguity",
		"reconcile: closeConflicts", "reconcile: discardLines", "reconcile: endReportJob", "reconcile: firstLines", "reconcile: itemsSQL",
		"reconcile: lockDoubt", "reconcile: newestKept", "reconcile: nextEvidence", "reconcile: noteEffect", "reconcile: readLines", "reconcile: recorded",
		"reconcile: recording.count", "reconcile: recording.plan", "reconcile: scene", "reconcile: stopApplying", "reconcile: upload.abandon",
		"reconcile: upload.complete", "reconcile: upload.underClaim", "reconcile: weighing.hint", "reconcile: weighing.precedes",
		"reconcile: weighing.remember", "reconcile: weighing.repeats", "reconcile: weighing.write", "upstreams: Store.ByID", "upstreams: Store.pause",
		"upstreams: Store.resume", "upstreams: Store.source", "upstreams: addVersion", "upstreams: hasSource", "upstreams: usedBefore",
		"webhooks: Store.Delete", "webhooks: Store.Delivery", "webhooks: Store.Redeliver", "webhooks: Store.tries", "webhooks: again", "webhooks: expire",
		"webhooks: secretsOf", "webhooks: Store.write", "webhooks: Store.Confirm", "webhooks: dropChallenges", "webhooks: unproven",
	},
	"a piece that others complete with the tenant": {
		"commands: ActingEvidence", "commands: Filter.unindexed", "commands: Store.scan", "commands: lockSQL", "commands: selectCommands",
		"commands: undoubted", "internal/audit: List", "internal/operators: mayEnter", "internal/operators: operatorColumns",
		"reconcile: ReviewFilter.union", "reconcile: standingSQL", "webhooks: selectDeliveries", "webhooks: selectEndpoints",
	},
	"for whoever runs the deployment, or to find out which tenant it is": {
		"attempts: Deployment.AdoptEmpty", "attempts: Deployment.doubt", "attempts: Deployment.doubtUnresolved",
		"attempts: previewSQL", "cmd/executor: doctor.attempts", "cmd/executor: doctor.files", "cmd/executor: doctor.unresolved", "cmd/executor: doctor.webhooks",
		"cmd/executor: readAges", "commands: Store.CountAsSent", "commands: readBacklogs", "internal/apikeys: Store.read", "internal/apikeys: Store.touch",
		"internal/audit: tenantsOf", "upstreams: Store.All", "upstreams: Store.Tenants", "upstreams: boundSQL", "upstreams: usedByOthers", "webhooks: Store.measure",
	},
}

// TestEveryStatementNamesItsTenant: whoever writes a statement without one says here
// why that is right.
func TestEveryStatementNamesItsTenant(t *testing.T) {
	listed := map[string]bool{}
	for reason, functions := range acrossTenants {
		for _, name := range functions {
			if listed[name] {
				t.Errorf("%s is listed twice, the second time under %q", name, reason)
			}
			listed[name] = true
		}
	}
	found := map[string]bool{}
	for _, path := range sourceFiles(t, ".go") {
		dir := filepath.ToSlash(filepath.Dir(path))
		if isTest(path) || dir == "bench" || strings.HasPrefix(dir, "internal/testkit") || strings.HasPrefix(dir, "tools") {
			continue
		}
		for _, declaration := range parseFile(t, path).Decls {
			for name, texts := range statements(declaration) {
				if slices.ContainsFunc(texts, crosses) {
					found[dir+": "+name] = true
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if !listed[name] {
			t.Errorf("a statement of %s names no tenant: add the condition, or list it with a reason", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if !found[name] {
			t.Errorf("%s has no statement without a tenant: take it off the list", name)
		}
	}
}

// statements are the texts of a declaration, with the function or the name that they
// stand under.
func statements(declaration ast.Decl) map[string][]string {
	if _, function := declaration.(*ast.FuncDecl); function {
		return map[string][]string{nameOf(declaration): literals(declaration)}
	}
	texts := map[string][]string{}
	for _, spec := range declaration.(*ast.GenDecl).Specs {
		if value, ok := spec.(*ast.ValueSpec); ok {
			texts[value.Names[0].Name] = literals(value)
		}
	}
	return texts
}

func TestNamesTenant(t *testing.T) {
	for sql, want := range map[string]bool{
		`SELECT state FROM commands WHERE tenant = $1 AND id = $2`:                         true,
		`UPDATE reports r SET state = 'x' WHERE r.tenant=$1`:                               true,
		`INSERT INTO notices (tenant, upstream_id) VALUES ($1, $2)`:                        true,
		`SELECT id FROM commands WHERE (tenant, idempotency_key) IN (SELECT 'a', 'b')`:     true,
		`SELECT id, tenant FROM commands WHERE id = $1`:                                    false,
		`DELETE FROM webhook_endpoints WHERE id = $1`:                                      false,
		`INSERT INTO upstream_versions (upstream_id, version) SELECT id, 1 FROM upstreams`: false,
	} {
		if got := !crosses(sql); got != want {
			t.Errorf("%s: %v, want %v", sql, got, want)
		}
	}
}
