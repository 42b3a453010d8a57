// Package examples holds upstream profiles to learn from. `executor dev` runs on
// the first of them.
package examples

import _ "embed"

// Ledger is the profile of the simulated upstream of `executor dev`.
//
//go:embed ledger.yaml
var Ledger []byte
