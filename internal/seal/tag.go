package seal

import (
	"crypto/hmac"
	"crypto/sha256"
)

// TagBytes is the length of a tag.
const TagBytes = sha256.Size

// Tag is an HMAC-SHA-256 of what must not be kept itself, under the current key: it
// recognises the same bytes, and tells nobody without the key whether a guess is
// right.
func (b *Box) Tag(data []byte) []byte { return tag(b.tags[0], data) }

// Tagged reports whether a tag is that of the data, under any of the keys.
func (b *Box) Tagged(old, data []byte) bool {
	for _, key := range b.tags {
		if hmac.Equal(old, tag(key, data)) {
			return true
		}
	}
	return false
}

func tag(key, data []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write(data)
	return mac.Sum(nil)
}
