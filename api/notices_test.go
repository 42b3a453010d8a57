package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"executor/commands"
	"executor/outcome"
	"executor/reconcile"
	"executor/upstreams"
)

func TestReceiveNotice(t *testing.T) {
	g := newRig(t)
	raw := "\xff{\"id\" : 7}\n"
	notice := func(query string, options ...askOption) *reply {
		t.Helper()
		options = append([]askOption{without("Authorization"), with("Webhook-Signature", "v1,abc"), sending(`{"id":7}`)}, options...)
		return g.do("POST", "/v1/notices/ledger"+query, options...)
	}
	if r := notice("", func(a *ask) { a.body = raw; a.header.Set("Content-Type", "text/weird") }).want(202); string(r.body) != `{"accepted":true,"duplicate":false}`+"\n" {
		t.Errorf("%s", r.body)
	}
	if g.notices.tenant != "default" || g.notices.upstream != "ledger" || string(g.notices.body) != raw || g.notices.header.Get("Webhook-Signature") != "v1,abc" {
		t.Errorf("%+v", g.notices)
	}
	g.notices.received = reconcile.Received{Duplicate: true}
	var a AcceptedNotice
	if notice("?tenant=acme").want(202).decode(&a); !a.Duplicate || g.notices.tenant != "acme" {
		t.Errorf("%+v of %s", a, g.notices.tenant)
	}
	for _, without := range []askOption{without("Content-Type"), as("exk_unknown"), with("Content-Encoding", "gzip")} {
		notice("", without).want(202) // what they mean is the upstream's and its signature's business
	}
	notice("?tennant=acme").want(400).problem(ProblemCodeInvalidParameter)
	notice("?tenant=").want(400).problem(ProblemCodeInvalidParameter)
	notice("", func(a *ask) { a.body = strings.Repeat("x", reconcile.NoticeBytes+1) }).want(413).problem(ProblemCodeBodyTooLarge)
	notice("", func(a *ask) { a.body = strings.Repeat("x", reconcile.NoticeBytes) }).want(202)
}

func TestNoticesThatAreNotTaken(t *testing.T) {
	g := newRig(t)
	ask := func() *reply {
		return g.do("POST", "/v1/notices/ledger", without("Authorization"), sending(`{}`))
	}
	var bodies []string
	for _, tt := range []struct {
		path string
		err  error
	}{
		{"ledger", unverifiedNotice}, {"ledger", reconcile.ErrNoNotices}, {"ledger?tenant=nobody", reconcile.ErrNoNotices},
		{"No-Such-Name", nil}, {"ledger?tenant=" + strings.Repeat("x", 1000), nil},
	} {
		g.notices.err = tt.err
		r := g.do("POST", "/v1/notices/"+tt.path, without("Authorization"), with("X-Request-Id", "same"), sending(`{}`)).want(401)
		if r.problem(ProblemCodeUnverifiedNotice); r.header.Get("WWW-Authenticate") == "" {
			t.Error("a 401 without a challenge")
		}
		bodies = append(bodies, string(r.body))
	}
	if len(slices.Compact(bodies)) != 1 {
		t.Errorf("strangers can tell what there is:\n%s", strings.Join(bodies, ""))
	}
	g.notices.err = &upstreams.UnreadableNotice{Reason: "it has no event id"}
	ask().want(422).problem(ProblemCodeInvalidRequest)
	g.notices.err = reconcile.ErrNoticeTooLarge
	ask().want(413).problem(ProblemCodeBodyTooLarge)
	g.notices.err = commands.ErrUnavailable
	ask().want(503).problem(ProblemCodeUnavailable)
}

func TestListNotices(t *testing.T) {
	g := newRig(t)
	path := "/v1/commands/" + someID.String() + "/notices"
	g.do("GET", path, as("exk_read")).want(404).problem(ProblemCodeNotFound)
	g.commands.get = func(context.Context, string, uuid.UUID) (commands.Command, error) { return doneCommand(`{}`), nil }
	g.notices.list = []reconcile.Notice{
		{
			ID: 1, EventID: "evt_1", ReceivedAt: someTime, MatchedAt: someTime, ProfileVersion: 3, NamedBy: "reference", Name: "pay_9", Weight: "conclusive",
			Finding: outcome.FindingApplied, Reference: "pay_9", Rule: "done", Notes: []string{"n"}, Headers: http.Header{"X-A": {"1"}}, Body: []byte("<b>"),
			BodySHA256: []byte{1}, State: reconcile.NoticeDone, Effect: reconcile.NoticeEffectSettled,
		},
		{ID: 2, EventID: "evt_2", ReceivedAt: someTime, NamedBy: "key", Name: "k1", Weight: "hint", Finding: outcome.FindingUnknown, State: reconcile.NoticeUnmatched},
	}
	r := g.do("GET", path, as("exk_read")).want(200)
	var page NoticeList
	r.decode(&page)
	known, open := page.Data[0], page.Data[1]
	if *known.Effect != "settled" || *known.BodyText != "<b>" || *known.Reference != "pay_9" || *known.Sha256 != "01" || open.MatchedAt != nil || open.Effect != nil || open.Sha256 != nil {
		t.Errorf("%s", r.body)
	}
}
