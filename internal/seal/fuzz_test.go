package seal_test

import (
	"bytes"
	"errors"
	"testing"

	"executor/internal/seal"
)

// FuzzOpen: nothing opens but what was sealed, whole, in its place, under a key that
// is there; and that gives back what it was.
func FuzzOpen(f *testing.F) {
	key, other := bytes.Repeat([]byte("k1"), seal.KeyBytes/2), bytes.Repeat([]byte("o2"), seal.KeyBytes/2)
	box, err := seal.New(key, other)
	if err != nil {
		f.Fatal(err)
	}
	elsewhere, err := seal.New(other)
	if err != nil {
		f.Fatal(err)
	}
	const secret, place = "whsec_secret", "webhook_secrets/1/secret"
	for _, sealed := range [][]byte{box.Seal([]byte(secret), place), elsewhere.Seal([]byte(secret), place), box.Mark(), nil, []byte("plain text")} {
		f.Add(sealed, []byte(secret), place, 0)
		f.Add(sealed, []byte{}, "", 7)
		f.Add(append(sealed, 0), []byte{0}, place+"/", len(sealed))
	}
	f.Fuzz(func(t *testing.T, foreign, plain []byte, context string, at int) {
		if got, err := box.Open(foreign, context); err == nil {
			if context != place || string(got) != secret {
				t.Fatalf("%x opens in %q as %q", foreign, context, got)
			}
		} else if !errors.Is(err, seal.ErrAltered) && !errors.Is(err, seal.ErrUnknownKey) {
			t.Fatal(err)
		}
		sealed := box.Seal(plain, context)
		if got, err := box.Open(sealed, context); err != nil || !bytes.Equal(got, plain) || !bytes.HasPrefix(sealed, box.Mark()) {
			t.Fatalf("%q became %q, %v", plain, got, err)
		}
		if _, err := box.Open(sealed, context+"x"); !errors.Is(err, seal.ErrAltered) {
			t.Fatalf("it opens in another place: %v", err)
		}
		if _, err := elsewhere.Open(sealed, context); !errors.Is(err, seal.ErrUnknownKey) {
			t.Fatalf("it opens under another key: %v", err)
		}
		at = int(uint(at) % uint(len(sealed)))
		if _, err := box.Open(sealed[:at], context); err == nil {
			t.Fatalf("its first %d bytes open", at)
		}
		sealed[at] ^= 1
		if _, err := box.Open(sealed, context); err == nil {
			t.Fatalf("it opens with another byte %d", at)
		}
	})
}
