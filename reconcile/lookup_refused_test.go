package reconcile_test

import (
	"net/http"
	"strings"
	"testing"

	"executor/outcome"
)

// TestRefusedFindings: should the database refuse what a lookup saw, the finding is
// written without it, and settles the command all the same.
func TestRefusedFindings(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.exec(t, `
		CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF convert_from(NEW.response_body, 'UTF8') LIKE '%poison%' THEN
				RAISE EXCEPTION 'refused' USING ERRCODE = '22021';
			END IF;
			RETURN NEW;
		END $$`)
	r.exec(t, `CREATE TRIGGER refuse BEFORE INSERT ON lookups FOR EACH ROW EXECUTE FUNCTION refuse()`)
	up := newServer(t, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, strings.Replace(done, `"id"`, `"note": "poison", "id"`, 1))
	})
	r.apply(t, profileFor(up.URL, byKey("schedule: {first_after: 0s}"), ""))
	id := r.unresolved(t, "k1", lost)
	r.start(t)

	c := r.reaches(t, id, outcome.StateSuccess)
	if c.Outcome.DecidedBy != outcome.DecidedByLookup {
		t.Errorf("decided by %s", c.Outcome.DecidedBy)
	}
	list := r.lookups(t, id)
	if len(list) != 1 || list[0].Status != 200 || len(list[0].Notes) != 1 || len(list[0].ResponseBody) != 0 || list[0].Finding != outcome.FindingApplied {
		t.Errorf("on record are %+v", list)
	}
}
