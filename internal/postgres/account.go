package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is who runs the server. PostgreSQL refuses to run as root, so a
// process of root steps down for it.
type account struct {
	name       string
	credential *syscall.Credential // nil: stay who we are
}

// serverAccount is the current user, or for root the user postgres, or nobody.
func serverAccount() (account, error) {
	if os.Geteuid() != 0 {
		return account{name: "the current user"}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		found, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(found.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(found.Gid, 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return account{}, fmt.Errorf("read the ids of user %s: %w", name, err)
		}
		return account{name: "user " + name, credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
	}
	return account{}, errors.New("PostgreSQL does not run as root, and there is neither a user postgres nor a user nobody: " +
		"run as another user, or create one with useradd --system postgres")
}

// command runs a program as the account, in dir, with an environment that says
// nothing about other servers. Its process group is its own: Ctrl-C in the
// terminal must not end the server before those who use it.
func (a account) command(ctx context.Context, dir, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: a.credential}
	return cmd
}

// own creates a directory that only the account may read.
func (a account) own(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return err
	}
	return a.chown(dir)
}

func (a account) chown(path string) error {
	if a.credential == nil {
		return nil
	}
	return os.Lchown(path, int(a.credential.Uid), int(a.credential.Gid))
}

// canEnter checks that the account reaches dir through its parents, which root
// can always do and the account often not.
func (a account) canEnter(dir string) error {
	if a.credential == nil {
		return nil
	}
	for parent := filepath.Dir(dir); ; parent = filepath.Dir(parent) {
		info, err := os.Stat(parent)
		if err != nil {
			return err
		}
		if !a.mayPass(info) {
			return fmt.Errorf("%s cannot enter %s (mode %s), where the server's data would lie: choose a directory outside of it, for example %s",
				a.name, parent, info.Mode().Perm(), rootDir)
		}
		if parent == filepath.Dir(parent) {
			return nil
		}
	}
}

func (a account) mayPass(dir os.FileInfo) bool {
	const owner, group, others = 0o100, 0o010, 0o001
	stat, ok := dir.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return true // unknown: let the server find out
	case stat.Uid == a.credential.Uid:
		return dir.Mode()&owner != 0
	case stat.Gid == a.credential.Gid:
		return dir.Mode()&group != 0
	default:
		return dir.Mode()&others != 0
	}
}
