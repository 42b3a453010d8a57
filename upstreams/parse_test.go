package upstreams

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestErrors compares what Parse says about broken profiles with golden files.
func TestErrors(t *testing.T) {
	files, err := filepath.Glob("testdata/errors/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no broken profiles: %v", err)
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Parse(filepath.Base(file), src)
		var bad *ParseError
		if !errors.As(err, &bad) {
			t.Errorf("%s: got %v, want a ParseError", file, err)
			continue
		}
		golden(t, strings.TrimSuffix(file, ".yaml")+".txt", err.Error()+"\n")
		if strings.Contains(err.Error(), "sk_live") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: a secret is in the error", file)
		}
	}
}

// golden compares with a file, or rewrites it with -update.
func golden(t testing.TB, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("%s: got\n%s\nwant\n%s", file, got, want)
	}
}
