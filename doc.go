// Package executor has no code. It is the module's root, and the home of the
// tests that hold its parts together: which package may import which, who writes
// a command's state, and that code and schema speak the same words.
package executor
