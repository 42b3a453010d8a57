// Package scratch finds a place for the data of servers that live as long as a
// test. Every test has a database of its own, which is hundreds of files that come
// and go: on a disk that takes longer than many a test.
package scratch

import "os"

// Dir makes a directory that is the caller's to remove. It lies in memory where the
// machine has room for it there, unless TMPDIR names a place.
func Dir(pattern string) (string, error) {
	if memory := inMemory(); memory != "" && os.Getenv("TMPDIR") == "" {
		if dir, err := os.MkdirTemp(memory, pattern); err == nil {
			return dir, nil
		}
	}
	return os.MkdirTemp("", pattern)
}
