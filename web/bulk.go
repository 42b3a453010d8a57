package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"executor/commands"
	"executor/outcome"
	"executor/reconcile"
)

// bulkDeed is one thing to do to many.
type bulkDeed struct {
	Name    string // of the choice
	Label   string
	Action  string
	State   outcome.State // to resolve
	Absent  bool          // to resend
	Follows []string      // what follows, for each of them
}

var bulkDeeds = []bulkDeed{
	{Name: "resolve_success", Label: "Resolve as success", Action: reconcile.ActionResolve, State: outcome.StateSuccess, Follows: []string{
		"The caller of each is told success, with the reference to your evidence, by webhook too.", "Nothing is sent to the upstream. It cannot be undone, only corrected, one by one."}},
	{Name: "resolve_rejected", Label: "Resolve as rejected", Action: reconcile.ActionResolve, State: outcome.StateRejected, Follows: []string{
		"The caller of each is told that the upstream refused it and nothing was done, by webhook too.", "Nothing is sent to the upstream. It cannot be undone, only corrected, one by one."}},
	{Name: "resolve_cancelled", Label: "Resolve as cancelled", Action: reconcile.ActionResolve, State: outcome.StateCancelled, Follows: []string{
		"The caller of each is told that nothing of it arrived and that it may be submitted again under a new key, by webhook too. What did arrive after all is then done twice.",
		"Nothing is sent to the upstream. It cannot be undone, only corrected, one by one."}},
	{Name: "lookup", Label: "Look up now", Action: reconcile.ActionLookup, Follows: []string{
		"The upstream is asked once about each: that only reads. A clear answer settles the command, and its caller is told."}},
	{Name: "resend", Label: "Resend, where it is safe as things stand", Action: reconcile.ActionResend, Follows: []string{
		"Each is sent once more under its own key. Where that is not safe, the command is left alone.", "What was sent cannot be called back."}},
	{Name: "resend_absent", Label: "Resend: I found that nothing arrived", Action: reconcile.ActionResend, Absent: true, Follows: []string{
		"Each is sent once more under its own key. By your finding, everything sent so far counts as never arrived: where that is wrong, it is done twice.", "What was sent cannot be called back."}},
	{Name: "assign", Label: "Assign", Action: reconcile.ActionAssign, Follows: []string{"The queue shows the name. The caller is told nothing, and nothing is sent."}},
	{Name: "note", Label: "Add a note", Action: reconcile.ActionNote, Follows: []string{"Each has the note on record. The caller is told nothing, and nothing is sent."}},
}

func bulkDeedOf(name string) (bulkDeed, bool) {
	for _, d := range bulkDeeds {
		if d.Name == name {
			return d, true
		}
	}
	return bulkDeed{}, false
}

// deedOf is what an order that was stored asks for.
func deedOf(o reconcile.BulkOrder) bulkDeed {
	for _, d := range bulkDeeds {
		if d.Action == o.Action && d.Absent == o.Absent && (o.Resolution == nil || d.State == o.Resolution.State) {
			return d
		}
	}
	return bulkDeed{Name: o.Action, Label: capital(o.Action), Action: o.Action}
}

// bulkPage is a bulk action before it is started.
type bulkPage struct {
	Deed      bulkDeed
	ID        uuid.UUID // under which it is started once
	Filter    string    // the query that the commands were found with
	Selection string
	Bulk      reconcile.Bulk // what it would be
	Sample    []bulkLine
	Form      actionForm
	Me        string
	Wrong     map[string]string
	Refused   string
	Started   bool // another one, under the id of the form
}

// Would is how many it would be done to as things stand.
func (p bulkPage) Would() int { return p.Bulk.Count - p.Bulk.Refused }

// Left says how many are left alone, by the reason.
func (p bulkPage) Left() []string { return problemLines(p.Bulk.Problems) }

// bulkLine is a command of a bulk action.
type bulkLine struct {
	reconcile.BulkItem
	Command commands.Command
}

// problemLines are how often each problem refuses, in words.
func problemLines(problems map[string]int) []string {
	var list []string
	for _, code := range sortedKeys(problems) {
		words := problemWords[code]
		if words == "" {
			words = capital(code)
		}
		list = append(list, fmt.Sprintf("%s: %s", number(problems[code]), words))
	}
	return list
}

var problemWords = map[string]string{
	"stale":                           "has moved on since it was selected",
	"not_found":                       "does not exist any more",
	"internal_error":                  "failed again and again; the log has the cause",
	reconcile.RefusedNotUnresolved:    "is not unresolved: there is nothing to find out about it",
	reconcile.RefusedNothingToReview:  "is settled and not contradicted: there is nothing to take on",
	reconcile.RefusedNoLookup:         "has no lookup: the upstream cannot be asked",
	reconcile.RefusedLookupInProgress: "is being asked about at this moment",
	reconcile.RefusedCancelRequested:  "was cancelled by its caller: it is not sent again",
	reconcile.RefusedResendNotSafe:    "may not be sent again: it is not safe to repeat, and nobody has confirmed that nothing arrived",
}

// startBulk shows what a bulk action would do, and starts it once that is confirmed.
func (s *Server) startBulk(v *visit) error {
	p, r, err := s.readBulk(v)
	if err != nil || p == nil {
		return err
	}
	if v.form("confirmed") != "yes" {
		return s.previewBulk(v, http.StatusOK, p, r)
	}
	if p.Deed.Action == reconcile.ActionAssign && p.Form.To == "other" && p.Form.Assignee == "" {
		p.Wrong["assignee"] = "Write who takes them on."
		return s.previewBulk(v, http.StatusUnprocessableEntity, p, r)
	}
	b, err := s.doubts.StartBulk(v.r.Context(), r)
	var refused *reconcile.Refused
	switch {
	case wrongFields(p.Wrong, err):
		return s.previewBulk(v, http.StatusUnprocessableEntity, p, r)
	case errors.As(err, &refused):
		p.Refused, p.Started = refused.Detail, refused.Code == reconcile.RefusedIDReused
		if p.Started { // the next try is an action of its own
			p.ID = uuid.Must(uuid.NewV7())
		}
		return s.previewBulk(v, http.StatusConflict, p, r)
	case err != nil:
		return err
	}
	return v.redirect("/bulk/" + b.ID.String())
}

// readBulk reads the form of a bulk action. Without a selection there is nothing to
// show, and the person is led back.
func (s *Server) readBulk(v *visit) (*bulkPage, reconcile.BulkRequest, error) {
	p := &bulkPage{Me: v.actor(), Filter: v.form("filter"), Form: v.typedAction(), Wrong: map[string]string{}}
	r := reconcile.BulkRequest{Tenant: v.tenant, Actor: v.actor()}
	var known bool
	if p.Deed, known = bulkDeedOf(v.form("do")); !known {
		return nil, r, s.leaveBulk(v, p, "Choose what to do with those you select.")
	}
	if p.ID, _ = uuid.Parse(v.form("id")); p.ID == uuid.Nil {
		p.ID = uuid.Must(uuid.NewV7())
	}
	values, err := url.ParseQuery(p.Filter)
	if err != nil {
		return nil, r, badRequest("The filter of the form cannot be read. Start again from the queue.")
	}
	q := readReviewQuery(values)
	r.Filter = q.filter("", v.actor())
	if len(q.Wrong) > 0 {
		return nil, r, badRequest("The filter of the form cannot be read. Start again from the queue.")
	}
	if r.Selection, err = s.selected(v); err != nil {
		return nil, r, err
	}
	if len(r.Selection) == 0 && v.form("scope") != "all" {
		return nil, r, s.leaveBulk(v, p, "Nothing was selected, so nothing was done. Tick some lines, or take all that match.")
	}
	if len(r.Selection) == 0 && len(r.Filter.Kinds) == 0 {
		r.Filter.Kinds = reconcile.ReviewKinds() // all there is
	}
	p.fill(&r)
	return p, r, nil
}

func (s *Server) leaveBulk(v *visit, p *bulkPage, text string) error {
	v.tell("bad", text)
	path := "/reviews"
	if p.Filter != "" {
		path += "?" + p.Filter
	}
	return v.redirect(path)
}

// selected are the commands of the form, each at the version that was seen: those
// that are ticked, or those of an earlier page, or those that another bulk action
// was refused for, as they are now.
func (s *Server) selected(v *visit) ([]reconcile.Selected, error) {
	texts := append(v.r.PostForm["item"], strings.Fields(v.form("selection"))...)
	if id, err := uuid.Parse(v.form("refused_of")); err == nil {
		return s.refusedOf(v, id)
	}
	var list []reconcile.Selected
	for _, text := range texts {
		id, version, _ := strings.Cut(text, ":")
		command, err := uuid.Parse(id)
		n, wrong := strconv.Atoi(version)
		if err != nil || wrong != nil || n < 1 {
			return nil, badRequest("The selection of the form cannot be read. Start again from the queue.")
		}
		list = append(list, reconcile.Selected{Command: command, Version: n})
	}
	return list, nil
}

// refusedOf are those that a bulk action left alone, as they are now.
func (s *Server) refusedOf(v *visit, id uuid.UUID) ([]reconcile.Selected, error) {
	b, err := s.doubts.Bulk(v.r.Context(), v.tenant, id)
	if err != nil {
		return nil, err
	}
	var list []reconcile.Selected
	lines, err := s.bulkLines(v, keepResult(b.Items, reconcile.BulkRefused))
	for _, line := range lines {
		list = append(list, reconcile.Selected{Command: line.Command.ID, Version: line.Command.Version})
	}
	return list, err
}

// fill puts what was typed into the request.
func (p *bulkPage) fill(r *reconcile.BulkRequest) {
	f := p.Form
	r.ID, r.Action, r.Reason, r.EvidenceReference, r.Absent = p.ID, p.Deed.Action, f.Reason, f.Evidence, p.Deed.Absent
	r.Resolution.State = p.Deed.State
	if p.Deed.State == outcome.StateRejected {
		r.Resolution.Code, r.Resolution.Message = f.Code, f.Message
	}
	switch {
	case p.Deed.Action != reconcile.ActionAssign:
	case f.To == "other":
		r.Assignee = f.Assignee
	case f.To != "nobody":
		r.Assignee, p.Form.To = p.Me, "me"
	}
}

// previewBulk shows what it would be done to as things stand. What is still missing
// in the form does not matter for that.
func (s *Server) previewBulk(v *visit, status int, p *bulkPage, r reconcile.BulkRequest) error {
	r.DryRun, r.Reason, r.EvidenceReference = true, "preview", "preview"
	r.Resolution.Code, r.Resolution.Message, r.Assignee = "", "", ""
	var err error
	if p.Bulk, err = s.doubts.StartBulk(v.r.Context(), r); err != nil {
		return refusedBulk(err)
	}
	var selection strings.Builder
	for _, c := range p.Bulk.Selection {
		fmt.Fprintf(&selection, "%s:%d ", c.Command, c.Version)
	}
	p.Selection = strings.TrimSpace(selection.String())
	if p.Sample, err = s.bulkLines(v, p.Bulk.Sample); err != nil {
		return err
	}
	return v.renderStatus(status, "bulk_preview.html", p.Deed.Label, p)
}

// refusedBulk is a refusal that no form of a bulk action can mend.
func refusedBulk(err error) error {
	var refused *reconcile.Refused
	if errors.As(err, &refused) {
		return &failure{http.StatusConflict, "Not possible", refused.Detail}
	}
	return err
}

// bulkLines adds to items the commands that they are about.
func (s *Server) bulkLines(v *visit, items []reconcile.BulkItem) ([]bulkLine, error) {
	ids := make([]uuid.UUID, len(items))
	for i, item := range items {
		ids[i] = item.Command
	}
	known, err := s.commands.Many(v.r.Context(), v.tenant, ids)
	if err != nil {
		return nil, err
	}
	var lines []bulkLine
	for _, item := range items {
		if c, ok := known[item.Command]; ok {
			lines = append(lines, bulkLine{item, c})
		}
	}
	return lines, nil
}
