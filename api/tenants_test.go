package api

import (
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"executor/internal/apikeys"
	"executor/internal/audit"
	"executor/internal/postgres"
	"executor/internal/testkit/tenants"
)

// neighbours is the API on two tenants, of which acme asks for what is globex's.
type neighbours struct {
	*rig
	world        *tenants.World
	acme, globex *tenants.Things
	secrets      []string    // that only globex knows
	reports      [][2]string // of acme: on things of globex, and on nothing
}

func newNeighbours(t *testing.T) *neighbours {
	t.Helper()
	w := tenants.New(t)
	n := &neighbours{world: w, acme: w.Tenants[tenants.Acme], globex: w.Tenants[tenants.Globex]}
	n.rig = newRig(t, func(c *Config) {
		c.Commands, c.Upstreams, c.Keys, c.Deployment = w.Commands, w.Upstreams, w.Keys, w.Deployment
		c.Reviews, c.Lookups, c.Notices, c.Reports = w.Doubts, w.Doubts, w.Doubts, w.Doubts
		c.Webhooks, c.Audit = w.Hooks, NewAuditLog(w.Pool)
	})
	n.secrets = w.Secrets(t, tenants.Globex)
	return n
}

// put asks a question with an API key. Other tests hold the answers against the
// document.
func (n *neighbours) put(q question, secret string) *reply {
	n.t.Helper()
	req, err := http.NewRequestWithContext(n.t.Context(), q.method, n.http.URL+q.path, strings.NewReader(q.body))
	if err != nil {
		n.t.Fatal(err)
	}
	maps.Copy(req.Header, q.header)
	req.Header.Set("Authorization", "Bearer "+secret)
	resp, err := n.http.Client().Do(req)
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return &reply{t: n.t, what: q.String(), status: resp.StatusCode, header: resp.Header, body: body}
}

// names are what a request can name of a tenant, and beside them what only lists and
// the audit give out.
func (n *neighbours) names(th *tenants.Things) tenants.Names {
	n.t.Helper()
	names := th.Names()
	names["url"] = strings.Replace(th.WebhookURL, "/hook", "/hook-of-"+th.Tenant, 1)
	for _, op := range operations() {
		if !slices.Contains(op.query, "cursor") || slices.Contains(ofAll, op.id) {
			continue
		}
		q := question{method: op.method, path: strings.Replace(op.pattern, "{id}", names[thing(op)], 1) + "?limit=1"}
		var page struct {
			Next *string `json:"next_cursor"`
		}
		if n.put(q, th.Scopes["admin"].Secret).want(200).decode(&page); page.Next != nil {
			names["cursor "+op.id] = *page.Next
		}
	}
	report, err := audit.Verify(n.t.Context(), n.world.Pool, th.Tenant)
	if err != nil {
		n.t.Fatal(err)
	}
	names["pin"] = report.Chains[0].Head.String()
	return names
}

// ghosts are names of nothing. A cursor of the same moment leads to no row.
func (n *neighbours) ghosts(names tenants.Names) tenants.Names {
	ghosts := names.Ghosts()
	for kind, cursor := range names {
		if at, _, ok := postgres.ParseCursor(cursor); ok {
			ghosts[kind] = postgres.Cursor(at, uuid.New())
		}
	}
	number, _, _ := strings.Cut(names["pin"], ":")
	ghosts["pin"] = number + ":" + strings.Repeat("0", 64)
	return ghosts
}

// passing is what differs between two equal answers.
var passing = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{64}|\d{4}-\d\d-\d\dT[0-9:.]+Z|whsec_[\w+/=]+|/hook-of-\w+`)

// shape is an answer without what names the question's things, or the moment.
func shape(r *reply, names tenants.Names) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(r.header)) {
		if !slices.Contains([]string{"Date", "X-Request-Id", "Content-Length"}, name) {
			b.WriteString(name + ": " + strings.Join(r.header[name], ", ") + "\n")
		}
	}
	b.Write(r.body)
	text := strings.ReplaceAll(b.String(), r.header.Get("X-Request-Id"), "«request»")
	return http.StatusText(r.status) + "\n" + passing.ReplaceAllString(names.Hide(text), "«»")
}

// TestNoCallReachesAnotherTenant asks every operation, as every kind of API key of one
// tenant, for every kind of thing of the other. No answer tells it from a thing that
// does not exist, none holds anything of the other tenant, and nothing of it changes.
func TestNoCallReachesAnotherTenant(t *testing.T) {
	n := newNeighbours(t)
	theirs := n.names(n.globex)
	ghosts := n.ghosts(theirs)
	versions := versionsOf(t, n.world, n.globex)
	before := n.world.Rows(t, tenants.Globex)
	for _, op := range inOrder() {
		asked, control := questions(t, op, theirs, versions), questions(t, op, ghosts, versions)
		for _, scope := range apikeys.Scopes() {
			for i, q := range asked {
				if op.public && scope != apikeys.ScopeAdmin || scope != apikeys.ScopeAdmin && q.kind != thing(op) {
					continue // a scope decides whether, and never what: see below
				}
				n.compare(op, q, control[i], n.acme.Scopes[string(scope)].Secret, theirs, ghosts)
			}
		}
	}
	n.follow(theirs, ghosts)
	if diff := cmp.Diff(before, n.world.Rows(t, tenants.Globex)); diff != "" {
		t.Errorf("something of the other tenant changed:\n%s", diff)
	}
	n.checkOwnRows(theirs)
	n.world.CheckJoins(t)
}

// ofAll is what touches every tenant: not for one of several.
var ofAll = []string{"ListDeploymentAudit", "FreezeDeployment", "ResumeDeployment", "AdoptDeployment"}

// compare asks for something of the other tenant, and for nothing.
func (n *neighbours) compare(op operation, q, control question, secret string, theirs, ghosts tenants.Names) {
	n.t.Helper()
	got, want := n.put(q, secret), n.put(control, secret)
	for _, leak := range tenants.Leaks(n.secrets, q.text(), string(got.body)) {
		n.t.Errorf("%s: %s shows %s of the other tenant: %s", op.id, q, leak, got.body)
	}
	if diff := cmp.Diff(shape(want, ghosts), shape(got, theirs)); diff != "" {
		n.t.Errorf("%s: %s is told from what does not exist: (-nothing +theirs)\n%s", op.id, q, diff)
	}
	if slices.Contains(ofAll, op.id) && got.status != http.StatusForbidden {
		n.t.Errorf("%s: one tenant changes the deployment of all: %d", op.id, got.status)
	}
	if q.kind != "" && got.status < 400 {
		n.t.Errorf("%s: %s answers %d", op.id, q, got.status)
	}
	if op.id == "CreateReconciliation" && got.status < 300 {
		n.reports = append(n.reports, [2]string{got.header.Get("Location"), want.header.Get("Location")})
	}
}

// follow lets everything run that acme has started, and reads the settlement reports
// that name things of the other tenant: they know none of them.
func (n *neighbours) follow(theirs, ghosts tenants.Names) {
	n.t.Helper()
	stop := n.world.Follow()
	defer stop()
	admin := n.acme.Scopes["admin"].Secret
	if len(n.reports) == 0 {
		n.t.Error("no report was taken")
	}
	for _, pair := range n.reports {
		var items [2]string
		for i, names := range []tenants.Names{theirs, ghosts} {
			n.world.AwaitReport(n.t, tenants.Acme, uuid.MustParse(pair[i][strings.LastIndex(pair[i], "/")+1:]))
			items[i] = shape(n.put(question{method: "GET", path: pair[i] + "/items?limit=100"}, admin).want(200), names)
		}
		if items[0] != items[1] {
			n.t.Errorf("a report knows of the other tenant: %s", cmp.Diff(items[1], items[0]))
		}
	}
	tenants.Until(n.t, "the bulk action is done", func() bool {
		var bulk struct{ State string }
		n.put(question{method: "GET", path: "/v1/reviews/bulk/" + theirs["bulk"]}, admin).want(200).decode(&bulk)
		return bulk.State == "done"
	})
}

// checkOwnRows looks for what acme was given of the other tenant: nothing but the
// texts that it sent itself.
func (n *neighbours) checkOwnRows(theirs tenants.Names) {
	n.t.Helper()
	var ids []string
	for id := range tenants.IDs(n.secrets...) {
		if id != theirs["bulk"] { // chosen by whoever starts one
			ids = append(ids, id)
		}
	}
	for _, row := range n.world.Rows(n.t, tenants.Acme) {
		if strings.HasPrefix(row, "report_lines ") { // as they were sent
			continue
		}
		if leaks := tenants.Leaks(ids, "", row); len(leaks) > 0 {
			n.t.Errorf("a row of acme holds %v: %s", leaks, row)
		}
	}
}

// TestEveryQuestionFindsItsOwn: the same questions, asked by whom it belongs to, are
// answered. Without that the other test would prove nothing.
func TestEveryQuestionFindsItsOwn(t *testing.T) {
	n := newNeighbours(t)
	for _, op := range inOrder() {
		if slices.Contains(ofAll, op.id) {
			continue
		}
		var answers []string
		found := false
		for _, q := range questions(t, op, n.names(n.globex), versionsOf(t, n.world, n.globex)) {
			if q.kind == thing(op) && !found {
				r := n.put(q, n.globex.Scopes["admin"].Secret)
				found = r.status < 400
				answers = append(answers, string(r.body))
			}
		}
		if !found && op.id != "ReceiveNotice" { // which is signed
			t.Errorf("%s finds nothing of its own tenant: %v", op.id, answers)
		}
	}
}

// inOrder are the operations: first those that only read, last those that delete.
func inOrder() []operation {
	order := map[string]int{http.MethodGet: 0, http.MethodDelete: 2}
	place := func(op operation) int {
		if n, special := order[op.method]; special {
			return n
		}
		return 1
	}
	ops := operations()
	slices.SortStableFunc(ops, func(a, b operation) int { return place(a) - place(b) })
	return ops
}
