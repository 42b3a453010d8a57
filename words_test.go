package executor_test

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"executor/internal/operators"
	"executor/internal/testkit"
	"executor/outcome"
	"executor/reconcile"
	"executor/upstreams"
)

// words turns a list of an enum into texts.
func words[T ~string](list []T) []string {
	texts := make([]string, len(list))
	for i, word := range list {
		texts[i] = string(word)
	}
	return texts
}

// enum is what a CHECK constraint lists.
type enum struct {
	list []string
	none bool // the empty text is allowed too
	some bool // the column takes only some of the list
}

// enums has every column whose CHECK lists words.
func enums(t *testing.T) map[string]enum {
	return map[string]enum{
		"commands.state":                {list: words(outcome.States())},
		"commands.wait_for":             {list: constantsOf(t, "commands", "WaitFor"), some: true}, // the others are not stored
		"commands.phase":                {list: words(outcome.NextActions()), some: true},          // those that somebody has to take
		"commands.resend":               {list: constantsOf(t, "commands", "Resend")},
		"command_requests.body_kind":    {list: words(outcome.Bodies())},
		"attempts.evidence":             {list: words(outcome.Evidences())},
		"attempts.answer":               {list: words(outcome.Answers()), none: true},
		"attempts.boundary":             {list: words(outcome.Boundaries()), none: true},
		"findings.source":               {list: words(outcome.Deciders()), some: true}, // those that bring knowledge
		"findings.effect":               {list: constantsOf(t, "commands", "Effect")},
		"findings.finding":              {list: words(outcome.Findings()), none: true},
		"lookups.finding":               {list: words(outcome.Findings())},
		"doubts.evidence":               {list: words(outcome.Evidences()), none: true},
		"tally_deltas.what":             {list: constantsOf(t, "commands", "Tally")},
		"tally_totals.what":             {list: constantsOf(t, "commands", "Tally")},
		"tallies.what":                  {list: constantsOf(t, "commands", "Tally")},
		"tallies.span":                  {list: constantsOf(t, "commands", "Span")},
		"bulk_actions.action":           {list: reconcile.BulkActions()},
		"bulk_items.result":             {list: constantsOf(t, "reconcile", "BulkResult")},
		"reports.format":                {list: constantsOf(t, "reconcile", "ReportFormat")},
		"reports.state":                 {list: constantsOf(t, "reconcile", "ReportState")},
		"report_lines.finding":          {list: words(outcome.Findings()), none: true},
		"report_items.kind":             {list: constantsOf(t, "reconcile", "ReportKind")},
		"report_items.finding":          {list: words(outcome.Findings()), none: true},
		"report_items.effect":           {list: constantsOf(t, "commands", "Effect")},
		"webhook_endpoints.disabled_by": {list: constantsOf(t, "webhooks", "DisabledBy"), none: true},
		"webhook_endpoints.verified_by": {list: constantsOf(t, "webhooks", "VerifiedBy"), none: true},
		"webhook_deliveries.state":      {list: constantsOf(t, "webhooks", "DeliveryState")},
		"webhook_tries.failure":         {list: constantsOf(t, "webhooks", "Failure")},
		"operator_roles.role":           {list: words(operators.Roles())},
		"notices.state":                 {list: constantsOf(t, "reconcile", "NoticeState")},
		"notices.effect":                {list: constantsOf(t, "reconcile", "NoticeEffect"), none: true},
		"notices.named_by":              {list: constantsOf(t, "reconcile", "NamedBy"), none: true},
		"notices.weight":                {list: []string{upstreams.WeightConclusive, upstreams.WeightHint}},
		"notices.finding":               {list: words(outcome.Findings())},
	}
}

func TestTheSchemaSpeaksTheWordsOfTheCode(t *testing.T) {
	checks := listChecks(t)
	known := enums(t)
	for column, listed := range checks {
		if want, ok := known[column]; !ok {
			t.Errorf("the words of %s have no list to compare with: add it", column)
		} else if !want.allows(listed) {
			t.Errorf("%s takes %q, the code knows %q", column, listed, want.list)
		}
	}
	for column := range known {
		if checks[column] == nil {
			t.Errorf("%s has no CHECK that lists its words", column)
		}
	}
}

func (e enum) allows(listed []string) bool {
	want := slices.Clone(e.list)
	if e.none {
		want = append(want, "")
	}
	if e.some {
		return len(listed) > 0 && !slices.ContainsFunc(listed, func(word string) bool { return !slices.Contains(want, word) })
	}
	slices.Sort(want)
	return slices.Equal(listed, want)
}

var quoted = regexp.MustCompile(`'([^']*)'`)

// listChecks reads the words, sorted, of every CHECK on one column of our
// tables.
func listChecks(t *testing.T) map[string][]string {
	t.Helper()
	rows, err := testkit.Database(t).Query(context.Background(), `
		SELECT c.conrelid::regclass || '.' || a.attname, pg_get_constraintdef(c.oid)
		FROM pg_constraint c JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
		WHERE c.contype = 'c' AND cardinality(c.conkey) = 1 AND c.connamespace = 'public'::regnamespace
		  AND c.conrelid::regclass::text NOT LIKE 'river%'`)
	if err != nil {
		t.Fatal(err)
	}
	checks := map[string][]string{}
	var column, definition string
	_, err = pgx.ForEachRow(rows, []any{&column, &definition}, func() error {
		set := map[string]bool{}
		for _, match := range quoted.FindAllStringSubmatch(definition, -1) {
			set[match[1]] = true
		}
		if len(set) > 0 {
			checks[column] = slices.Sorted(maps.Keys(set))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return checks
}

// unfinished are marks of work that is not done, and paths of one person's
// machine. The marks are put together here so that this file has none.
var (
	unfinishedWords = []string{"TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK"}
	oneMachine      = []string{"/ro" + "ot/", "/Us" + "ers/", "/wo" + "rk/"}
	unfinished      = regexp.MustCompile(`\b(` + strings.Join(unfinishedWords, "|") + `)\b|(^|[\s"'(=])(` + strings.Join(oneMachine, "|") + `)\w`)
)

func TestNothingIsLeftUnfinished(t *testing.T) {
	suspects := slices.Concat(unfinishedWords, oneMachine)
	for _, path := range sourceFiles(t, ".go", ".sql", ".md", ".yaml", ".yml", ".html", ".css", ".mod", "") {
		if path != "LICENSE" {
			eachLineWith(t, path, suspects, func(n int, line string) {
				if mark := unfinished.FindString(line); mark != "" {
					t.Errorf("%s:%d: %q", path, n, strings.TrimSpace(mark))
				}
			})
		}
	}
}

// eachLineWith finds the lines that contain one of the words, which is much cheaper
// than an expression on every line.
func eachLineWith(t *testing.T, path string, words []string, found func(n int, line string)) {
	t.Helper()
	n := 0
	for line := range strings.Lines(readFile(t, path)) {
		n++
		if slices.ContainsFunc(words, func(word string) bool { return strings.Contains(line, word) }) {
			found(n, line)
		}
	}
}

// A skipped test looks like a passed one.
func TestNoTestIsSkipped(t *testing.T) {
	skip := regexp.MustCompile(`\b(t|tb|b|f)\.Skip(f|Now)?\(|\btesting\.Short\(`)
	for _, path := range sourceFiles(t, ".go") {
		eachLineWith(t, path, []string{".Skip", ".Short("}, func(n int, line string) {
			if call := skip.FindString(line); call != "" && path != "words_test.go" {
				t.Errorf("%s:%d: %s", path, n, call)
			}
		})
	}
}
