package upstreams

import "executor/outcome"

// Lookup is a read-only question: what became of this command?
type Lookup struct {
	Method   string
	Path     string // template; exactly {link} = where the upstream said that the state can be seen
	Query    []QueryParam
	Quoting  string // what becomes of quotes in a value that stands in quotes: refuse, backslash or doubled
	Replay   bool   // ask by sending the command again, with the same key and bytes
	Compare  []*Expression
	Findings []FindingRule
	Schedule outcome.Schedule
	Absence  outcome.Absence
}

// FindingRule says what the answer to a lookup, or a notice, means if its
// condition holds.
type FindingRule struct {
	When                     *Expression
	Finding                  outcome.Finding // any but unknown
	Reference, Code, Message *Expression     // nil = none
}

// How a value is put between quotes of a search language.
const (
	QuotingRefuse    = "refuse"    // a value with a quote or a backslash is not asked by
	QuotingBackslash = "backslash" // \" for a quote, \\ for a backslash
	QuotingDoubled   = "doubled"   // '' for a quote, as in SQL and OData
)

const linkPath = "{link}"

// LookupSchedule is when the rounds of lookups are made: as the first lookup
// says. It is zero for an operation that has none.
func (o *Operation) LookupSchedule() outcome.Schedule {
	if len(o.Lookups) == 0 {
		return outcome.Schedule{}
	}
	return o.Lookups[0].Schedule
}

// LookupAbsence is what a round has to show for "not found" to prove something:
// as the first lookup says that has a settles_after. Without one absence never
// proves anything.
func (o *Operation) LookupAbsence() outcome.Absence {
	for _, l := range o.Lookups {
		if l.Absence.SettlesAfter > 0 {
			return l.Absence
		}
	}
	return outcome.Absence{}
}
