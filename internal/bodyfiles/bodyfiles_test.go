package bodyfiles_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

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

// TestAppend: what is referred to comes whole, whatever else stands beside it.
func TestAppend(t *testing.T) {
	dir := t.TempDir()
	root := bodyfiles.New(dir)
	for tenant, folder := range map[string]string{"acme": "acme", "a/b": "a%2Fb", "..": "%2E%2E", ".": "%2E"} {
		write(t, filepath.Join(dir, folder, "in", "a b.bin"), "content of "+tenant)
		got, err := root.Append(t.Context(), nil, tenant, reference("in/a b.bin", "content of "+tenant))
		if err != nil || string(got) != "content of "+tenant {
			t.Errorf("tenant %q: %q, %v", tenant, got, err)
		}
		if err := root.Verify(t.Context(), tenant, reference("in/a b.bin", "content of "+tenant)); err != nil {
			t.Errorf("tenant %q: %v", tenant, err)
		}
	}
	write(t, filepath.Join(dir, "acme", "empty"), "")
	if got, err := root.Append(t.Context(), []byte{}, "acme", reference("empty", "")); err != nil || len(got) != 0 {
		t.Errorf("an empty file: %q, %v", got, err)
	}
}

// TestAppendRefuses: every way to other bytes than those referred to is a mismatch,
// which is for good.
func TestAppendRefuses(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside")
	write(t, outside, "secret")
	write(t, filepath.Join(dir, "other", "file"), "secret")
	write(t, filepath.Join(dir, "acme", "file"), "content")
	for name, target := range map[string]string{"link": outside, "up": "../other/file", "dirlink": filepath.Dir(outside), "circle": "circle"} {
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
		"a folder": reference(".", ""), "a file for a folder": reference("file/in", ""), "a name too long": reference(strings.Repeat("n", 300), ""), "a circle": reference("circle", ""), "a pipe": reference("pipe", ""), "no name": reference("", ""), "backslash": reference(`..\other\file`, "secret"),
	} {
		got, err := bodyfiles.New(dir).Append(t.Context(), nil, "acme", f)
		var mismatch *bodyfiles.Mismatch
		if !errors.As(err, &mismatch) || got != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if err := bodyfiles.New(dir).Verify(t.Context(), "acme", f); !errors.As(err, &mismatch) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := bodyfiles.New("").Append(t.Context(), nil, "acme", reference("file", "content")); !errors.Is(err, bodyfiles.ErrNoRoot) {
		t.Errorf("no root: %v", err)
	}
}

// TestAVolumeThatIsNotThere: what somebody can mend is no mismatch, says nothing of
// the machine's folders to callers, and is good again afterwards.
func TestAVolumeThatIsNotThere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bodies")
	folder, file := filepath.Join(dir, "acme"), reference("file", "content")
	root := bodyfiles.New(dir)
	for what, change := range map[string]func() error{
		"no folder of the deployment": func() error { return os.RemoveAll(dir) },
		"no folder of the tenant":     func() error { return os.RemoveAll(folder) },
		"an empty folder":             func() error { return os.Remove(filepath.Join(folder, "file")) },
		"a folder that may not be read": func() error {
			if os.Geteuid() == 0 { // may read everything
				return os.RemoveAll(folder)
			}
			return os.Chmod(folder, 0)
		},
	} {
		write(t, filepath.Join(folder, "file"), "content")
		if err := change(); err != nil {
			t.Fatal(err)
		}
		_, err := root.Append(t.Context(), nil, "acme", file)
		var gone *bodyfiles.Unavailable
		if !errors.As(err, &gone) || strings.Contains(gone.Detail, dir) {
			t.Errorf("%s: %v", what, err)
		}
		if err := root.Verify(t.Context(), "acme", file); !errors.As(err, &gone) {
			t.Errorf("%s: %v", what, err)
		}
		_ = os.Chmod(folder, 0o700)
		write(t, filepath.Join(folder, "file"), "content")
		if err := root.Verify(t.Context(), "acme", file); err != nil {
			t.Errorf("after %s: %v", what, err)
		}
	}
}

// TestADiskThatStandsStill: whoever reads goes on in time, later reads of the tenant
// do not even begin, those of others do, and all is well once the disk is back.
func TestADiskThatStandsStill(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "acme", "file"), "content")
	write(t, filepath.Join(dir, "other", "file"), "content")
	file, back := reference("file", "content"), make(chan struct{})
	root := bodyfiles.New(dir)
	begun := make(chan struct{}, 100)
	var standing atomic.Int32
	root.SetFault(func(tenant, _ string) {
		if tenant == "acme" {
			if n := standing.Add(1); n > 16 {
				t.Errorf("%d reads of one tenant stand still at once", n)
			}
			defer standing.Add(-1)
			begun <- struct{}{}
			<-back
		}
	})
	var gone *bodyfiles.Unavailable
	many, leave := context.WithCancel(t.Context())
	var crowd sync.WaitGroup
	for range 5 {
		crowd.Go(func() { _ = root.Verify(many, "acme", file) })
	}
	<-begun
	patient, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := root.Verify(patient, "other", file); err != nil {
		t.Errorf("beside the many of another tenant: %v", err)
	}
	for range 30 {
		crowd.Go(func() { _, _ = root.Append(many, nil, "acme", file) })
	}
	for range 15 {
		<-begun
	}
	leave()
	crowd.Wait()
	for range 2 {
		soon, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		if err := root.Verify(soon, "acme", file); !errors.As(err, &gone) {
			t.Fatalf("a read that stands still: %v", err)
		}
	}
	if _, err := root.Append(t.Context(), nil, "acme", file); !errors.As(err, &gone) {
		t.Errorf("a third read: %v", err)
	}
	if err := root.Verify(t.Context(), "other", file); err != nil {
		t.Errorf("another tenant: %v", err)
	}
	close(back)
	again, giveUp := time.NewTicker(time.Millisecond), time.After(time.Minute)
	defer again.Stop()
	for err := root.Verify(t.Context(), "acme", file); err != nil; err = root.Verify(t.Context(), "acme", file) {
		select {
		case <-again.C:
		case <-giveUp:
			t.Fatalf("the disk is back, and still: %v", err)
		}
	}
}
