package web_test

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"html"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"executor/internal/testkit"
	"executor/outcome"
	"executor/reconcile"
)

// upload sends a form with a file behind its fields, as a browser does.
func (b *browse) upload(path, name, content string, pairs ...string) page {
	b.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for i := 0; i < len(pairs); i += 2 {
		_ = form.WriteField(pairs[i], pairs[i+1])
	}
	file, err := form.CreateFormFile("file", name)
	if err != nil {
		b.t.Fatal(err)
	}
	_, _ = file.Write([]byte(content))
	_ = form.Close()
	return b.send(path, form.FormDataContentType(), &body)
}

// send posts a body as it is and follows where the answer leads.
func (b *browse) send(path, contentType string, body *bytes.Buffer) page {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, b.site.http.URL+path, body)
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	req.Header.Set("Cookie", b.cookie)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	if next := resp.Header.Get("Location"); resp.StatusCode == http.StatusSeeOther {
		return b.get(next)
	}
	var text bytes.Buffer
	if _, err := text.ReadFrom(resp.Body); err != nil {
		b.t.Fatal(err)
	}
	return page{resp.StatusCode, path, resp.Header, text.String()}
}

// reached waits until the report of a page is in a state, and returns its page.
func (s *site) reached(t testing.TB, b *browse, path string, want reconcile.ReportState) page {
	t.Helper()
	path, _, _ = strings.Cut(path, "?")
	id := uuid.MustParse(strings.TrimPrefix(path, "/reports/"))
	until(t, "a report is "+string(want), func() bool {
		r, err := s.doubts.Report(t.Context(), tenant, id)
		if err != nil {
			t.Fatal(err)
		}
		return r.State == want
	})
	return b.get(path)
}

func TestAReportIsUploadedLookedAtAndApplied(t *testing.T) {
	s := newSite(t)
	lost, dead := s.doubtful(t, "order-1"), s.doubtful(t, "order-2")
	paid := s.ended(t, "order-3", "charge_card", "", outcome.StateSuccess)
	other := s.doubtful(t, "order-4")
	otto, vera := s.as(t, "otto"), s.as(t, "vera")
	vera.get("/reports").has(t, "There is no report yet")
	vera.get("/reports").lacks(t, "Upload a report")
	otto.get("/reports/new").has(t, `enctype="multipart/form-data"`, "ledger", "reference")

	file := "Our ref,Status,Sum\n" +
		"order-1,paid,100\norder-2,failed,100\norder-3,failed,100\norder-4,paid,99\n=cmd|'/c calc'!A1,paid,1\norder-5,<script>x</script>\u202egnp,1\n"
	p := otto.upload("/reports", "november.csv", file, "upstream", "ledger", "columns.key", "Our ref", "columns.state", "Status",
		"states", "paid = success\nfailed = rejected\n", "compare", "Sum = /body/amount")
	p.has(t, "Settlement report of", "nothing changes before somebody applies it")
	p = s.reached(t, otto, p.path, reconcile.ReportCompared)
	p.has(t, "See what applying would do", "kind=different", `href="/commands/`+lost.ID.String()+`"`, "order-1", "nobody said what the state",
		"&lt;script&gt;x&lt;/script&gt;", "Our ref", "paid</bdi> means applied")
	p.lacks(t, "<script>x", "\u202e")
	vera.get(p.path).has(t, "order-1")
	vera.get(p.path).lacks(t, "See what applying would do")
	vera.get(p.path+"?kind=missing_here").has(t, "cmd|")
	vera.get(p.path+"?kind=missing_here").lacks(t, ">order-1<")
	if bad := vera.get(p.path + "?kind=odd"); bad.status != http.StatusUnprocessableEntity {
		t.Errorf("an unknown kind: %d", bad.status)
	}
	s.exported(t, vera.get(p.path+"/items.csv"))

	preview := otto.get(p.path + "/apply")
	preview.has(t, "1 unresolved command becomes success", "1 unresolved command becomes rejected", "1 conflict is recorded", "3 lines say nothing")
	if got := s.await(t, lost.ID, outcome.StateUnresolved); got.ID != lost.ID {
		t.Error("looking changed something")
	}
	seen := forecastOf(t, preview)
	otto.post(p.path+"/apply", "seen", seen).has(t, "Say why the report is to be believed.")
	stale := otto.post(p.path+"/apply", "seen", strings.Replace(seen, `"Success":1`, `"Success":2`, 1), "reason", "closing <November>")
	stale.has(t, "Commands went on after you looked", "Unresolved that become success", "closing &lt;November&gt;")
	if stale.status != http.StatusConflict {
		t.Errorf("stale: %d", stale.status)
	}
	otto.post(p.path+"/apply", "seen", seen, "reason", "closing November").has(t, "Settlement report of")
	s.reached(t, otto, p.path, reconcile.ReportApplied).has(t, "closing November", "otto", "settled", "conflict")
	s.await(t, lost.ID, outcome.StateSuccess)
	s.await(t, dead.ID, outcome.StateRejected)
	s.await(t, paid.ID, outcome.StateSuccess)
	s.await(t, other.ID, outcome.StateUnresolved)
	otto.post(p.path+"/apply", "seen", seen, "reason", "twice").has(t, "It was applied already: otto asked for it.")
	vera.get("/reports").has(t, p.path, "applied")
}

// exported checks that the export holds every line, and no formula.
func (s *site) exported(t testing.TB, p page) {
	t.Helper()
	if !strings.HasPrefix(p.header.Get("Content-Type"), "text/csv") || !strings.Contains(p.header.Get("Content-Disposition"), "attachment") {
		t.Errorf("the export is %v", p.header)
	}
	rows, err := csv.NewReader(strings.NewReader(p.body)).ReadAll()
	if err != nil || len(rows) != 7 {
		t.Fatalf("%d rows: %v\n%s", len(rows), err, p.body)
	}
	for _, row := range rows {
		for _, cell := range row {
			if cell != "" && strings.ContainsAny(cell[:1], "=+-@") {
				t.Errorf("the cell %q is a formula", cell)
			}
		}
	}
	if !strings.Contains(p.body, "'=cmd") {
		t.Errorf("what looks like a formula is lost:\n%s", p.body)
	}
}

var forecastField = regexp.MustCompile(`name="seen" value="([^"]*)"`)

func forecastOf(t testing.TB, p page) string {
	t.Helper()
	found := forecastField.FindStringSubmatch(p.body)
	if found == nil {
		t.Fatalf("there is nothing to confirm:\n%s", p.body)
	}
	return html.UnescapeString(found[1])
}

func TestAReportThatCannotBeReadKeepsWhatWasTyped(t *testing.T) {
	s := newSite(t)
	otto := s.as(t, "otto")
	for name, c := range map[string]struct {
		file, content string
		want          []string
		pairs         []string
	}{
		"a bad line": {"r.csv", "key,state\na,success\nb,\"suc\"cess,x\n", []string{"Line 3", `value="12h"`, "paid = success", "details open"},
			[]string{"upstream", "ledger", "settles_for", "12h", "states", "paid = success"}},
		"bad JSON":         {"r.jsonl", `{"key": "a", "state": "success"}` + "\n{nonsense\n", []string{"Line 2"}, []string{"upstream", "ledger"}},
		"no such column":   {"r.csv", "key,state\na,success\n", []string{"there is no column", `value="Ref"`}, []string{"upstream", "ledger", "columns.reference", "Ref"}},
		"no such field":    {"r.csv", "key,state\na,success\n", []string{"is no field of a command"}, []string{"upstream", "ledger", "compare", "state = amount"}},
		"a bad mapping":    {"r.csv", "key,state\n", []string{"has no equals sign"}, []string{"upstream", "ledger", "states", "paid"}},
		"a bad meaning":    {"r.csv", "key,state\n", []string{"not &#34;done&#34;"}, []string{"upstream", "ledger", "states", "paid = done"}},
		"a bad duration":   {"r.csv", "key,state\n", []string{"90m or 24h"}, []string{"upstream", "ledger", "settles_for", "a day"}},
		"a bad period":     {"r.csv", "key,state\n", []string{"ends before it begins", "2026-11-02T00:00:00"}, []string{"upstream", "ledger", "from", "2026-11-02", "until", "2026-11-01"}},
		"a bad moment":     {"r.csv", "key,state\n", []string{"is no time such as"}, []string{"upstream", "ledger", "from", "soon"}},
		"no upstream":      {"r.csv", "key,state\n", []string{"Say whose report it is."}, nil},
		"another upstream": {"r.csv", "key,state\n", []string{"There is no upstream"}, []string{"upstream", "elsewhere"}},
		"no file":          {"", "", []string{"Choose a file."}, []string{"upstream", "ledger"}},
		"an empty file":    {"r.csv", "", []string{"the file is empty"}, []string{"upstream", "ledger"}},
	} {
		p := otto.upload("/reports", c.file, c.content, c.pairs...)
		if p.status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d", name, p.status)
		}
		p.has(t, c.want...)
	}
}

func TestUploadsThatNoBrowserSends(t *testing.T) {
	s := newSite(t)
	otto := s.as(t, "otto")
	var cut bytes.Buffer
	form := multipart.NewWriter(&cut)
	_ = form.WriteField("upstream", "ledger")
	file, _ := form.CreateFormFile("file", "r.csv")
	_, _ = file.Write([]byte("key,state\na,success\n")) // and no end
	if p := otto.send("/reports", form.FormDataContentType(), &cut); p.status != http.StatusUnprocessableEntity {
		t.Errorf("one that breaks off: %d", p.status)
	}
	for name, fields := range map[string]int{"without a file": 1, "with too many fields": 60} {
		var body bytes.Buffer
		form := multipart.NewWriter(&body)
		for i := range fields {
			_ = form.WriteField(fmt.Sprint("f", i), "x")
		}
		_ = form.Close()
		if p := otto.send("/reports", form.FormDataContentType(), &body); p.status != http.StatusBadRequest {
			t.Errorf("one %s: %d", name, p.status)
		}
	}
	if p := otto.post("/reports", "upstream", "ledger"); p.status != http.StatusBadRequest {
		t.Errorf("one that is no upload: %d", p.status)
	}
	long := otto.upload("/reports", "r.csv", "key,state\n", "upstream", strings.Repeat("x", 70_000))
	if long.status != http.StatusBadRequest {
		t.Errorf("a long field: %d", long.status)
	}
	var body bytes.Buffer // elsewhere the bound of forms holds for this kind of body too
	form = multipart.NewWriter(&body)
	_ = form.WriteField("reason", strings.Repeat("x", 2<<20))
	_ = form.Close()
	if p := otto.send("/deliveries/"+uuid.NewString()+"/redeliver", form.FormDataContentType(), &body); p.status < 400 || p.status >= 500 {
		t.Errorf("a large form: %d", p.status)
	}
}

// TestAnUploadThatBreaksOffIsExplained: the server takes its sender for gone, who may
// wait for the answer all the same.
func TestAnUploadThatBreaksOffIsExplained(t *testing.T) {
	s := newSite(t)
	otto := s.as(t, "otto")
	conn, err := net.Dial("tcp", s.http.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "POST /reports HTTP/1.1\r\nHost: %s\r\nSec-Fetch-Site: same-origin\r\nCookie: %s\r\n"+
		"Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 1000\r\n\r\n"+
		"--b\r\nContent-Disposition: form-data; name=\"upstream\"\r\n\r\nledger\r\n"+
		"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"r.csv\"\r\n\r\nkey,state\n", conn.RemoteAddr(), otto.cookie)
	if err != nil {
		t.Fatal(err)
	}
	resp := testkit.HalfClose(t, conn)
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(string(body), "did not arrive whole") {
		t.Errorf("it gave %d: %s", resp.StatusCode, body)
	}
}

func TestReportsPageByPageAndTenantByTenant(t *testing.T) {
	s := newSite(t)
	var file strings.Builder
	file.WriteString(`{"key": "first", "state": "pending"}` + "\n")
	for i := range 120 {
		fmt.Fprintf(&file, `{"key": "nobody-%d", "state": "success"}`+"\n", i)
	}
	otto := s.as(t, "otto")
	p := otto.upload("/reports", "r.ndjson", file.String(), "upstream", "ledger", "from", "2020-01-01")
	p = s.reached(t, otto, p.path, reconcile.ReportCompared)
	p.has(t, "121", "first", `rel="next"`)
	next := regexp.MustCompile(`rel="next" href="([^"]+)"`)
	last, pages := p, 1
	for ; pages < 5; pages++ {
		link := next.FindStringSubmatch(last.body)
		if link == nil {
			break
		}
		last = otto.get(html.UnescapeString(link[1]))
	}
	if pages != 3 {
		t.Errorf("%d pages", pages)
	}
	last.has(t, "nobody-119", "This is the last page.", "First page")
	rows, err := csv.NewReader(strings.NewReader(otto.get(p.path + "/items.csv?kind=missing_here").body)).ReadAll()
	if err != nil || len(rows) != 122 {
		t.Errorf("%d rows in the export: %v", len(rows), err)
	}

	s.addOperator(t, "eve", "other", "admin")
	eve := s.as(t, "eve")
	for _, path := range []string{p.path, p.path + "/apply", p.path + "/items.csv"} {
		if got := eve.get(path); got.status != http.StatusNotFound || strings.Contains(got.body, "nobody") {
			t.Errorf("another tenant at %s: %d", path, got.status)
		}
	}
	if got := eve.post(p.path+"/apply", "reason", "mine", "seen", "{}"); got.status != http.StatusNotFound {
		t.Errorf("another tenant applies: %d", got.status)
	}
	eve.get("/reports").lacks(t, p.path)
	if got := eve.upload("/reports", "r.csv", "key,state\n", "upstream", "ledger"); got.status != http.StatusUnprocessableEntity {
		t.Errorf("another tenant's upstream: %d", got.status)
	}
}

func TestWhereReportsMayOnlyBeLookedAt(t *testing.T) {
	s := newSite(t)
	c := s.doubtful(t, "order-1")
	s.apply(t, "reconciliation: report_only\n"+ledgerProfile)
	otto := s.as(t, "otto")
	p := otto.upload("/reports", "r.csv", "key,state\norder-1,success\n", "upstream", "ledger")
	p = s.reached(t, otto, p.path, reconcile.ReportCompared)
	otto.get(p.path+"/apply").has(t, "report_only")
	otto.get(p.path+"/apply").lacks(t, "Apply it")
	refused := otto.post(p.path+"/apply", "reason", "all the same", "seen", `{"Success":1}`)
	if refused.status != http.StatusConflict {
		t.Errorf("applied: %d", refused.status)
	}
	s.await(t, c.ID, outcome.StateUnresolved)
}
