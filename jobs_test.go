package executor_test

import (
	"go/ast"
	"strings"
	"testing"
)

// TestJobsHoldAnIDOnly: what the queue keeps of a job, and shows to whoever looks at
// its tables, is the id of a row of ours.
func TestJobsHoldAnIDOnly(t *testing.T) {
	kinds := 0
	for _, path := range sourceFiles(t, ".go") {
		if isTest(path) || strings.HasPrefix(path, "bench") {
			continue
		}
		file := parseFile(t, path)
		for _, declaration := range file.Decls {
			method, ok := declaration.(*ast.FuncDecl)
			if !ok || method.Name.Name != "Kind" || method.Recv == nil || method.Type.Results == nil {
				continue
			}
			receiver, ok := method.Recv.List[0].Type.(*ast.Ident)
			if !ok {
				t.Errorf("%s: Kind of a pointer", path)
				continue
			}
			kinds++
			if fields := fieldsOf(file, receiver.Name); fields != "ID uuid.UUID" {
				t.Errorf("%s: a job %s holds %q, not just an id", path, receiver.Name, fields)
			}
		}
	}
	if kinds == 0 {
		t.Error("no kind of job: the test does not find them")
	}
}

// fieldsOf lists the fields of a struct of the file.
func fieldsOf(file *ast.File, name string) string {
	var list []string
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.TypeSpec)
		if !ok || spec.Name.Name != name {
			return true
		}
		if fields, ok := spec.Type.(*ast.StructType); ok {
			for _, field := range fields.Fields.List {
				kind := "other"
				if s, ok := field.Type.(*ast.SelectorExpr); ok {
					kind = s.X.(*ast.Ident).Name + "." + s.Sel.Name
				}
				for _, n := range field.Names {
					list = append(list, n.Name+" "+kind)
				}
			}
		}
		return false
	})
	return strings.Join(list, ", ")
}
