package api

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"executor/commands"
	"executor/internal/audit"
)

func TestListAudit(t *testing.T) {
	g := newRig(t)
	g.audit.list = []audit.Recorded{
		{
			Tenant: "default", Number: 2, At: someTime, Actor: "ann", Action: "command.resolve", Command: &someID, Reason: "<r>", EvidenceReference: "ticket 7",
			Before: json.RawMessage(`{"state": "unresolved"}`), Details: json.RawMessage(`1`), PreviousHash: []byte{1}, Hash: []byte{2},
		},
		{Tenant: "default", Number: 1, At: someTime, Actor: "boss", Action: "webhook.create", Subject: "w", PreviousHash: []byte{0}, Hash: []byte{1}},
	}
	r := g.do("GET", "/v1/audit"+query("command", someID.String(), "actor", "ann", "action", "command.resolve", "subject", "s", "after", "2026-12-01T00:00:00Z", "before", "2026-12-02T00:00:00Z", "cursor", "3", "limit", "7")).want(200)
	var page AuditList
	if r.decode(&page); len(page.Data) != 2 || page.Data[0].Hash != "02" || string(page.Data[0].Before) != `{"state": "unresolved"}` || page.Data[0].Subject != nil || page.Data[1].CommandID != nil {
		t.Errorf("%s", r.body)
	}
	if bytes.Contains(r.body, []byte(`"after"`)) {
		t.Errorf("nothing is shown: %s", r.body)
	}
	after := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	before := after.AddDate(0, 0, 1)
	want := audit.Filter{Tenant: "default", Command: &someID, Actor: "ann", Action: "command.resolve", Subject: "s", After: &after, Before: &before, Cursor: "3", Limit: 7}
	if diff := cmp.Diff(want, g.audit.filter); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"command=x", "actor=", "subject=", "after=1", "limit=0", "order=asc"} {
		g.do("GET", "/v1/audit?"+bad).want(400).problem(ProblemCodeInvalidParameter)
	}
	for _, secret := range []string{"exk_read", "exk_write", "exk_judge"} {
		g.do("GET", "/v1/audit", as(secret)).want(403)
	}
	g.audit.err = audit.ErrBadCursor
	g.do("GET", "/v1/audit?cursor=x").want(400).problem(ProblemCodeInvalidParameter)
}

func TestCommandAudit(t *testing.T) {
	g := newRig(t)
	path := "/v1/commands/" + someID.String() + "/audit"
	g.do("GET", path, as("exk_read")).want(404).problem(ProblemCodeNotFound)
	g.commands.get = func(context.Context, string, uuid.UUID) (commands.Command, error) { return doneCommand(`{}`), nil }
	g.do("GET", path+"?cursor=9&limit=2", as("exk_read")).want(200)
	if diff := cmp.Diff(audit.Filter{Tenant: "default", Command: &someID, Cursor: "9", Limit: 2}, g.audit.filter); diff != "" {
		t.Error(diff)
	}
	g.do("GET", path+"?actor=ann").want(400)
}

func TestVerifyAudit(t *testing.T) {
	g := newRig(t)
	head := audit.Pin{Tenant: "default", Number: 7, Hash: bytes.Repeat([]byte{0xAB}, 32)}
	g.audit.report = audit.Report{Chains: []audit.Chain{{Tenant: "default", Entries: 7, Head: head}}}
	var v AuditVerification
	if g.do("GET", "/v1/audit/verify?pin="+head.String()).want(200).decode(&v); !v.Sound || v.Entries != 7 || *v.Head != head.String() || v.Problem != nil {
		t.Errorf("%+v", v)
	}
	if diff := cmp.Diff([]audit.Pin{head}, g.audit.pins); diff != "" || g.audit.tenant != "default" {
		t.Error(g.audit.tenant, diff)
	}
	g.audit.report.Chains[0].Problem = &audit.Problem{Number: 8, Kind: audit.ProblemMissing, Detail: "entries 8 to 9 are gone"}
	if g.do("GET", "/v1/audit/verify").want(200).decode(&v); v.Sound || v.Problem.Kind != "missing" || v.Problem.Number != 8 {
		t.Errorf("%+v", v)
	}
	g.audit.report = audit.Report{Chains: []audit.Chain{{Tenant: "default"}}}
	if g.do("GET", "/v1/audit/verify").want(200).decode(&v); !v.Sound || v.Head != nil {
		t.Errorf("%+v", v)
	}
	g.do("GET", "/v1/audit/verify?pin=7").want(400).problem(ProblemCodeInvalidParameter)
}

// slowAudit takes its time.
type slowAudit struct {
	fakeAudit
	takes time.Duration
}

func (a *slowAudit) Verify(ctx context.Context, tenant string, pins ...audit.Pin) (audit.Report, error) {
	<-time.NewTimer(a.takes).C
	return a.fakeAudit.Verify(ctx, tenant, pins...)
}

// TestVerifyOutlivesWriteTimeout: a long log takes long to read.
func TestVerifyOutlivesWriteTimeout(t *testing.T) {
	const limit = 50 * time.Millisecond
	g := newRig(t, func(c *Config) { c.Audit = &slowAudit{takes: 3 * limit} })
	short := httptest.NewUnstartedServer(g.server.Routes())
	short.Config.ReadTimeout, short.Config.WriteTimeout = limit, limit
	short.Start()
	t.Cleanup(short.Close)
	g.http = short
	g.do("GET", "/v1/audit/verify").want(200)
}
