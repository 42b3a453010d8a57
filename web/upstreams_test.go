package web_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"executor/internal/audit"
	"executor/internal/operators"
	"executor/outcome"
	"executor/upstreams"
)

func TestUpstreams(t *testing.T) {
	s := newSite(t)
	vera := s.as(t, "vera")
	s.ended(t, "paid", "charge_card", "", outcome.StateSuccess)
	s.doubtful(t, "doubt")
	vera.get("/upstreams").has(t, `href="/upstreams/ledger"`, "A payment service that misbehaves", "works", "tokens", `href="/search?upstream=ledger&amp;state=unresolved"`, `role="img"`)
	p := vera.get("/upstreams/ledger")
	p.has(t, "<bdi>paid</bdi>", "<bdi>doubt</bdi>", "What each failure would end in", "throttle_pauses_upstream: false", "by <bdi>test</bdi>", "at most 40 of one command")
	p.lacks(t, "/pause", "/edit", "/resume")
	s.as(t, "otto").get("/upstreams/ledger").lacks(t, "/edit")
	s.as(t, "ada").get("/upstreams/ledger").has(t, "/upstreams/ledger/edit", "/upstreams/ledger/pause")
	for _, path := range []string{"/upstreams/nobody", "/upstreams/ledger?version=2", "/upstreams/ledger?version=x", "/upstreams/ledger/explain?operation=no", "/upstreams/ledger/diff?from=9", "/upstreams/new"} {
		if p := vera.get(path); p.status != http.StatusNotFound {
			t.Errorf("%s: %d", path, p.status)
		}
	}
}

func TestUpstreamsAreOfOneTenant(t *testing.T) {
	s := newSite(t)
	s.addOperator(t, "eve", "elsewhere", operators.RoleAdmin)
	eve := s.as(t, "eve")
	eve.get("/upstreams").has(t, "There is no upstream yet")
	for _, path := range []string{"", "?version=1", "/explain", "/diff", "/pause", "/resume", "/edit"} {
		if p := eve.get("/upstreams/ledger" + path); p.status != http.StatusNotFound {
			t.Errorf("%s shows another tenant's upstream: %d", path, p.status)
		}
	}
	for _, action := range []string{"/pause", "/resume", "/edit"} {
		if p := eve.post("/upstreams/ledger"+action, "reason", "mine", "source", ledgerProfile, "do", "apply"); p.status != http.StatusNotFound {
			t.Errorf("%s changes another tenant's upstream: %d", action, p.status)
		}
	}
	p := eve.post("/upstreams/-/new", "source", s.profile("upstream: ledger\n"), "do", "check")
	p.has(t, "is for the tenant", "Write tenant: elsewhere")
	if u, err := s.ups.Get(t.Context(), tenant, "ledger"); err != nil || u.Version != 1 || u.PausedAt != nil {
		t.Errorf("the upstream is %+v, %v", u, err)
	}
}

// profile is the tests' profile with another beginning.
func (s *site) profile(upstream string) string {
	return strings.ReplaceAll(strings.Replace(ledgerProfile, "upstream: ledger\n", upstream, 1), "$UPSTREAM", s.simURL)
}

// field is a hidden value that a form carries.
func (p page) field(t testing.TB, name string) string {
	t.Helper()
	return linkAfter(t, p, `name="`+name+`" value="`)
}

func TestPauseAndResume(t *testing.T) {
	s := newSite(t)
	otto := s.as(t, "otto")
	ask := otto.get("/upstreams/ledger/pause")
	ask.has(t, "What this does", "deadlines run on", "not cut off")
	seen := ask.field(t, "seen")
	otto.post("/upstreams/ledger/pause", "seen", seen).has(t, "Say why")
	p := otto.post("/upstreams/ledger/pause", "seen", seen, "reason", "maintenance <b>tonight</b>")
	if p.path != "/upstreams/ledger" {
		t.Fatalf("pausing leads to %s", p.path)
	}
	p.has(t, "Paused: nothing more is sent", "maintenance &lt;b&gt;tonight", "Resume…")
	otto.get("/upstreams").has(t, "Paused by otto: maintenance")

	ada := s.as(t, "ada")
	resume := otto.get("/upstreams/ledger/resume")
	resume.has(t, "maintenance &lt;b&gt;tonight")
	if p := ada.post("/upstreams/ledger/pause", "seen", resume.field(t, "seen"), "reason", "an incident"); p.path != "/upstreams/ledger" {
		t.Fatalf("pausing again: %d %s", p.status, p.body)
	}
	stale := otto.post("/upstreams/ledger/resume", "seen", resume.field(t, "seen"), "reason", "maintenance is over")
	if stale.status != http.StatusConflict {
		t.Errorf("a stale resume: %d", stale.status)
	}
	stale.has(t, "nothing of yours was done", "an incident", "maintenance is over")
	if p := otto.post("/upstreams/ledger/resume", "seen", "", "reason", "unseen"); p.status != http.StatusConflict {
		t.Errorf("a resume of who saw no pause: %d", p.status)
	}
	otto.post("/upstreams/ledger/resume", "seen", stale.field(t, "seen"), "reason", "all is over").has(t, "Resumed: what waits is being sent.")
	if u, err := s.ups.Get(t.Context(), tenant, "ledger"); err != nil || u.PausedAt != nil {
		t.Errorf("it is still paused: %+v, %v", u, err)
	}
	s.onRecord(t, "ledger", "upstream.resume otto all is over", "upstream.pause ada an incident", "upstream.pause otto maintenance <b>tonight</b>")
}

// onRecord fails the test unless the newest entries about a subject are these.
func (s *site) onRecord(t testing.TB, subject string, want ...string) {
	t.Helper()
	entries, _, err := audit.List(t.Context(), s.pool, audit.Filter{Tenant: tenant})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		if e.Subject == subject {
			got = append(got, e.Action+" "+e.Actor+" "+e.Reason)
		}
	}
	if len(got) < len(want) || strings.Join(got[:len(want)], "\n") != strings.Join(want, "\n") {
		t.Errorf("on record is %q, want %q", got, want)
	}
}

func TestApplyAProfile(t *testing.T) {
	s := newSite(t)
	ada := s.as(t, "ada")
	edit := ada.get("/upstreams/ledger/edit")
	edit.has(t, "misbehaves on request", `name="base" value="1"`)
	next := strings.Replace(s.profile("upstream: ledger\n"), "deadline: 10m", "deadline: 20m", 1)

	bad := ada.post("/upstreams/ledger/edit", "base", "1", "do", "apply", "reason", "typo", "source", strings.Replace(next, "deadline: 20m", "deadlin: 20m", 1))
	bad.has(t, "no valid profile", "Line 8, column 1", "deadlin: 20m")
	ada.post("/upstreams/ledger/edit", "base", "1", "do", "check", "source", s.profile("upstream: other\n")).has(t, "is of the upstream")
	ada.post("/upstreams/ledger/edit", "base", "1", "do", "check", "source", s.profile("upstream: ledger\ntenant: elsewhere\n")).has(t, "is for the tenant")
	ada.post("/upstreams/ledger/edit", "base", "1", "do", "check", "source", "a: \x00").has(t, "NUL character", "Nothing was done")

	check := ada.post("/upstreams/ledger/edit", "base", "1", "do", "check", "source", strings.ReplaceAll(next, "\n", "\r\n"))
	check.has(t, "1 line added", "1 line removed", "Apply version 2", "accepted from now on use version 2", "deadline: 20m")
	checked := check.field(t, "checked")
	ada.post("/upstreams/ledger/edit", "base", "1", "do", "apply", "checked", checked, "source", next).has(t, "Say why")
	other := ada.post("/upstreams/ledger/edit", "base", "1", "do", "apply", "checked", checked, "reason", "longer", "source", next+"# more\n")
	other.has(t, "changed after it was checked", "2 lines added")
	p := ada.post("/upstreams/ledger/edit", "base", "1", "do", "apply", "checked", checked, "reason", "callers wait longer", "source", next)
	if p.path != "/upstreams/ledger" {
		t.Fatalf("applying leads to %s: %d", p.path, p.status)
	}
	p.has(t, "Version 2 is applied", "20m after it was accepted")
	again := ada.post("/upstreams/ledger/edit", "base", "1", "do", "apply", "checked", checked, "reason", "callers wait longer", "source", next)
	again.has(t, "This is the newest version already, number 2")
	s.onRecord(t, "ledger", "profile.apply ada callers wait longer")

	diff := ada.get("/upstreams/ledger/diff?to=2")
	diff.has(t, "Version 1 against version 2", "deadline: 10m", "deadline: 20m", `<span class="sr-only">removed</span>`, "lines the same")
	ada.get("/upstreams/ledger?version=1").has(t, "This is not the newest version", "deadline: 10m")
}

// TestAStaleProfile: who edited an older version is shown what the other one did,
// and loses nothing of the text.
func TestAStaleProfile(t *testing.T) {
	s := newSite(t)
	ada := s.as(t, "ada")
	mine := strings.Replace(s.profile("upstream: ledger\n"), "deadline: 10m", "deadline: 30m", 1)
	checked := ada.post("/upstreams/ledger/edit", "base", "1", "do", "check", "source", mine).field(t, "checked")
	s.apply(t, strings.Replace(ledgerProfile, "max_attempts: 40", "max_attempts: 4", 1))
	p := ada.post("/upstreams/ledger/edit", "base", "1", "do", "apply", "checked", checked, "reason", "longer", "source", mine)
	if p.status != http.StatusConflict {
		t.Errorf("a stale profile: %d", p.status)
	}
	p.has(t, "Somebody applied version 2", "What they changed", "max_attempts: 4", "deadline: 30m", `name="base" value="2"`, "longer", "Apply version 3")
	u, err := s.ups.Get(t.Context(), tenant, "ledger")
	if err != nil || u.Version != 2 {
		t.Errorf("version %d, %v", u.Version, err)
	}
	ada.post("/upstreams/ledger/edit", "base", "2", "do", "apply", "checked", p.field(t, "checked"), "reason", "longer", "source", mine).has(t, "Version 3 is applied")
}

func TestANewUpstream(t *testing.T) {
	s := newSite(t)
	ada := s.as(t, "ada")
	if p := ada.get("/upstreams/new"); p.path != "/upstreams/-/new" {
		t.Errorf("/upstreams/new leads to %s", p.path)
	}
	ada.post("/upstreams/-/new", "base", "0", "do", "check", "source", s.profile("upstream: ledger\n")).has(t, "There is an upstream of this name already", "Apply version 2")
	check := ada.post("/upstreams/-/new", "base", "0", "do", "check", "source", s.profile("upstream: new\n"))
	check.has(t, "Make the upstream", "<bdi>new</bdi>")
	p := ada.post("/upstreams/-/new", "base", "0", "do", "apply", "checked", check.field(t, "checked"), "reason", "we need it", "source", s.profile("upstream: new\n"))
	if p.path != "/upstreams/new" || p.status != http.StatusOK {
		t.Errorf("making it leads to %s, %d", p.path, p.status)
	}
	p.has(t, "No command was ever accepted", "Version 1 is applied")
}

func TestExplainMatrix(t *testing.T) {
	s := newSite(t)
	vera := s.as(t, "vera")
	vera.get("/upstreams/ledger/explain").has(t, `aria-current="page"><bdi>charge_card</bdi>`, "none: a repeat may do it a second time", "a person has to find out", "503 Service Unavailable", "Possibly crossed", "then a person decides")
	p := vera.get("/upstreams/ledger/explain?operation=send_transfer&version=1")
	p.has(t, "When it ends unresolved", "Question 1", "GET /v1/charges?client_reference={key}", "absent", "2 in a row")
	profile, err := s.ups.Get(t.Context(), tenant, "ledger")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range profile.Profile.Explain().Operations {
		page := vera.get("/upstreams/ledger/explain?operation=" + o.Operation)
		if rows := strings.Count(page.body, `data-label="Decision"`); rows != len(o.Rows) {
			t.Errorf("%s has %d rows, want %d", o.Operation, rows, len(o.Rows))
		}
		if strings.Contains(page.body, `data-label="Decision">.`) {
			t.Errorf("%s has a decision without words", o.Operation)
		}
	}
}

// TestAnUnreadableProfile: what was applied once and is no profile any more is shown
// as what it is, and can be mended.
func TestAnUnreadableProfile(t *testing.T) {
	s := newSite(t)
	if _, err := s.pool.Exec(t.Context(), `ALTER TABLE upstream_versions DISABLE TRIGGER USER`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.pool.Exec(t.Context(), `
		WITH v AS (INSERT INTO upstream_versions (upstream_id, version, source, sha256, applied_at, applied_by) SELECT id, 2, E'no: profile\n', '', now(), 'test' FROM upstreams RETURNING upstream_id)
		UPDATE upstreams SET version = 2 WHERE id IN (SELECT upstream_id FROM v)`); err != nil {
		t.Fatal(err)
	}
	ada := s.as(t, "ada")
	ada.get("/upstreams").has(t, "unreadable", "can no longer be read")
	ada.get("/upstreams/ledger").has(t, "This version can no longer be read", "no: profile")
	ada.get("/search").has(t, "<option>ledger</option>")
	ask := ada.get("/upstreams/ledger/pause")
	ada.post("/upstreams/ledger/pause", "seen", ask.field(t, "seen"), "reason", "broken").has(t, "Paused: nothing more is sent")
	if p := ada.get("/upstreams/ledger/explain"); p.status != http.StatusConflict {
		t.Errorf("the matrix of an unreadable profile: %d", p.status)
	}
	source := s.profile("upstream: ledger\n")
	check := ada.post("/upstreams/ledger/edit", "base", "2", "do", "check", "source", source)
	ada.post("/upstreams/ledger/edit", "base", "2", "do", "apply", "checked", check.field(t, "checked"), "reason", "mend it", "source", source).has(t, "Version 3 is applied")
}

func TestUpstreamsShowHostileTextInert(t *testing.T) {
	s := newSite(t)
	s.apply(t, strings.Replace(ledgerProfile, "description: A payment service that misbehaves on request", `description: "</textarea><script>alert(1)</script>\u202Egnp"`, 1)+"# \u202e</textarea><script>alert(2)</script>\n")
	ada := s.as(t, "ada")
	for _, path := range []string{"/upstreams", "/upstreams/ledger", "/upstreams/ledger/edit", "/upstreams/ledger/diff", "/upstreams/ledger/explain"} {
		p := ada.get(path)
		if p.status != http.StatusOK {
			t.Errorf("%s: %d", path, p.status)
		}
		p.lacks(t, "<script>alert", "\u202e")
	}
	ada.get("/upstreams/ledger/edit").has(t, "characters that this page shows by name")
}

func TestManyVersionsCompare(t *testing.T) {
	s := newSite(t)
	for i := range 3 {
		s.apply(t, ledgerProfile+fmt.Sprintf("# note %d\n", i))
	}
	p := s.as(t, "vera").get("/upstreams/ledger/diff?from=1&to=4")
	p.has(t, "1 line added", "0 lines removed", "# note 2")
	p.lacks(t, "# note 1")
	s.as(t, "vera").get("/upstreams/ledger/diff?from=2&to=2").has(t, "Not a line differs")
	if _, err := s.ups.Source(t.Context(), tenant, "ledger", 5); err == nil || !strings.Contains(err.Error(), upstreams.ErrNotFound.Error()) {
		t.Errorf("a version that is not there: %v", err)
	}
}
