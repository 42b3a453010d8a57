package main

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
)

// goRunBinary matches the places from which "go run" starts what it built: a
// work folder that goes away, or the build cache.
var goRunBinary = regexp.MustCompile(`[/\\]go-build[0-9]+[/\\]b[0-9]+[/\\]exe[/\\]|[/\\][0-9a-f]{64}-d[/\\]`)

// invocation is how this program is started again from the same folder, fit to
// be pasted into a shell.
func invocation(args0 string) string {
	if !goRunBinary.MatchString(args0) {
		return shellQuote(args0)
	}
	if _, err := os.Stat(filepath.Join("cmd", "executor", "main.go")); err == nil {
		return "go run ./cmd/executor"
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Path != "" {
		return "go run " + shellQuote(info.Path)
	}
	return shellQuote(args0)
}

var shellSafe = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// shellQuote makes one word for a POSIX shell of any text.
func shellQuote(s string) string {
	if shellSafe.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
