//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"executor/client"
	"executor/internal/testkit"
)

const noticeSecret = "whsec_bm90aWNlcy1ub3RpY2VzLW5vdGljZXM="

// oddTexts are the JSON texts of odd strings, of what callers may not write too: those
// who send evidence do.
func oddTexts(t *testing.T) (list []string) {
	for _, p := range payloads(t) {
		text := string(p.value)
		switch {
		case p.where == "json-bytes" || p.where == "body" && json.Valid(p.value) && len(text) < 1000:
			list = append(list, text)
		case (p.where == "param" || p.where == "metadata" || p.where == "header" || p.where == "label") && strings.HasPrefix(text, `"`):
			list = append(list, text)
		}
	}
	return append(list, "\"\xff\"", "\"\x00\"", `"`+strings.Repeat("支", 4000)+`"`)
}

// TestOddEvidenceIsTakenIn: notices and settlement reports may hold anything. What can be
// read settles the command that it names; the rest is refused or set aside in words;
// nothing is a failure of ours, and whoever looks at it comes to no harm.
func TestOddEvidenceIsTakenIn(t *testing.T) {
	s := newOddStage(t)
	silent := testkit.NewRawServer(t, func(c *testkit.RawConn) { c.ReadRequest() })
	s.secret("odd-notices", noticeSecret)
	s.apply(t, "silent", "http://"+silent.Address(), settings{
		"notices": `{verify: {scheme: standard-webhooks, secret: file:odd-notices}, command: json.about, weight: conclusive, findings: [` +
			`{when: json.state == "done", finding: applied, reference: json.reference},` +
			`{when: json.state == "failed", finding: refused, code: json.reference, message: json.reference}]}`,
	}, map[string]settings{"lose": {"method": "POST", "path": "/lost"}})
	texts := oddTexts(t)
	notified, reported := s.doubts(t, "notified", len(texts)), s.doubts(t, "reported", len(texts))
	t.Run("notices", func(t *testing.T) { texts = s.notify(t, texts, notified) })
	t.Run("reports", func(t *testing.T) { s.report(t, texts, reported) })
	for _, c := range append(notified, reported...) {
		s.answersSound(t, c)
	}
	t.Run("all of them in lists", func(t *testing.T) { s.listedInert(t, "silent") })
	if n := s.entries(`"level":"ERROR"`); n > 0 {
		t.Errorf("%d errors in the log:\n%s", n, s.log)
	}
}

// doubts are commands that nobody answered.
func (s *oddStage) doubts(t *testing.T, name string, n int) []client.Command {
	list := make([]client.Command, n)
	for i := range list {
		list[i] = s.submitted(t, client.Submission{Key: fmt.Sprintf("%s-%d", name, i), Upstream: "silent", Operation: "lose", Body: []byte("{}")})
	}
	for _, c := range list {
		if got, err := s.api.Wait(bounded(t), c.ID); err != nil || got.State != client.StateUnresolved {
			t.Fatalf("%s, %v", got.JSON(), err)
		}
	}
	return list
}

// notify sends of each doubt a notice that holds an odd text, and one that is an odd
// text. It returns those that can be read.
func (s *oddStage) notify(t *testing.T, texts []string, about []client.Command) (readable []string) {
	for i, text := range texts {
		state := []string{"done", "failed"}[i%2]
		body := fmt.Sprintf(`{"about":%q,"state":%q,"reference":%s}`, about[i].Key, state, text)
		status := s.notice(t, fmt.Sprintf("event-%d", i), body)
		s.notice(t, fmt.Sprintf("bare-%d", i), text)
		if status >= 300 {
			continue
		}
		readable = append(readable, text)
		answer := s.ask(t, http.MethodGet, "/v1/commands/"+about[i].ID+"/notices", nil, nil)
		if answer.status != http.StatusOK || !json.Valid(answer.body) || !bytes.Contains(answer.body, fmt.Appendf(nil, "event-%d", i)) {
			t.Errorf("%.100q: %d %.300s", text, answer.status, answer.body)
		}
		harmless(t, "the notice", answer.body)
		inert(t, "the command line", []byte(s.execute("notices", about[i].ID, "--output", "table").stdout))
	}
	if len(readable) < len(texts)*2/3 {
		t.Errorf("%d of %d could be read", len(readable), len(texts))
	}
	return readable
}

// notice sends one, signed as it should be.
func (s *oddStage) notice(t *testing.T, event, body string) int {
	t.Helper()
	hook, err := standardwebhooks.NewWebhook(noticeSecret)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	signature, err := hook.Sign(event, now, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	answer := s.ask(t, http.MethodPost, "/v1/notices/silent", map[string]string{
		"Content-Type": "application/json", "Webhook-Id": event, "Webhook-Timestamp": strconv.FormatInt(now.Unix(), 10), "Webhook-Signature": signature,
	}, []byte(body))
	if answer.status >= 500 || answer.status < 300 && !json.Valid([]byte(strings.TrimPrefix(body, "\ufeff"))) {
		t.Errorf("%.100q: %d %.300s", body, answer.status, answer.body)
	}
	harmless(t, "the answer to a notice", answer.body)
	return answer.status
}

// report uploads the texts in both formats, and passes on what they say. A file that is
// no text is refused.
func (s *oddStage) report(t *testing.T, texts []string, about []client.Command) {
	var lines, table bytes.Buffer
	w := csv.NewWriter(&table)
	_ = w.Write([]string{"key", "reference", "state", "code", "message"})
	for i, text := range texts {
		if strings.Contains(text, `u0000`) {
			continue // refused with its line
		}
		if !strings.ContainsAny(text, "\r\n") {
			fmt.Fprintf(&lines, `{"key":%q,"reference":%s,"state":"success","message":%s}`+"\n", about[i].Key, text, text)
		}
		plain := decoded(text)
		_ = w.Write([]string{about[i].Key, plain, "success", plain, plain})
		_ = w.Write([]string{plain, text, plain, "\x1b[31m", "=1+1"})
	}
	w.Flush()
	for _, bad := range []string{"key,state\nk,\xff\n", "key,state\nk,\x00\n"} {
		if r, err := s.api.UploadReport(bounded(t), client.ReportUpload{Upstream: "silent", Format: client.ReportCSV}, strings.NewReader(bad)); err == nil {
			t.Errorf("%q is taken in: %+v", bad, r)
		}
	}
	for format, content := range map[client.ReportFormat]*bytes.Buffer{client.ReportJSONL: &lines, client.ReportCSV: &table} {
		r, err := s.api.UploadReport(bounded(t), client.ReportUpload{Upstream: "silent", Format: format}, content)
		if err == nil {
			r, err = s.api.WaitReport(bounded(t), r.ID, func(client.Report) {})
		}
		if err != nil || r.State != client.ReportCompared || r.Lines == 0 {
			t.Errorf("%s: %s after %d lines: %s, %v", format, r.State, r.Lines, r.Problem, err)
			continue
		}
		if _, err = s.api.ApplyReport(bounded(t), r.ID, "an odd one"); err == nil {
			r, err = s.api.WaitReport(bounded(t), r.ID, func(client.Report) {})
		}
		if err != nil || r.State != client.ReportApplied {
			t.Errorf("%s: %s, %s, %v", format, r.State, r.Problem, err)
		}
		s.reportSound(t, r.ID)
	}
}

// reportSound: its items and its pages are sound.
func (s *oddStage) reportSound(t *testing.T, id string) {
	t.Helper()
	items := s.ask(t, http.MethodGet, "/v1/reconciliations/"+id+"/items?limit=100", nil, nil)
	if items.status != http.StatusOK || !json.Valid(items.body) {
		t.Errorf("items: %d %.300s", items.status, items.body)
	}
	harmless(t, "the items", items.body)
	page := s.ask(t, http.MethodGet, "/reports/"+id, map[string]string{"Cookie": s.cookie}, nil)
	if page.status != http.StatusOK {
		t.Errorf("the page: %d %.200s", page.status, page.body)
	}
	inert(t, "the page of a report", page.body)
	inert(t, "the command line", []byte(s.execute("reconcile", "items", id, "--output", "table").stdout))
}
