package tenants

import (
	"strings"

	"github.com/google/uuid"

	"executor/internal/operators"
)

// Names are what a request can name of a tenant: by kind of thing, the id or the
// text.
type Names map[string]string

// Names of a tenant's own things. UUIDs are those that a path can hold; the rest is
// text that stands in queries and bodies.
func (th *Things) Names() Names {
	n := Names{
		"tenant": th.Tenant, "actor": th.Actor, "upstream": th.OwnUpstream, "key": th.OwnKey, "reference": th.OwnReference,
	}
	for kind, id := range map[string]uuid.UUID{
		"command": th.Unresolved, "doubted": th.Doubted, "asked": th.Asked, "paid": th.Paid, "disputed": th.Disputed, "waiting": th.Waiting, "own": th.Own,
		"webhook": th.Webhook, "unproven": th.Unproven, "secret": th.Secret, "delivery": th.Delivery, "event": th.Event, "report": th.Report, "bulk": th.Bulk,
		"apikey": th.Scopes["admin"].ID, "operator": th.People[operators.RoleOperator].ID, "invited": th.LinkOf, "session": th.Session,
	} {
		n[kind] = id.String()
	}
	return n
}

// IDs are the kinds that a path can hold.
func (n Names) IDs() (kinds []string) {
	for kind, name := range n {
		if _, err := uuid.Parse(name); err == nil {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// nobody is as long as the name of a tenant, sorts as it does, and stands in no answer.
const nobody = "glorex"

// Nobody is the name of no tenant.
func (Names) Nobody() string { return nobody }

// Ghosts are names of the same form that name nothing at all.
func (n Names) Ghosts() Names {
	ghosts := Names{}
	for kind, name := range n {
		if _, err := uuid.Parse(name); err == nil {
			ghosts[kind] = uuid.Must(uuid.NewV7()).String()
		} else {
			ghosts[kind] = strings.ReplaceAll(name, n["tenant"], nobody)
		}
	}
	return ghosts
}

// Hide replaces the names in a text by their kinds.
func (n Names) Hide(text string) string {
	for kind, name := range n {
		if _, err := uuid.Parse(name); err == nil || kind == "cursor" {
			text = strings.ReplaceAll(text, name, "«"+kind+"»")
		}
	}
	return strings.ReplaceAll(text, n["tenant"], "«tenant»")
}
