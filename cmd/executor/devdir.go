package main

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"executor/internal/postgres"
	"executor/internal/seal"
)

// defaultDevDir lies in the folder where "executor dev" is started.
const defaultDevDir = ".executor-dev"

// devDir chooses and creates the folder of everything that "executor dev"
// keeps. Root's server runs as another user, who must be able to enter it:
// where it cannot, a folder of the system takes its place.
func devDir(wanted string) (string, error) {
	dir := wanted
	if dir == "" {
		dir = defaultDevDir
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if wanted == "" && os.Geteuid() == 0 && !everybodyEnters(filepath.Dir(dir)) {
		system, err := postgres.DefaultDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(system, "dev")
	}
	return dir, createDevDir(dir)
}

func createDevDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // whatever the umask
		return err
	}
	// The folder often lies in somebody's repository.
	return os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("*\n"), 0o644)
}

// everybodyEnters tells whether any user can reach dir through its parents.
func everybodyEnters(dir string) bool {
	for ; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm()&0o001 == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}

// demoDir is a folder for one run.
func demoDir() (string, error) {
	dir, err := os.MkdirTemp("", "executor-demo-")
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o755) // the server's user must be able to enter
}

// keptKey reads the API key of an earlier run; "" if there is none.
func keptKey(dir string) (string, error) {
	b, err := os.ReadFile(filepath.Join(dir, "api-key"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(b), err
}

// devEncryptionKey is the key of the secrets in this folder's database, made at
// the first start.
func devEncryptionKey(dir string) (string, error) {
	path := filepath.Join(dir, "encryption-key")
	b, err := os.ReadFile(path)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return string(b), err
	}
	key := make([]byte, seal.KeyBytes)
	_, _ = rand.Read(key) // never fails
	text := base64.StdEncoding.EncodeToString(key)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("keep the encryption key: %w", err)
	}
	return text, nil
}

func keepKey(dir, secret string) error {
	if err := os.WriteFile(filepath.Join(dir, "api-key"), []byte(secret), 0o600); err != nil {
		return fmt.Errorf("keep the API key: %w", err)
	}
	return nil
}
