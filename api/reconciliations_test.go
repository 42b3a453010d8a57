package api

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"executor/commands"
	"executor/internal/testkit"
	"executor/internal/upload"
	"executor/outcome"
	"executor/reconcile"
	"executor/upstreams"
)

// report gives a CSV body.
func report(body string) askOption {
	return func(a *ask) { a.body = body; a.header.Set("Content-Type", csvType) }
}

func TestCreateReconciliation(t *testing.T) {
	g := newRig(t)
	path := "/v1/reconciliations" + query("upstream", "ledger", "operation", "pay", "columns.reference", "Ref No", "columns.state", "st", "states.paid", "success",
		"compare.sum", "/body/amount", "compare.a", "metadata.order", "delimiter", ";", "from", "2026-11-01T00:00:00Z", "until", "2026-12-01T00:00:00Z", "settles_for", "48h")
	r := g.do("POST", path, report("Ref No;st\npay_9;paid\n")).want(202)
	if r.header.Get("Location") != "/v1/reconciliations/"+someID.String() || r.header.Get("Retry-After") == "" {
		t.Errorf("%v", r.header)
	}
	want := reconcile.ReportRequest{
		Tenant: "default", Actor: "boss", Upstream: "ledger", Operation: "pay", Format: reconcile.ReportCSV, Delimiter: ";",
		Columns: map[string]string{"reference": "Ref No", "state": "st"}, States: map[string]string{"paid": "success"},
		Compare: []reconcile.Comparison{{Column: "a", Field: "metadata.order"}, {Column: "sum", Field: "/body/amount"}},
		From:    time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), Until: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), SettlesFor: 48 * time.Hour,
	}
	if diff := cmp.Diff(want, g.reports.request); diff != "" {
		t.Error(diff)
	}
	if string(g.reports.file) != "Ref No;st\npay_9;paid\n" {
		t.Errorf("the file is %q", g.reports.file)
	}
	var got Report
	r.decode(&got)
	if *got.Operation != "pay" || got.States["paid"] != "applied" || got.SettlesFor != "48h0m0s" || *got.Sha256 != "01" || got.Counts.Different != 2 || got.Effects.Settled != 1 || got.Until != nil {
		t.Errorf("%s", r.body)
	}
	g.do("POST", "/v1/reconciliations?upstream=ledger", report(`{"a":1}`), without("Content-Type"), with("Content-Type", "application/x-ndjson; charset=utf-8")).want(202)
	if g.reports.request.Format != reconcile.ReportJSONL {
		t.Errorf("the format is %s", g.reports.request.Format)
	}
}

func TestReconciliationsThatAreNotTaken(t *testing.T) {
	g := newRig(t)
	for _, tt := range []struct{ query, parameter string }{
		{"", "upstream"}, {"?upstream=", "upstream"}, {"?upstream=a&columns=x", "columns"}, {"?upstream=a&from=yesterday", "from"}, {"?upstream=a&settles_for=2", "settles_for"},
		{"?upstream=a&until=7", "until"}, {"?upstream=a&operation=", "operation"}, {"?upstream=a&metadata.x=1", "metadata.x"}, {"?upstream=a&format=csv", "format"},
	} {
		if p := g.do("POST", "/v1/reconciliations"+tt.query, report("a")).want(400).problem(ProblemCodeInvalidParameter); p.Errors[0].Parameter != tt.parameter {
			t.Errorf("%s: %+v", tt.query, p.Errors)
		}
	}
	g.do("POST", "/v1/reconciliations?upstream=a", sending("{}")).want(415).problem(ProblemCodeUnsupportedMediaType)
	g.do("POST", "/v1/reconciliations?upstream=a", report("a"), with("Content-Encoding", "gzip")).want(415)
	g.do("POST", "/v1/reconciliations?upstream=a", report("a"), as("exk_judge")).want(403)
	g.reports.err = &commands.Invalid{Detail: "No.", Fields: []upstreams.FieldError{{Pointer: "states.paid", Code: "invalid", Detail: "No."}, {Code: "too_large", Detail: "No."}}}
	p := g.do("POST", "/v1/reconciliations?upstream=a", report("a")).want(422).problem(ProblemCodeInvalidRequest)
	if p.Errors[0].Parameter != "states.paid" || p.Errors[0].Pointer != "" || p.Errors[1].Parameter != "" {
		t.Errorf("%+v", p.Errors)
	}
}

// slowly sends a report line by line, waiting before each until told to go on.
func slowly(t *testing.T, url string, length int, lines []string, before func(i int)) *http.Response {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	fmt.Fprintf(conn, "POST /v1/reconciliations?upstream=ledger HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer exk_admin\r\nContent-Type: text/csv\r\nContent-Length: %d\r\n\r\n", length)
	for i, line := range lines {
		before(i)
		if _, err := io.WriteString(conn, line); err != nil {
			t.Fatal(err)
		}
	}
	return testkit.HalfClose(t, conn)
}

// TestUploadsOutliveReadTimeout: a long file takes as long as it takes; the
// server's time for reading a request and writing its answer is for others.
func TestUploadsOutliveReadTimeout(t *testing.T) {
	g := newRig(t)
	short := httptest.NewUnstartedServer(g.server.Routes())
	short.Config.ReadTimeout, short.Config.WriteTimeout = 50*time.Millisecond, 50*time.Millisecond
	short.Start()
	t.Cleanup(short.Close)
	resp := slowly(t, short.URL, 6, []string{"a\n", "b\n", "c\n"}, func(int) {
		passed := time.NewTimer(3 * short.Config.ReadTimeout) // what is tested is that this much time may pass
		<-passed.C
	})
	if resp.StatusCode != 202 || string(g.reports.file) != "a\nb\nc\n" {
		t.Errorf("a slow upload gave %d with %q", resp.StatusCode, g.reports.file)
	}
}

func TestUploadsThatEndEarly(t *testing.T) {
	g := newRig(t)
	resp := slowly(t, g.http.URL, 100, []string{"a\n"}, func(int) {})
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != 400 || !strings.Contains(string(body), "malformed_body") {
		t.Errorf("a cut upload gave %d: %s", resp.StatusCode, body)
	}
	r := httptest.NewRequest("POST", "/", strings.NewReader("abc"))
	file := upload.New(httptest.NewRecorder(), r, 2)
	if _, err := io.ReadAll(file); err == nil || problemFor(uploadProblem(file.Err(), 2)).code != ProblemCodeBodyTooLarge {
		t.Errorf("too long: %v, %v", err, uploadProblem(file.Err(), 2))
	}
	large := httptest.NewRequest("POST", "/", strings.NewReader("abc"))
	large.ContentLength = reconcile.MaxReportBytes + 1
	large.Header.Set("Authorization", "Bearer exk_admin")
	large.Header.Set("Content-Type", csvType)
	large.URL.Path, large.URL.RawQuery = "/v1/reconciliations", "upstream=ledger"
	w := httptest.NewRecorder()
	if g.server.Routes().ServeHTTP(w, large); w.Code != 413 {
		t.Errorf("a body announced as too long gave %d", w.Code)
	}
}

// TestRefusedUploads: a caller hears why a report is refused also while most of it is
// still to be sent.
func TestRefusedUploads(t *testing.T) {
	g := newRig(t)
	g.reports.refuse = &commands.Invalid{Detail: "Line 2 is broken."}
	line := strings.Repeat("a", 1<<16)
	resp := slowly(t, g.http.URL, 256*len(line), slices.Repeat([]string{line}, 256), func(int) {})
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != 422 || !strings.Contains(string(body), "Line 2 is broken.") {
		t.Errorf("it gave %d: %s", resp.StatusCode, body)
	}
}

func TestReadReconciliations(t *testing.T) {
	g := newRig(t)
	path := "/v1/reconciliations/" + someID.String()
	var list ReportList
	if g.do("GET", "/v1/reconciliations?upstream=ledger&cursor=c&limit=7").want(200).decode(&list); len(list.Data) != 1 {
		t.Errorf("%+v", list)
	}
	if diff := cmp.Diff(reconcile.ReportFilter{Tenant: "default", Upstream: "ledger", Cursor: "c", Limit: 7}, g.reports.filter); diff != "" {
		t.Error(diff)
	}
	g.do("GET", path).want(200)
	g.reports.list = []reconcile.ReportItem{
		{
			Number: 1, Line: 2, Kind: reconcile.ReportDifferent, CommandID: &someID, Reference: "pay_9", Key: "k1", Word: "paid", Finding: outcome.FindingApplied, State: outcome.StateRejected,
			Differences: []reconcile.Difference{{Field: "state", Ours: "rejected", Theirs: "paid"}}, Content: []byte(`{"a": 1.0}`), Effect: commands.EffectConflict, AppliedAt: &someTime,
		},
		{Number: 2, Kind: reconcile.ReportMissingThere, CommandID: &someID, State: outcome.StateSuccess},
		{Number: 3, Line: 4, Kind: reconcile.ReportDuplicate, DuplicateOf: 2, Problem: "twice"},
	}
	r := g.do("GET", path+"/items?kind=different,missing_there&kind=duplicate&cursor=c&limit=3").want(200)
	var items ReportItemList
	r.decode(&items)
	differs, missing, twice := items.Data[0], items.Data[1], items.Data[2]
	if *differs.Line != 2 || string(differs.Content) != `{"a": 1.0}` || *differs.Effect != "conflict" || differs.Differences[0].Theirs != "paid" || missing.Line != nil || missing.Finding != nil || *twice.DuplicateOf != 2 {
		t.Errorf("%s", r.body)
	}
	want := reconcile.ReportItemFilter{Tenant: "default", Report: someID, Kinds: []reconcile.ReportKind{"different", "missing_there", "duplicate"}, Cursor: "c", Limit: 3}
	if diff := cmp.Diff(want, g.reports.items); diff != "" {
		t.Error(diff)
	}
	g.do("GET", path+"/items?kind=same").want(400).problem(ProblemCodeInvalidParameter)
	g.do("GET", "/v1/reconciliations/x/items").want(400)
	g.reports.err = reconcile.ErrReportNotFound
	g.do("GET", path).want(404).problem(ProblemCodeNotFound)
	g.do("GET", path+"/items").want(404)
	g.do("POST", path+"/apply", sending(`{"reason":"r"}`)).want(404)
}

func TestApplyReconciliation(t *testing.T) {
	g := newRig(t)
	path := "/v1/reconciliations/" + someID.String() + "/apply"
	if g.do("POST", path, sending(`{"reason":"checked"}`)).want(202); g.reports.reason != "checked" || g.reports.actor != "boss" {
		t.Errorf("%+v", g.reports)
	}
	g.do("POST", path, sending(`{}`)).want(422).problem(ProblemCodeInvalidRequest)
	g.reports.err = &reconcile.Refused{Code: reconcile.RefusedReportOnly, Detail: "No."}
	g.do("POST", path, sending(`{"reason":"checked"}`)).want(409).problem(ProblemCodeReportOnly)
	g.reports.err = &reconcile.Refused{Code: reconcile.RefusedNotCompared, Detail: "No."}
	g.do("POST", path, sending(`{"reason":"checked"}`)).want(409).problem(ProblemCodeNotCompared)
}
