package seal_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"executor/internal/seal"
)

func newKey(t *testing.T) []byte {
	t.Helper()
	key := make([]byte, seal.KeyBytes)
	_, _ = rand.Read(key) // never fails
	return key
}

func newBox(t *testing.T, current []byte, older ...[]byte) *seal.Box {
	t.Helper()
	box, err := seal.New(current, older...)
	if err != nil {
		t.Fatal(err)
	}
	return box
}

func TestOpenGivesBackWhatWasSealed(t *testing.T) {
	box := newBox(t, newKey(t))
	for _, plain := range []string{"", "s", "whsec_secret", strings.Repeat("long", 1000)} {
		sealed := box.Seal([]byte(plain), "secrets/1/value")
		if len(plain) > 4 && bytes.Contains(sealed, []byte(plain)) {
			t.Errorf("%q can be read in what was sealed", plain)
		}
		got, err := box.Open(sealed, "secrets/1/value")
		if err != nil || string(got) != plain {
			t.Errorf("opened %q, %v, want %q", got, err, plain)
		}
	}
	if bytes.Equal(box.Seal([]byte("same"), "c"), box.Seal([]byte("same"), "c")) {
		t.Error("the same secret sealed twice looks the same")
	}
}

func TestASecretOpensOnlyInItsPlace(t *testing.T) {
	box := newBox(t, newKey(t))
	first, second := box.Seal([]byte("one"), "secrets/1/value"), box.Seal([]byte("two"), "secrets/2/value")
	for _, swapped := range []struct {
		sealed  []byte
		context string
	}{{first, "secrets/2/value"}, {second, "secrets/1/value"}, {first, "secrets/1/other"}, {first, ""}} {
		if got, err := box.Open(swapped.sealed, swapped.context); !errors.Is(err, seal.ErrAltered) {
			t.Errorf("at %q it opened as %q, %v", swapped.context, got, err)
		}
	}
}

func TestWhatWasAlteredDoesNotOpen(t *testing.T) {
	box := newBox(t, newKey(t))
	sealed := box.Seal([]byte("secret"), "c")
	for i := range sealed {
		altered := bytes.Clone(sealed)
		altered[i] ^= 1
		if _, err := box.Open(altered, "c"); err == nil {
			t.Errorf("byte %d altered: it opened", i)
		}
	}
	for n := range len(sealed) {
		if _, err := box.Open(sealed[:n], "c"); err == nil {
			t.Errorf("cut to %d bytes: it opened", n)
		}
	}
}

func TestRotation(t *testing.T) {
	before, after := newKey(t), newKey(t)
	old := newBox(t, before).Seal([]byte("secret"), "c")
	if _, err := newBox(t, after).Open(old, "c"); !errors.Is(err, seal.ErrUnknownKey) {
		t.Errorf("without the older key: %v", err)
	}
	box := newBox(t, after, before, before, after)
	if got, err := box.Open(old, "c"); err != nil || string(got) != "secret" {
		t.Errorf("with the older key: %q, %v", got, err)
	}
	if bytes.HasPrefix(old, box.Mark()) {
		t.Error("what was sealed under the older key counts as current")
	}
	sealed := box.Seal([]byte("secret"), "c")
	if !bytes.HasPrefix(sealed, box.Mark()) {
		t.Error("what was sealed now does not count as current")
	}
	if _, err := newBox(t, before).Open(sealed, "c"); !errors.Is(err, seal.ErrUnknownKey) {
		t.Errorf("the older key alone opens what the newer sealed: %v", err)
	}
	if _, err := seal.New(after, before[:16]); err == nil {
		t.Error("a short key was taken")
	}
}

func TestParseKey(t *testing.T) {
	key := newKey(t)
	key[0], key[1], key[2] = 0xfb, 0xff, 0xfe // both alphabets differ
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		if got, err := seal.ParseKey(" " + encoding.EncodeToString(key) + "\n"); err != nil || !bytes.Equal(got, key) {
			t.Errorf("%v, %v", got, err)
		}
	}
	for text, want := range map[string]string{
		"": "empty", "pass word!": "not base64",
		base64.StdEncoding.EncodeToString(key[:31]): "31 bytes instead of 32", strings.Repeat("A", 43): "again and again",
	} {
		_, err := seal.ParseKey(text)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "openssl rand -base64 32") {
			t.Errorf("%q: %v, want %q and how to make one", text, err, want)
		}
		if err != nil && len(text) > 5 && strings.Contains(err.Error(), text) {
			t.Errorf("the error shows the key: %v", err)
		}
	}
}

// TestTag: a tag is recognised under the key it was made with, also when that is an
// older one, and by nobody else.
func TestTag(t *testing.T) {
	old, current := newKey(t), newKey(t)
	before, err := seal.New(old)
	if err != nil {
		t.Fatal(err)
	}
	after, err := seal.New(current, old)
	if err != nil {
		t.Fatal(err)
	}
	other, err := seal.New(current)
	if err != nil {
		t.Fatal(err)
	}
	tag := before.Tag([]byte("body"))
	if len(tag) != seal.TagBytes || !before.Tagged(tag, []byte("body")) || !after.Tagged(tag, []byte("body")) {
		t.Error("a tag is not recognised")
	}
	if other.Tagged(tag, []byte("body")) || after.Tagged(tag, []byte("bodY")) || after.Tagged(nil, []byte("body")) {
		t.Error("a tag is recognised that is not one")
	}
}

func TestKnowsAndNamesKeys(t *testing.T) {
	mine, other := newKey(t), newKey(t)
	box := newBox(t, mine)
	sealed, foreign := box.Seal([]byte("s"), "c"), newBox(t, other).Seal([]byte("s"), "c")
	if !box.Knows(sealed) || !box.Knows(box.Mark()) || box.Knows(foreign) || box.Knows(nil) || box.Knows([]byte("xxxxxx")) {
		t.Error("it does not know its own keys, or knows others")
	}
	if seal.KeyName(sealed) != seal.KeyName(box.Mark()) || seal.KeyName(sealed) == seal.KeyName(foreign) || seal.KeyName([]byte("x")) != "unknown" {
		t.Errorf("names %s, %s, %s", seal.KeyName(sealed), seal.KeyName(box.Mark()), seal.KeyName(foreign))
	}
}
