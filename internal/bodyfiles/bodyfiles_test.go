package bodyfiles_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"executor/internal/bodyfiles"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func reference(path, content string) bodyfiles.File {
	sum := sha256.Sum256([]byte(content))
	return bodyfiles.File{Path: path, Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:])}
}

// TestRead: what is referred to comes whole, whatever else stands beside it.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	root := bodyfiles.New(dir)
	for tenant, folder := range map[string]string{"acme": "acme", "a/b": "a%2Fb", "..": "%2E%2E", ".": "%2E"} {
		write(t, filepath.Join(dir, folder, "in", "a b.bin"), "content of "+tenant)
		got, err := root.Read(tenant, reference("in/a b.bin", "content of "+tenant))
		if err != nil || string(got) != "content of "+tenant {
			t.Errorf("tenant %q: %q, %v", tenant, got, err)
		}
		if err := root.Verify(t.Context(), tenant, reference("in/a b.bin", "content of "+tenant)); err != nil {
			t.Errorf("tenant %q: %v", tenant, err)
		}
	}
	write(t, filepath.Join(dir, "acme", "empty"), "")
	if got, err := root.Read("acme", reference("empty", "")); err != nil || len(got) != 0 {
		t.Errorf("an empty file: %q, %v", got, err)
	}
}

// TestReadRefuses: every way to other bytes than those referred to is a mismatch,
// which is for good.
func TestReadRefuses(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside")
	write(t, outside, "secret")
	write(t, filepath.Join(dir, "other", "file"), "secret")
	write(t, filepath.Join(dir, "acme", "file"), "content")
	for name, target := range map[string]string{"link": outside, "up": "../other/file", "dirlink": filepath.Dir(outside)} {
		if err := os.Symlink(target, filepath.Join(dir, "acme", name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "acme", "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	longer, changed := reference("file", "content"), reference("file", "CONTENT")
	longer.Size++
	huge := reference("file", "content")
	huge.Size = bodyfiles.MaxBytes + 1
	upper := reference("file", "content")
	upper.SHA256 = strings.ToUpper(upper.SHA256)
	for name, f := range map[string]bodyfiles.File{
		"not there": reference("gone", "content"), "other size": longer, "other bytes": changed, "too large": huge, "digest in capitals": upper,
		"up": reference("../other/file", "secret"), "absolute": reference("/etc/hostname", "secret"), "dot": reference("./file", "content"),
		"a link out": reference("link", "secret"), "a link up": reference("up", "secret"), "a link to a folder": reference("dirlink/outside", "secret"),
		"a folder": reference(".", ""), "a pipe": reference("pipe", ""), "no name": reference("", ""), "backslash": reference(`..\other\file`, "secret"),
	} {
		got, err := bodyfiles.New(dir).Read("acme", f)
		var mismatch *bodyfiles.Mismatch
		if !errors.As(err, &mismatch) || got != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if err := bodyfiles.New(dir).Verify(t.Context(), "acme", f); !errors.As(err, &mismatch) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var mismatch *bodyfiles.Mismatch
	if _, err := bodyfiles.New(dir).Read("nobody", reference("file", "content")); !errors.As(err, &mismatch) {
		t.Errorf("a tenant without a folder: %v", err)
	}
	if _, err := bodyfiles.New("").Read("acme", reference("file", "content")); !errors.Is(err, bodyfiles.ErrNoRoot) {
		t.Errorf("no root: %v", err)
	}
}
