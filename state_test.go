package executor_test

import (
	"go/ast"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// The one place that writes a command's state.
const stateWriter = "commands: Store.Move"

var (
	// ofCommands finds statements that change rows of the table.
	ofCommands = regexp.MustCompile(`(?is)\b(UPDATE|INTO)\s+(ONLY\s+)?("?\w+"?\.)?"?commands"?(\s|\(|$)`)
	// setsState finds an assignment in a SET clause. Conditions do not match: what
	// stands before them is WHERE, AND or OR.
	setsState = regexp.MustCompile(`(?is)(\bSET\s+|,\s*)"?state"?\s*=|\bSET\s*\([^)]*\bstate\b[^)]*\)\s*=`)
)

func writesState(sql string) bool { return ofCommands.MatchString(sql) && setsState.MatchString(sql) }

func TestOnlyMoveWritesTheState(t *testing.T) {
	var writers []string
	for _, path := range sourceFiles(t, ".go") {
		if isTest(path) {
			continue // tests arrange what they need
		}
		for _, declaration := range parseFile(t, path).Decls {
			if slices.ContainsFunc(literals(declaration), writesState) {
				writers = append(writers, filepath.ToSlash(filepath.Dir(path))+": "+nameOf(declaration))
			}
		}
	}
	if !slices.Equal(writers, []string{stateWriter}) {
		t.Errorf("a command's state is written by %q, want %s alone", writers, stateWriter)
	}
	for _, path := range sourceFiles(t, ".sql") {
		for _, statement := range regexp.MustCompile(`;`).Split(readFile(t, path), -1) {
			if writesState(statement) {
				t.Errorf("%s writes a command's state:%s", path, statement)
			}
		}
	}
}

func nameOf(declaration ast.Decl) string {
	function, ok := declaration.(*ast.FuncDecl)
	if !ok {
		return "a declaration outside of any function"
	}
	if function.Recv == nil {
		return function.Name.Name
	}
	receiver := function.Recv.List[0].Type
	if star, ok := receiver.(*ast.StarExpr); ok {
		receiver = star.X
	}
	if name, ok := receiver.(*ast.Ident); ok {
		return name.Name + "." + function.Name.Name
	}
	return function.Name.Name
}

func TestWritesState(t *testing.T) {
	for sql, want := range map[string]bool{
		`UPDATE commands SET state = $1 WHERE id = $2`:                                           true,
		`UPDATE commands c SET version = c.version + 1, state = m.state FROM m`:                  true,
		"update only public.commands\nset\n\tstate='pending'":                                    true,
		`UPDATE commands SET (state, version) = ($1, 2)`:                                         true,
		`INSERT INTO commands (id, state) VALUES ($1, $2) ON CONFLICT DO UPDATE SET state = 'x'`: true,
		`WITH x AS (SELECT 1) UPDATE "commands" SET "state" = 'x'`:                               true,
		`INSERT INTO commands (id, state) VALUES ($1, 'pending')`:                                false,
		`UPDATE commands SET version = version + 1 WHERE state = 'pending' AND id = $1`:          false,
		`UPDATE command_requests SET state = 'x'`:                                                false,
		`UPDATE river_job SET state = 'available'`:                                               false,
		`SELECT state FROM commands WHERE state = 'pending'`:                                     false,
	} {
		if got := writesState(sql); got != want {
			t.Errorf("writesState(%q) = %v, want %v", sql, got, want)
		}
	}
}
