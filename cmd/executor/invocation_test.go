package main

import (
	"os"
	"strings"
	"testing"
)

func TestInvocation(t *testing.T) {
	cached := "/home/me/.cache/go-build/ab/" + strings.Repeat("0f", 32) + "-d/executor"
	t.Chdir("../..")
	for args0, want := range map[string]string{
		"/tmp/go-build123/b001/exe/executor":       "go run ./cmd/executor",
		cached:                                     "go run ./cmd/executor",
		"./bin/executor":                           "./bin/executor",
		"executor":                                 "executor",
		"/home/me/my tools/executor":               "'/home/me/my tools/executor'",
		"/tmp/go-build123/b001/executor.test":      "/tmp/go-build123/b001/executor.test",
		"/home/me/src/go-build-tools/bin/executor": "/home/me/src/go-build-tools/bin/executor",
	} {
		if got := invocation(args0); got != want {
			t.Errorf("invocation(%q) = %q, want %q", args0, got, want)
		}
	}
}

func TestInvocationElsewhereNamesThePackage(t *testing.T) {
	t.Chdir(t.TempDir())
	got := invocation("/tmp/go-build123/b001/exe/executor")
	if !strings.HasPrefix(got, "go run ") || strings.Contains(got, "./") {
		t.Errorf("got %q", got)
	}
	if _, err := os.Stat("cmd"); err == nil {
		t.Fatal("the test's folder must be empty")
	}
}

func TestShellQuote(t *testing.T) {
	for text, want := range map[string]string{
		"plain": "plain", "two words": "'two words'", "it's": `'it'\''s'`, "$HOME": "'$HOME'", "": "''",
	} {
		if got := shellQuote(text); got != want {
			t.Errorf("shellQuote(%q) = %s, want %s", text, got, want)
		}
	}
}
