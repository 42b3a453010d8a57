package egress

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const canary = "canary-7f3a/secret value"

// keeper holds secrets in every way a type can, also where fmt may not call
// methods.
type keeper struct {
	Public  Secret
	Pointer *Secret
	Any     any
	Map     map[string]Secret
	List    []Secret
	private Secret
	nested  struct{ secret Secret }
}

func TestSecretNeverPrints(t *testing.T) {
	s := NewSecret(canary)
	k := keeper{Public: s, Pointer: &s, Any: s, Map: map[string]Secret{"k": s}, List: []Secret{s}, private: s}
	k.nested.secret = s
	for _, value := range []any{s, &s, k, &k, k.Map, k.List, fmt.Errorf("wrapped %v", s)} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%10v", "%T", "%p"} {
			if out := fmt.Sprintf(verb, value); leaks(out) {
				t.Errorf("%s of %T prints %s", verb, value, out)
			}
		}
		var log bytes.Buffer
		for _, h := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
			slog.New(h).Info("m", "value", value, "group", slog.GroupValue(slog.Any("inner", value)))
		}
		out, _ := json.Marshal(value)
		markup, _ := xml.Marshal(value)
		if leaks(log.String()) || leaks(string(out)) || leaks(string(markup)) {
			t.Errorf("%T leaks: log %s, json %s, xml %s", value, &log, out, markup)
		}
	}
	if got := fmt.Sprint(s); got != redacted {
		t.Errorf("prints %q", got)
	}
	if s.Reveal() != canary || !s.Equal(NewSecret(canary)) || s.Empty() || !(Secret{}).Empty() || !(Secret{}).Equal(NewSecret("")) {
		t.Error("it does not hold what it was given")
	}
}

func leaks(text string) bool {
	hex := fmt.Sprintf("%x", canary)
	return strings.Contains(text, canary) || strings.Contains(strings.ToLower(text), hex) || strings.Contains(text, "canary")
}

func TestSecretsLookup(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside")
	write(t, outside, "no")
	write(t, filepath.Join(dir, "token"), "from file\r\n\n")
	write(t, filepath.Join(dir, "empty"), "\n")
	write(t, filepath.Join(dir, "huge"), strings.Repeat("x", secretBytes+1))
	write(t, filepath.Join(dir, "sub", "token"), "deeper")
	for link, target := range map[string]string{"inside": "sub/token", "escape": outside} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	env := map[string]string{"EXECUTOR_SECRET_KEY": "from env", "PATH": "no", "EXECUTOR_SECRET_": "no", "EXECUTOR_SECRET_EMPTY": ""}
	secrets := NewSecrets(func(name string) string { return env[name] }, dir)
	tests := []struct {
		ref, want string
		err       error
	}{
		{"env:EXECUTOR_SECRET_KEY", "from env", nil},
		{"env:EXECUTOR_SECRET_EMPTY", "", ErrMissing},
		{"env:EXECUTOR_SECRET_OTHER", "", ErrMissing},
		{"env:EXECUTOR_SECRET_", "", ErrReference},
		{"env:PATH", "", ErrReference},
		{"env:", "", ErrReference},
		{"file:token", "from file", nil},
		{"file:sub/token", "deeper", nil},
		{"file:inside", "deeper", nil},
		{"file:empty", "", ErrMissing},
		{"file:huge", "", ErrMissing},
		{"file:sub", "", ErrMissing},
		{"file:none", "", ErrMissing},
		{"file:escape", "", ErrMissing},
		{"file:../" + filepath.Base(filepath.Dir(outside)) + "/outside", "", ErrMissing},
		{"file:" + outside, "", ErrMissing},
		{"file:", "", ErrReference},
		{"a literal secret", "", ErrReference},
		{"", "", ErrReference},
	}
	for _, tt := range tests {
		got, err := secrets.Lookup(tt.ref)
		if got.Reveal() != tt.want || !errors.Is(err, tt.err) || (tt.err == nil) != (err == nil) {
			t.Errorf("Lookup(%q) = %q, %v; want %q, %v", tt.ref, got.Reveal(), err, tt.want, tt.err)
		}
	}
	if _, err := NewSecrets(os.Getenv, "").Lookup("file:token"); !errors.Is(err, ErrMissing) {
		t.Errorf("without a directory: %v", err)
	}
	if _, err := secrets.Lookup("sk_live_" + canary); leaks(err.Error()) {
		t.Errorf("the error repeats a literal secret: %v", err)
	}
}

func TestSecretsLookupSeesARotation(t *testing.T) {
	dir := t.TempDir()
	secrets := NewSecrets(os.Getenv, dir)
	for _, value := range []string{"first", "second"} {
		write(t, filepath.Join(dir, "token"), value)
		if got, err := secrets.Lookup("file:token"); err != nil || got.Reveal() != value {
			t.Errorf("got %q, %v", got.Reveal(), err)
		}
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// What is not meant to be written out at all, writes nothing out.
func TestSecretStaysInsideOtherEncodings(t *testing.T) {
	s := NewSecret(canary)
	var coded bytes.Buffer
	_ = gob.NewEncoder(&coded).Encode(struct{ S Secret }{s})
	if leaks(coded.String()) {
		t.Errorf("gob holds %q", coded.String())
	}
	func() {
		defer func() {
			if text := fmt.Sprint(recover()); leaks(text) {
				t.Errorf("a panic says %s", text)
			}
		}()
		panic(fmt.Sprintf("%+v", []any{s, &s, struct{ inner Secret }{s}}))
	}()
}
