package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// Pin is an entry as somebody remembers it: usually a tenant's last one, noted
// outside of the database.
type Pin struct {
	Tenant string
	Number int64
	Hash   []byte
}

// String is what ParsePin reads: number:hash, in hexadecimal.
func (p Pin) String() string { return fmt.Sprintf("%d:%x", p.Number, p.Hash) }

// ParsePin reads what an operator noted of a tenant's head.
func ParsePin(tenant, text string) (Pin, error) {
	number, digits, found := strings.Cut(strings.TrimSpace(text), ":")
	n, err := strconv.ParseInt(number, 10, 64)
	hash, hexErr := hex.DecodeString(digits)
	if !found || err != nil || hexErr != nil || n < 1 || len(hash) != sha256.Size {
		return Pin{}, fmt.Errorf("a pinned audit entry is written number:hash, such as verify prints it, not %q", text)
	}
	return Pin{Tenant: tenant, Number: n, Hash: hash}, nil
}
