package reconcile

import (
	"slices"
	"testing"

	"executor/internal/audit"
)

// What is done to a command is offered by name where the audit is looked through.
func TestActionsAreThoseOfTheAudit(t *testing.T) {
	for _, action := range []string{ActionResolve, ActionLookup, ActionResend, ActionAssign, ActionNote, ActionCorrect, ActionDismiss} {
		if !slices.Contains(audit.Actions(), "command."+action) {
			t.Errorf("command.%s is not in the list of the audit", action)
		}
	}
}
