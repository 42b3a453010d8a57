package api

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
)

// covered is what the answers of this run showed.
var covered struct {
	mu         sync.Mutex
	operations map[string]bool      // that gave an answer which is no problem
	problems   map[ProblemCode]bool // that were answered and asserted
}

func coverOperation(id string) {
	covered.mu.Lock()
	defer covered.mu.Unlock()
	if covered.operations == nil {
		covered.operations = make(map[string]bool)
	}
	covered.operations[id] = true
}

func coverProblem(code ProblemCode) {
	covered.mu.Lock()
	defer covered.mu.Unlock()
	if covered.problems == nil {
		covered.problems = make(map[ProblemCode]bool)
	}
	covered.problems[code] = true
}

// TestMain fails a whole run in which an operation or a problem code of
// openapi.yaml was never answered.
func TestMain(m *testing.M) {
	flag.Parse()
	status := m.Run()
	if status == 0 && wholeRun() {
		status = missing()
	}
	os.Exit(status)
}

// wholeRun: no test, benchmark or fuzz target was picked out.
func wholeRun() bool {
	return !slices.ContainsFunc([]string{"test.run", "test.skip", "test.bench", "test.fuzz", "test.list"}, func(name string) bool {
		return flag.Lookup(name).Value.String() != ""
	})
}

func missing() (status int) {
	for _, op := range operations() {
		if !covered.operations[op.id] {
			fmt.Fprintf(os.Stderr, "no test was answered by %s\n", op.id)
			status = 1
		}
	}
	for _, m := range meanings() {
		if !covered.problems[m.code] {
			fmt.Fprintf(os.Stderr, "no test met the problem %s\n", m.code)
			status = 1
		}
	}
	return status
}
