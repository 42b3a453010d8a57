package audit

import "strings"

// By says who does something, and why. The tenant is that of what it is done to.
type By struct {
	Actor  string // the person, or the API key's name
	Reason string // "" where none was asked for
}

// Deployment is the tenant in whose name the deployment's own chain is kept: who
// froze it, let it send again, made it somebody's. It is nobody's tenant; no API key
// and no profile can have the name.
const Deployment = "(deployment)"

// CheckTenant says what is wrong with a name for a tenant; "" is nothing.
func CheckTenant(name string) string {
	switch {
	case name == "" || len(name) > 63 || strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c > '~' }):
		return "Use 1 to 63 printable ASCII characters."
	case name == Deployment:
		return "The deployment's own audit is kept under it; choose another."
	default:
		return ""
	}
}
