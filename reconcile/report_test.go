package reconcile

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"executor/commands"
	"executor/outcome"
)

func TestReportSaysOfEachLineHowItCompares(t *testing.T) {
	r := newReportRig(t)
	for key, state := range map[string]outcome.State{
		"done": "success", "done2": "success", "refused": "rejected", "never": "cancelled", "doubt": "unresolved", "doubt2": "unresolved",
		"doubt3": "unresolved", "waits": "pending",
	} {
		r.command(t, arranged{key: key, state: state})
	}
	r.command(t, arranged{key: "twin1", reference: "twin"})
	r.command(t, arranged{key: "twin2", reference: "twin"})
	report := r.compared(t, reportOf(), strings.Join([]string{
		"key,reference,state,note",
		"done,,SUCCESS,",        // 2
		"done2,,Refused,",       // 3
		"refused,,rejected,",    // 4
		"never,,absent,",        // 5
		"doubt,,applied,",       // 6
		"doubt2,,pending,",      // 7
		"waits,,success,",       // 8
		"doubt,,rejected,",      // 9
		"nobody,,success,",      // 10
		",twin,success,",        // 11
		"done,twin,success,",    // 12
		"doubt3,,charged_back,", // 13
		",,success,",            // 14
		"doubt3,,success,",      // 15
		`doubt3,,,"=cmd|' /C calc'!A0"`,
	}, "\n"))
	expectItems(t, r.items(t, report), `2 matched
3 different state:success/Refused
4 matched
5 matched
6 different state:unresolved/applied
7 matched
8 different state:pending/success
9 duplicate state:unresolved/rejected of 6
10 missing_here
11 ambiguous
12 ambiguous
13 unreadable
14 unreadable
15 different state:unresolved/success
16 unreadable
`)
	want := ReportCounts{Matched: 4, Different: 4, MissingHere: 1, Duplicate: 1, Ambiguous: 2, Unreadable: 3}
	if report.Counts != want || report.Lines != 15 || len(report.SHA256) != 32 || report.ComparedAt == nil {
		t.Errorf("got %+v", report)
	}
	last := r.items(t, report, ReportUnreadable)[2]
	if got := string(last.Content); got != `{"key":"doubt3","reference":"","state":"","note":"=cmd|' /C calc'!A0"}` || last.Problem != "the line has no state" {
		t.Errorf("the line is kept as %s, %q", got, last.Problem)
	}
	if n := r.count(t, `SELECT count(*) FROM findings`) + r.count(t, `SELECT count(*) FROM commands WHERE version > 1`); n > 0 {
		t.Errorf("a comparison changed %d rows", n)
	}
}

func TestReportFindsCommandsByEveryNameTheyHave(t *testing.T) {
	r := newReportRig(t)
	byID := r.command(t, arranged{key: "one"})
	r.command(t, arranged{key: "two", reference: "pay_2"})
	found, asked := r.command(t, arranged{key: "three", state: "rejected"}), r.command(t, arranged{key: "four"})
	r.exec(t, `INSERT INTO findings (command_id, tenant, at, source, reference, observation, effect) VALUES ($1, 'default', now(), 'notice', 'pay_3', '{}', 'none')`, found)
	r.exec(t, `
		INSERT INTO lookups (command_id, tenant, round, question, instance, profile_version, started_at, ended_at, request, finding, counts, reference)
		VALUES ($1, 'default', 1, 1, '', 1, now(), now(), '{}', 'applied', false, 'pay_4')`, asked)
	onWire := r.command(t, arranged{key: "five"})
	report := r.compared(t, reportOf(func(q *ReportRequest) {
		q.Format = ReportJSONL
		q.Columns = map[string]string{"command_id": "/ids/ours", "reference": "/ids/theirs"}
	}), strings.Join([]string{
		`{"ids": {"ours": "` + byID.String() + `"}, "state": "success"}`,
		`{"ids": {"theirs": "pay_2"}, "state": "success"}`,
		``,
		`{"ids": {"theirs": "pay_3"}, "state": "success"}`,
		`{"ids": {"theirs": "pay_4"}, "state": "success"}`,
		`{"key": "` + onWire.String() + `", "state": "success"}`, // where the id is the key that was sent
		`{"key": "two", "ids": {"theirs": "pay_9"}, "state": "success"}`,
		`{"key": 7, "ids": {"ours": "no id"}, "state": "success"}`,
	}, "\r\n"))
	expectItems(t, r.items(t, report), `1 matched
2 matched
4 different state:rejected/success
5 matched
6 matched
7 duplicate reference:pay_2/pay_9 of 2
8 unreadable
`)
}

func TestReportKeepsToItsUpstreamAndTenant(t *testing.T) {
	r := newReportRig(t)
	r.apply(t, "default", "other", "")
	r.apply(t, "acme", "up", "")
	r.command(t, arranged{key: "ours", reference: "1"})
	r.command(t, arranged{key: "elsewhere", upstream: "other", reference: "1"})
	foreign := r.command(t, arranged{key: "theirs", tenant: "acme", reference: "2"})
	r.command(t, arranged{key: "refund", operation: "refund"})
	file := "command_id,key,reference,state\n,,1,success\n,elsewhere,,success\n,theirs,,success\n,,2,success\n" + foreign.String() + ",,,success\n,refund,,success\n"
	report := r.compared(t, reportOf(func(q *ReportRequest) { q.Operation, q.From = "pay", time.Unix(0, 0) }), file)
	expectItems(t, r.items(t, report), "2 matched\n3 missing_here\n4 missing_here\n5 missing_here\n6 missing_here\n7 missing_here\n")
	if _, err := r.store.Report(t.Context(), "acme", report.ID); !errors.Is(err, ErrReportNotFound) {
		t.Errorf("another tenant reads the report: %v", err)
	}
	if _, _, err := r.store.ReportItems(t.Context(), ReportItemFilter{Tenant: "acme", Report: report.ID}); !errors.Is(err, ErrReportNotFound) {
		t.Errorf("another tenant reads its items: %v", err)
	}
	if _, err := r.store.Apply(t.Context(), "acme", report.ID, "eve", "because"); !errors.Is(err, ErrReportNotFound) {
		t.Errorf("another tenant applies it: %v", err)
	}
	if list, _, err := r.store.Reports(t.Context(), ReportFilter{Tenant: "acme"}); err != nil || len(list) != 0 {
		t.Errorf("another tenant lists %d reports, %v", len(list), err)
	}
}

func TestReportNamesWhatIsMissingThere(t *testing.T) {
	r := newReportRig(t)
	r.apply(t, "default", "other", "")
	day := 24 * time.Hour
	named := r.command(t, arranged{key: "named", age: 5 * day})
	lost := r.command(t, arranged{key: "lost", age: 5 * day})
	doubt := r.command(t, arranged{key: "doubt", age: 5 * day, state: "unresolved"})
	r.command(t, arranged{key: "odd", age: 5 * day})
	r.command(t, arranged{key: "refused", age: 5 * day, state: "rejected"})
	r.command(t, arranged{key: "waits", age: 5 * day, state: "pending"})
	r.command(t, arranged{key: "before", age: 9 * day})
	r.command(t, arranged{key: "after", age: day / 2})
	r.command(t, arranged{key: "elsewhere", age: 5 * day, upstream: "other"})
	young := r.command(t, arranged{key: "young", age: 2 * day})
	youngHere := r.command(t, arranged{key: "young here", age: 2 * day, state: "unresolved"})
	report := r.compared(t, reportOf(func(q *ReportRequest) {
		q.From, q.Until, q.SettlesFor = time.Now().Add(-7*day), time.Now().Add(-day), 3*day
	}), "key,state\nnamed,success\nodd,what?\nyoung here,success\n")
	expectItems(t, r.items(t, report), "2 matched\n3 unreadable\n4 too_young state:unresolved/success\n0 missing_there\n0 missing_there\n0 too_young\n")
	want := ReportCounts{Matched: 1, Unreadable: 1, TooYoung: 1, MissingThere: 2, YoungThere: 1}
	if report.Counts != want || report.Scanned < 9 {
		t.Errorf("got %+v of %d commands, want %+v", report.Counts, report.Scanned, want)
	}
	var ids []uuid.UUID
	for _, i := range r.items(t, report) {
		if i.CommandID != nil {
			ids = append(ids, *i.CommandID)
		}
	}
	if len(ids) != 6 || ids[0] != named || ids[2] != youngHere || ids[3] != lost || ids[4] != doubt || ids[5] != young {
		t.Errorf("the items are about %v", ids)
	}
	if got := r.items(t, report, ReportTooYoung, ReportMissingThere); len(got) != 4 {
		t.Errorf("%d items of two kinds, want 4", len(got))
	}
	report = r.applied(t, report.ID)
	if report.Effects.Applied() != 0 || r.state(t, doubt) != "unresolved" || r.state(t, youngHere) != "unresolved" {
		t.Errorf("what is missing or young had an effect: %+v", report.Effects)
	}
}

func TestReportComparesFields(t *testing.T) {
	r := newReportRig(t)
	for key, body := range map[string]string{
		"exact": `{"amount": 12.50, "card": "4111"}`, "cent": `{"amount": 12.5}`, "huge": `{"amount": 90071992547409930000000000000001}`,
		"text": `{"amount": "12.50"}`, "name": `{"amount": "0012"}`, "none": `{}`, "null": `{"amount": null}`,
	} {
		r.command(t, arranged{key: key, body: body, metadata: `{"order": "42"}`})
	}
	r.command(t, arranged{key: "form", body: "amount=12.5&x=1", contentType: "application/x-www-form-urlencoded", operation: "refund", metadata: `{"order": "43"}`})
	r.command(t, arranged{key: "raw", body: "\x00\xff", contentType: "application/octet-stream", operation: "refund"})
	report := r.compared(t, reportOf(func(q *ReportRequest) {
		q.Compare = []Comparison{{"amt", "/body/amount"}, {"order", "metadata.order"}, {"card", "/body/card"}}
	}), strings.Join([]string{
		"key,state,amt,order,card",
		"exact,success,+12.5,42,4111",
		"cent,success,12.51,42,",
		"huge,success,90071992547409930000000000000002,42,",
		"text,success, 12.5 ,42,",
		"name,success,12,42,",
		"none,success,,042,",
		"null,success,1.25e1,42,",
		"form,success,12.500,42,",
		"raw,success,1,,",
		"exact,success,12.5,42,4222",
	}, "\n"))
	expectItems(t, r.items(t, report), `2 matched
3 different /body/amount:12.5/12.51
4 different /body/amount:90071992547409930000000000000001/90071992547409930000000000000002
5 matched
6 different /body/amount:0012/12
7 different metadata.order:42/042
8 different /body/amount:/1.25e1
9 different metadata.order:43/42
10 different /body/amount:/1
11 duplicate /body/card:[redacted]/[redacted] of 2
`)
}

func TestReportListsAreReadPageByPage(t *testing.T) {
	r := newReportRig(t)
	r.apply(t, "default", "other", "")
	var want []uuid.UUID
	for range 3 {
		want = append([]uuid.UUID{r.upload(t, reportOf(), "key,state\n").ID}, want...)
	}
	r.upload(t, reportOf(func(q *ReportRequest) { q.Upstream = "other" }), "key,state\n")
	f := ReportFilter{Tenant: "default", Upstream: "up", Limit: 2}
	first, next, err := r.store.Reports(t.Context(), f)
	if err != nil || len(first) != 2 || next == "" {
		t.Fatalf("%d reports, %q, %v", len(first), next, err)
	}
	f.Cursor = next
	second, next, err := r.store.Reports(t.Context(), f)
	if err != nil || len(second) != 1 || next != "" || first[0].ID != want[0] || first[1].ID != want[1] || second[0].ID != want[2] {
		t.Errorf("the second page has %d reports, %q, %v", len(second), next, err)
	}
	f.Cursor = "nonsense"
	if _, _, err := r.store.Reports(t.Context(), f); !errors.Is(err, commands.ErrBadCursor) {
		t.Errorf("a made-up cursor: %v", err)
	}
	_, _, err = r.store.ReportItems(t.Context(), ReportItemFilter{Tenant: "default", Report: want[0], Cursor: "xx"})
	if !errors.Is(err, commands.ErrBadCursor) {
		t.Errorf("a made-up cursor of items: %v", err)
	}
}

func TestReportRequestsThatCannotBeCarriedOut(t *testing.T) {
	r := newReportRig(t)
	tests := []struct {
		change func(*ReportRequest)
		want   string
	}{
		{func(q *ReportRequest) { q.Upstream = "down" }, "no upstream"},
		{func(q *ReportRequest) { q.Tenant = "acme" }, "no upstream"},
		{func(q *ReportRequest) { q.Operation = "fly" }, "no operation"},
		{func(q *ReportRequest) { q.Format = "xml" }, "csv or jsonl"},
		{func(q *ReportRequest) { q.Delimiter = "x" }, "delimiter"},
		{func(q *ReportRequest) { q.Delimiter, q.Format = ";", ReportJSONL }, "Only CSV"},
		{func(q *ReportRequest) { q.From, q.Until = time.Unix(9, 0), time.Unix(9, 0) }, "ends before"},
		{func(q *ReportRequest) { q.SettlesFor = -1 }, "negative"},
		{func(q *ReportRequest) { q.Columns = map[string]string{"amount": "x"} }, "no field"},
		{func(q *ReportRequest) { q.Columns = map[string]string{"key": ""} }, "needs a name"},
		{func(q *ReportRequest) { q.Columns = map[string]string{"key": "id"} }, `no column "id"; the columns are key, state`},
		{func(q *ReportRequest) { q.States = map[string]string{"ok": "maybe"} }, "means success"},
		{func(q *ReportRequest) { q.States = map[string]string{"ok": "success", "OK": "rejected"} }, "two meanings"},
		{func(q *ReportRequest) { q.Compare = []Comparison{{"amt", "/amount"}} }, "no field of a command"},
		{func(q *ReportRequest) { q.Compare = []Comparison{{"amt", "/body/amount"}} }, `no column "amt"`},
		{func(q *ReportRequest) { q.Compare = make([]Comparison, 17) }, "At most 16"},
		{func(q *ReportRequest) { q.MaxBytes = 12 }, "larger than 12 bytes"},
	}
	for _, tt := range tests {
		_, err := r.store.Upload(t.Context(), reportOf(tt.change), strings.NewReader("key,state\nk,success\n"))
		var invalid *commands.Invalid
		if !errors.As(err, &invalid) || !strings.Contains(invalid.Detail, tt.want) {
			t.Errorf("got %v, want %q", err, tt.want)
		}
	}
	report := r.compared(t, reportOf(func(q *ReportRequest) {
		q.Delimiter, q.States, q.Columns = ";", map[string]string{"Settled": "success", "success": "pending"}, map[string]string{"state": "Status"}
	}), "\ufeffkey;Status\r\na;settled\r\nb; SETTLED \r\n")
	if report.Counts.MissingHere != 2 || report.States["settled"] != outcome.FindingApplied {
		t.Errorf("got %+v", report)
	}
}

// brokenReader gives a beginning and fails.
type brokenReader struct{ io.Reader }

func (r brokenReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err == io.EOF {
		return n, io.ErrUnexpectedEOF
	}
	return n, err
}

func TestReportWhoseFileDoesNotArrive(t *testing.T) {
	r := newReportRig(t)
	long := &lineGenerator{header: "key,state\n", n: 12_000, line: func(int) string { return "k,success\n" }}
	_, err := r.store.Upload(t.Context(), reportOf(), brokenReader{long})
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("got %v", err)
	}
	bad := &lineGenerator{header: "key,state\n", n: 12_000, line: func(i int) string {
		if i == 12_000 {
			return "k\n"
		}
		return "k,success\n"
	}}
	if _, err = r.store.Upload(t.Context(), reportOf(), bad); err == nil || !strings.Contains(err.Error(), "line 12001: there are 1 cells, the header has 2") {
		t.Fatalf("got %v", err)
	}
	r.run(t)
	reportEventually(t, "nothing of the files is left", func() bool {
		return r.count(t, `SELECT count(*) FROM report_lines`) == 0 && r.count(t, `SELECT count(*) FROM reports WHERE next_at IS NOT NULL`) == 0
	})
	list, _, err := r.store.Reports(t.Context(), ReportFilter{Tenant: "default"})
	if err != nil || len(list) != 2 || list[0].State != ReportFailed || list[1].State != ReportFailed {
		t.Fatalf("got %+v, %v", list, err)
	}
	if !strings.HasPrefix(list[0].Problem, "line 12001:") || !strings.Contains(list[1].Problem, "did not arrive whole") {
		t.Errorf("the problems are %q and %q", list[0].Problem, list[1].Problem)
	}
}
