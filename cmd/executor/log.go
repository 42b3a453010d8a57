package main

import (
	"io"
	"log/slog"
	"os"
)

// newLogger writes structured logs to stderr: JSON for machines, text where a
// person watches.
func newLogger(w io.Writer, format, level string) *slog.Logger {
	l, err := parseLevel(level)
	if err != nil {
		l = slog.LevelInfo
	}
	options := &slog.HandlerOptions{Level: l}
	if format == "text" || format == "auto" && isTerminal(w) {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(jsonWriter{w}, options))
}

// isTerminal tells a terminal from a file or a pipe.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
