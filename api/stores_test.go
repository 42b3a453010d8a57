package api

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"executor/internal/testkit"
)

func TestCommandEndToEnd(t *testing.T) {
	l := newLive(t, testkit.Database(t), false, echo)
	me := l.key("default")
	body := `{"amount":9007199254740993,  "note":"\u00e9\u0000\ud800", "e": 1e400}`
	submit := `{"upstream":"echo","operation":"pay","params":{"account":9007199254740993},"body":` + body + `,"metadata":{"order":"42"}}`
	r := l.submit("k-1", submit, me, with("Prefer", "wait=30")).want(200)
	c := r.command()
	if c.State != "success" || !c.Final || *c.Outcome.Result.Reference != "pay_9" || c.DecisionRecord.OperationIdentity.Key != "k-1" {
		t.Fatalf("the command is %s", r.body)
	}
	shown := `"body":{ "id": "pay_9", "key": "k-1", "got": ` + body + ` }`
	for _, option := range []askOption{with("Accept", "*/*"), with("If-None-Match", `"0"`)} {
		if r := l.do("GET", "/v1/commands/"+c.ID, me, option).want(200); !strings.Contains(string(r.body), shown) {
			t.Errorf("the upstream's bytes are not shown as they came: %s", r.body)
		}
	}
	l.do("GET", "/v1/commands/"+c.ID, me, with("If-None-Match", r.header.Get("Etag"))).want(304)
	if r := l.submit("k-1", submit, me).want(200); r.header.Get("Idempotent-Replayed") != "true" || r.command().ID != c.ID {
		t.Errorf("the repeat is %s", r.body)
	}

	var list AttemptList
	l.do("GET", "/v1/commands/"+c.ID+"/attempts", me).want(200).decode(&list)
	if len(list.Data) != 1 || *list.Data[0].Evidence != "response_received" || !strings.HasSuffix(list.Data[0].Request.URL, "/accounts/9007199254740993/payments") {
		t.Errorf("the attempts are %+v", list)
	}
	var events EventList
	l.do("GET", "/v1/commands/"+c.ID+"/events", me).want(200).decode(&events)
	if last := events.Data[len(events.Data)-1]; events.Data[0].Type != "command.accepted" || last.Type != "command.success" || last.Sequence != 1 {
		t.Errorf("the events are %+v", events)
	}
	l.do("GET", "/v1/commands/"+c.ID+"/lookups", me).want(200)
	var cancelled CancelledCommand
	if l.do("POST", "/v1/commands/"+c.ID+"/cancel", me).want(200).decode(&cancelled); cancelled.Cancel != "too_late" || cancelled.State != "success" {
		t.Errorf("the cancel gave %+v", cancelled)
	}
	for _, filter := range []string{"reference=pay_9", "metadata.order=42", "state=success", "key=k-1", "upstream=echo&operation=pay", "created_after=2020-01-01T00:00:00Z"} {
		var page CommandList
		if l.do("GET", "/v1/commands?"+filter, me).want(200).decode(&page); len(page.Data) != 1 {
			t.Errorf("%s finds %d commands", filter, len(page.Data))
		}
	}
	for _, filter := range []string{"reference=pay_8", "metadata.order=4", "metadata.order=42&metadata.x=1", "state=pending", "key=k", "upstream=none", "operation=store", "created_before=2020-01-01T00:00:00Z"} {
		var page CommandList
		if l.do("GET", "/v1/commands?"+filter, me).want(200).decode(&page); len(page.Data) != 0 {
			t.Errorf("%s finds %d commands", filter, len(page.Data))
		}
	}
}

func TestEveryFinalStateHasItsShape(t *testing.T) {
	l := newLive(t, testkit.Database(t), false, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.Contains(r.URL.Path, "refuse"):
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, `{"code":"no_funds","message":"<b>none</b>"}`)
		case strings.Contains(r.URL.Path, "unclear"):
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write([]byte{0xFF, 0x00})
		}
	})
	me := l.key("default")
	submit := func(key, account string) Command {
		return l.submit(key, `{"upstream":"echo","operation":"pay","params":{"account":"`+account+`"},"body":{}}`, me, with("Prefer", "wait=30")).want(200).command()
	}
	if c := submit("a", "refuse"); c.State != "rejected" || *c.Outcome.Rejection.Code != "no_funds" || *c.Outcome.Rejection.Message != "<b>none</b>" || c.Outcome.Result != nil {
		t.Errorf("refused: %+v", c.Outcome)
	}
	c := submit("b", "unclear")
	if c.State != "unresolved" || c.Outcome.SafeToResubmit || c.Reconciliation == nil {
		t.Errorf("unclear: %+v", c)
	}
	var list AttemptList
	l.do("GET", "/v1/commands/"+c.ID+"/attempts", me).want(200).decode(&list)
	if *list.Data[0].Response.BodyBase64 != "/wA=" {
		t.Errorf("unclear: %+v", list.Data[0].Response)
	}
	later := l.submit("c", `{"upstream":"echo","operation":"pay","params":{"account":"x"},"body":{},"not_before":"2999-01-01T00:00:00Z","priority":"low"}`, me).want(202).command()
	if later.Waiting == nil || later.Waiting.For != "not_before" || later.Priority != "low" {
		t.Errorf("waiting: %+v", later)
	}
	var cancelled CancelledCommand
	if l.do("POST", "/v1/commands/"+later.ID+"/cancel", me).want(200).decode(&cancelled); cancelled.Cancel != "cancelled" || !cancelled.Outcome.SafeToResubmit {
		t.Errorf("cancelled: %+v", cancelled)
	}
}

func TestSameKey(t *testing.T) {
	l := newLive(t, testkit.Database(t), true, echo)
	me := l.key("default")
	submit := func(change ...string) string {
		return strings.NewReplacer(change...).Replace(`{"upstream":"echo","operation":"pay","params":{"account":"a1"},"query":{"mode":"x"},
			"headers":{"X-Note":"n"},"body":{"amount":1},"timeout":"5m","metadata":{"a":"b"}}`)
	}
	first := l.submit("k", submit(), me).want(202).command()
	for _, same := range []string{submit(`"5m"`, `"9m"`), submit(`{"a":"b"}`, `{}`), submit(`"timeout":"5m"`, `"priority":"high"`), submit(`"upstream"`, "\n \"upstream\"")} {
		if c := l.submit(`"k"`, same, me).want(200).command(); c.ID != first.ID {
			t.Errorf("%s made another command", same)
		}
	}
	for field, other := range map[string]string{
		"params": submit("a1", "a2"), "query": submit(`"x"`, `"y"`), "headers": submit(`"n"`, `"m"`), "body": submit(`{"amount":1}`, `{"amount": 1}`),
		"operation": `{"upstream":"echo","operation":"store","body_base64":"AA==","content_type":"a/b"}`,
	} {
		p := l.submit("k", other, me).want(422).problem(ProblemCodeIdempotencyKeyReused)
		if p.CommandID != first.ID || !strings.Contains(p.Detail, field) {
			t.Errorf("%s differs, the problem is %+v", field, p)
		}
	}
	if c := l.submit("k", submit(), l.key("default")).want(200).command(); c.ID != first.ID {
		t.Error("a key belongs to the tenant, not to the API key")
	}
}

func TestRacingSubmitsMakeOneCommand(t *testing.T) {
	l := newLive(t, testkit.Database(t), true, echo)
	me := l.key("default")
	var (
		mu     sync.Mutex
		ids    = map[string]int{}
		status = map[int]int{}
		each   sync.WaitGroup
	)
	for range 40 {
		each.Go(func() {
			r := l.submit("race", `{"upstream":"echo","operation":"pay","params":{"account":"a"},"body":{}}`, me)
			mu.Lock()
			defer mu.Unlock()
			ids[r.command().ID]++
			status[r.status]++
		})
	}
	each.Wait()
	if len(ids) != 1 || status[202] != 1 || status[200] != 39 {
		t.Errorf("ids %v, statuses %v", ids, status)
	}
}

func TestBatchOnTheStore(t *testing.T) {
	l := newLive(t, testkit.Database(t), true, echo)
	me := l.key("default")
	item := func(key, amount string) string {
		return `{"idempotency_key":"` + key + `","upstream":"echo","operation":"pay","params":{"account":"a"},"body":{"amount":` + amount + `}}`
	}
	items := []string{item("b1", "1"), item("b1", "1"), item("b1", "2"), strings.Replace(item("b2", "1"), "echo", "none", 1), strings.Replace(item("b3", "1"), `"account"`, `"acount"`, 1)}
	var results BatchResults
	r := l.do("POST", "/v1/commands/batch", me, sending(`{"commands":[`+strings.Join(items, ",")+`]}`)).want(200)
	r.decode(&results)
	var got []int
	for _, result := range results.Results {
		got = append(got, result.Status)
	}
	slices.Sort(got[:3]) // which of the three is first is open
	if diff := cmp.Diff([]int{200, 202, 422, 422, 422}, got); diff != "" && !slices.Equal(got, []int{202, 422, 422, 422, 422}) {
		t.Errorf("%s\n%s", diff, r.body)
	}
	if p := results.Results[3].Problem; p.Errors[0].Pointer != "/commands/3/upstream" {
		t.Errorf("an unknown upstream: %+v", p)
	}
	if p := results.Results[4].Problem; !strings.HasPrefix(p.Errors[0].Pointer, "/commands/4/params/") {
		t.Errorf("a misspelt parameter: %+v", p)
	}
}

func TestDryRunOnTheStore(t *testing.T) {
	l := newLive(t, testkit.Database(t), true, echo)
	me := l.key("default")
	submit := `{"upstream":"echo","operation":"pay","params":{"account":"a/b?c"},"body":{ "amount": 1.0 }}`
	dry := func() Preview {
		var p Preview
		l.do("POST", "/v1/commands?dry_run=true", me, with(keyHeader, "k"), sending(submit)).want(200).decode(&p)
		return p
	}
	p := dry()
	if !strings.HasSuffix(p.Request.URL, "/accounts/a%2Fb%3Fc/payments") || p.Existing != nil || p.OperationIdentity.Name != "Idempotency-Key" {
		t.Errorf("the preview is %+v", p)
	}
	var page CommandList
	if l.do("GET", "/v1/commands", me).want(200).decode(&page); len(page.Data) != 0 {
		t.Error("a dry run was accepted")
	}
	c := l.submit("k", submit, me).want(202).command()
	if p := dry(); p.Existing == nil || p.Existing.ID != c.ID {
		t.Errorf("the preview does not know the command: %+v", p)
	}
}

func TestOtherTenantsCommandIsNotThere(t *testing.T) {
	l := newLive(t, testkit.Database(t), true, echo)
	me, other := l.key("default"), l.key("other")
	c := l.submit("k", `{"upstream":"echo","operation":"pay","params":{"account":"a"},"body":{}}`, me).want(202).command()
	for _, path := range []string{"", "?wait=1", "/attempts", "/lookups", "/events"} {
		l.do("GET", "/v1/commands/"+c.ID+path, me).want(200)
		l.do("GET", "/v1/commands/"+c.ID+path, other).want(404).problem(ProblemCodeNotFound)
	}
	l.do("POST", "/v1/commands/"+c.ID+"/cancel", other).want(404)
	l.do("GET", "/v1/upstreams/echo", other).want(404)
	if p := l.submit("k", `{"upstream":"echo","operation":"pay","params":{"account":"a"},"body":{}}`, other).want(422).problem(ProblemCodeInvalidRequest); p.Errors[0].Pointer != "/upstream" {
		t.Errorf("the other tenant's submit: %+v", p)
	}
	var page CommandList
	if l.do("GET", "/v1/commands?key=k", other).want(200).decode(&page); len(page.Data) != 0 {
		t.Error("the other tenant lists it")
	}
}

func TestPagesNeitherRepeatNorHide(t *testing.T) {
	l := newLive(t, testkit.Database(t), true, echo)
	me := l.key("default")
	submit := func(i int) string {
		return l.submit(fmt.Sprintf("p%d", i), `{"upstream":"echo","operation":"pay","params":{"account":"a"},"body":{}}`, me).want(202).command().ID
	}
	var want []string
	for i := range 5 {
		want = append([]string{submit(i)}, want...)
	}
	var got []string
	cursor := ""
	for i := 0; ; i++ {
		var page CommandList
		l.do("GET", "/v1/commands?limit=2"+cursor, me).want(200).decode(&page)
		for _, c := range page.Data {
			got = append(got, c.ID)
		}
		if page.NextCursor == nil {
			break
		}
		cursor = "&cursor=" + *page.NextCursor
		submit(100 + i) // newer ones do not move the pages
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestForeignCursorsAreRefused(t *testing.T) {
	l := newLive(t, testkit.Database(t), true, echo)
	me := l.key("default")
	made := func(micros int64) string {
		return base64.RawURLEncoding.EncodeToString(append(binary.BigEndian.AppendUint64(nil, uint64(micros)), make([]byte, 16)...))
	}
	for _, cursor := range []string{"x", "!!", made(0)[1:]} {
		l.do("GET", "/v1/commands?cursor="+cursor, me).want(400).problem(ProblemCodeInvalidParameter)
	}
	for _, micros := range []int64{math.MinInt64, -1 << 60, 0, 1 << 60, math.MaxInt64} {
		if r := l.do("GET", "/v1/commands?cursor="+made(micros), me); r.status != 200 && r.status != 400 {
			t.Errorf("a made-up cursor of %d gave %d", micros, r.status)
		}
	}
	for _, at := range []string{"0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"} {
		l.do("GET", "/v1/commands?created_after="+at+"&created_before="+at, me).want(200)
	}
}

func TestStreamOnTheStore(t *testing.T) {
	release := make(chan struct{})
	l := newLive(t, testkit.Database(t), false, func(w http.ResponseWriter, r *http.Request) {
		<-release
		echo(w, r)
	})
	me := l.key("default")
	c := l.submit("k", `{"upstream":"echo","operation":"pay","params":{"account":"a"},"body":{}}`, me).want(202).command()
	req, _ := http.NewRequestWithContext(t.Context(), "GET", l.http.URL+"/v1/commands/"+c.ID+"/events", nil)
	a := &ask{header: http.Header{"Accept": {eventStream}}}
	me(a)
	req.Header = a.header
	resp, err := l.http.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := newLines(resp.Body)
	for line := range lines {
		switch line {
		case "event: command.accepted":
			close(release)
		case "event: command.success":
			return
		}
	}
	t.Error("the stream ended before the command")
}

func TestDatabaseAway(t *testing.T) {
	cluster := testkit.Cluster(t)
	l := newLive(t, cluster.Database(), true, echo)
	me := l.key("default")
	submit := `{"upstream":"echo","operation":"pay","params":{"account":"a"},"body":{}}`
	c := l.submit("k", submit, me).want(202).command()
	cluster.Stop()
	for _, r := range []*reply{
		l.submit("k", submit, me), l.submit("new", submit, me), l.do("GET", "/v1/commands/"+c.ID, me), l.do("GET", "/v1/commands", me),
		l.do("GET", "/v1/commands/"+c.ID+"/attempts", me), l.do("POST", "/v1/commands/"+c.ID+"/cancel", me), l.do("GET", "/v1/upstreams", me),
		l.do("GET", "/v1/deployment", me), l.do("POST", "/v1/deployment/freeze", me, sending(`{"reason":"x"}`)),
		l.do("PUT", "/v1/upstreams/echo", me, yamlBody(fmt.Sprintf(echoProfile, "https://x.example"))),
		l.do("GET", "/v1/deployment", as("exk_"+strings.Repeat("0", 43))),
	} {
		r.want(503).problem(ProblemCodeUnavailable)
	}
	l.do("GET", "/livez").want(200)
	cluster.Start()
	if again := l.submit("k", submit, me).want(200).command(); again.ID != c.ID {
		t.Error("the repeat after the outage made another command")
	}
}

// TestWhyIsOnRecord: whoever says why finds it in the log, and what was done to the
// deployment in its own.
func TestWhyIsOnRecord(t *testing.T) {
	l := newLive(t, testkit.Database(t), true, echo)
	me := l.key("default")
	c := l.submit("k", `{"upstream":"echo","operation":"pay","params":{"account":"a"},"body":{}}`, me).want(202).command()
	because := func(why string) askOption { return sending(`{"reason":"` + why + `"}`) }
	l.do("POST", "/v1/commands/"+c.ID+"/cancel", me, because("ordered twice")).want(200)
	l.do("POST", "/v1/upstreams/echo/pause", me, because("maintenance")).want(200)
	l.do("POST", "/v1/upstreams/echo/resume", me, because("it is over")).want(200)
	l.do("PUT", "/v1/upstreams/echo?reason=new+host", me, yamlBody(fmt.Sprintf(echoProfile, "https://x.example"))).want(200)
	for _, bad := range []string{"reason=", "reason=+%20", "reason=a&reason=b", "reason=" + strings.Repeat("x", maxReason+1)} {
		l.do("PUT", "/v1/upstreams/echo?"+bad, me, yamlBody(fmt.Sprintf(echoProfile, "https://x.example"))).want(400).problem(ProblemCodeInvalidParameter)
	}
	l.do("POST", "/v1/deployment/freeze", me, because("drill")).want(200)
	l.do("POST", "/v1/deployment/resume", me, because("drill over")).want(200)
	for path, want := range map[string]string{
		"/v1/audit?subject=echo&limit=3":     "profile.apply new host, upstream.resume it is over, upstream.pause maintenance",
		"/v1/commands/" + c.ID + "/audit":    "command.cancel ordered twice",
		"/v1/deployment/audit?limit=2":       "deployment.resume drill over, deployment.freeze drill",
		"/v1/audit?action=deployment.freeze": "",
	} {
		var log AuditList
		l.do("GET", path, me).want(200).decode(&log)
		var got []string
		for _, e := range log.Data {
			got = append(got, e.Action+" "+*e.Reason)
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
