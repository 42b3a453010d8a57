package scratch

import (
	"os"
	"path/filepath"
	"testing"
)

func TestDirIsNewAndOurs(t *testing.T) {
	for _, tmp := range []string{"", t.TempDir()} {
		t.Setenv("TMPDIR", tmp)
		dir, err := Dir("executor-scratch-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
			t.Errorf("%s has %v, %v; want it empty", dir, entries, err)
		}
		if tmp != "" && filepath.Dir(dir) != tmp {
			t.Errorf("%s is not in TMPDIR, %s", dir, tmp)
		}
	}
}
