package executor_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// sourceFiles lists the files of the project with one of the extensions, by
// their paths from the root. "" stands for files without one.
func sourceFiles(t *testing.T, extensions ...string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "bin" || entry.Name() == "node_modules"):
			return fs.SkipDir
		case entry.Type().IsRegular() && slices.Contains(extensions, filepath.Ext(path)):
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func isTest(path string) bool { return strings.HasSuffix(path, "_test.go") }

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func parseFile(t *testing.T, path string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// imported lists what a file imports.
func imported(file *ast.File) []string {
	var paths []string
	for _, spec := range file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		paths = append(paths, path)
	}
	return paths
}

// constantsOf lists the values of the string constants of a type in the package
// in dir.
func constantsOf(t *testing.T, dir, typeName string) []string {
	t.Helper()
	var values []string
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if isTest(path) {
			continue
		}
		ast.Inspect(parseFile(t, path), func(node ast.Node) bool {
			spec, ok := node.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if name, ok := spec.Type.(*ast.Ident); ok && name.Name == typeName {
				values = append(values, literals(spec)...)
			}
			return true
		})
	}
	return values
}

// literals lists the string literals in a piece of code. Those that are added
// together count as one.
func literals(root ast.Node) []string {
	var texts []string
	ast.Inspect(root, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.BinaryExpr:
			if text, ok := joined(n); ok {
				texts = append(texts, text)
				return false
			}
		case *ast.BasicLit:
			if text, ok := joined(n); ok {
				texts = append(texts, text)
			}
		}
		return true
	})
	return texts
}

// joined is the text of a literal or a sum of them; what is not constant in a
// sum leaves a blank.
func joined(expr ast.Expr) (string, bool) {
	switch e := expr.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, e.Kind == token.STRING && err == nil
	case *ast.ParenExpr:
		return joined(e.X)
	case *ast.BinaryExpr:
		x, isX := joined(e.X)
		y, isY := joined(e.Y)
		return x + " " + y, e.Op == token.ADD && (isX || isY)
	default:
		return "", false
	}
}
