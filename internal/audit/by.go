package audit

// By says who does something, and why. The tenant is that of what it is done to.
type By struct {
	Actor  string // the person, or the API key's name
	Reason string // "" where none was asked for
}

// Deployment is the tenant in whose name the deployment's own chain is kept: who
// froze it, let it send again, made it somebody's. It is nobody's tenant; no API key
// and no profile can have the name.
const Deployment = "(deployment)"
