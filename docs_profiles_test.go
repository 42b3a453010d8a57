package executor_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"executor/upstreams"
)

const profilesPage = "docs/profiles.md"

// reference is the block of the page that has every key with its default.
func reference(t *testing.T) string {
	t.Helper()
	_, block, _ := between(t, profilesPage, "<!-- reference -->\n```yaml\n", "```\n<!-- /reference -->")
	return block
}

func parseProfile(t *testing.T, name, source string) *upstreams.Profile {
	t.Helper()
	p, err := upstreams.Parse(name, []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// What the reference says is left out is what holds when it is.
func TestTheReferenceOfProfilesHasTheRealDefaults(t *testing.T) {
	const bare = `
version: 1
upstream: shop
base_url: https://shop.example/v1
operations:
  create_charge:
    method: POST
    path: /charges
    idempotency: {kind: keyed}
    lookup: {path: /charges, findings: [{when: status == 200, finding: applied}]}
`
	want, got := settings(parseProfile(t, "bare", bare)), settings(parseProfile(t, profilesPage, reference(t)))
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("the reference says\n%s\nthe defaults are\n%s", got[i], want[i])
		}
	}
}

// settings writes what a profile of one operation came to, a section each.
func settings(p *upstreams.Profile) []string {
	o := p.Operations["create_charge"]
	l := o.Lookups[0]
	return []string{
		fmt.Sprintf("profile %q %q auth %+v headers %v egress %+v tls %+v", p.Description, p.Tenant, p.Auth, p.Headers, p.Egress, p.TLS),
		fmt.Sprintf("connection %+v timeouts %+v limits %+v", p.Connection, p.Timeouts, p.Limits),
		fmt.Sprintf("retry %+v deadline %v announce %v notices %v", p.Retry, p.Deadline, p.AnnounceUnresolvedAfter, p.Notices),
		fmt.Sprintf("operation %v %s %v %v %+v %+v", o.Query, o.Body, o.CallerHeaders, o.CallerQuery, o.Timeouts, o.Retry),
		fmt.Sprintf("idempotency %+v", o.Idempotency),
		fmt.Sprintf("answers %v result %s %v %v rejection %s %s redact %+v", o.Answers, o.Result.Reference.Source, o.Result.Headers, o.Result.Require,
			o.Rejection.Code.Source, o.Rejection.Message.Source, o.Redaction),
		fmt.Sprintf("lookup %s %v %v %v %+v %+v", l.Method, l.Query, l.Replay, l.Compare, l.Schedule, l.Absence),
	}
}

// sections are profiles with a key that nobody knows, one for each mapping of
// the format. The complaint lists the keys that are known there.
func sections() []string {
	const top = "version: 1\nupstream: shop\nbase_url: https://shop.example\n"
	const operation = top + "operations:\n  o:\n    method: POST\n    path: /x\n    "
	var list []string
	for _, section := range []string{
		"nobody: 1", "egress: {nobody: 1}", "tls: {nobody: 1}", "connection: {nobody: 1}", "timeouts: {nobody: 1}", "limits: {nobody: 1}",
		"limits: {rate: {nobody: 1}}", "limits: {lookups: {nobody: 1}}", "retry: {nobody: 1}", "retry: {backoff: {nobody: 1}}", "retry: {budget: {nobody: 1}}",
		"auth: {type: bearer, nobody: 1}", "auth: {type: basic, nobody: 1}", "auth: {type: header, nobody: 1}",
		"auth: {type: oauth2_client_credentials, nobody: 1}", "notices: {nobody: 1}", "notices: {verify: {nobody: 1}}",
	} {
		list = append(list, top+section)
	}
	for _, section := range []string{
		"nobody: 1", "idempotency: {kind: keyed, nobody: 1}", "idempotency: {kind: keyed, key: {nobody: 1}}", "answers: [{nobody: 1}]",
		"result: {nobody: 1}", "rejection: {nobody: 1}", "redact: {nobody: 1}", "lookup: {nobody: 1}", "lookup: {findings: [{nobody: 1}]}",
		"lookup: {schedule: {nobody: 1}}", "lookup: {absence: {nobody: 1}}",
	} {
		list = append(list, operation+section)
	}
	return list
}

var knownHere = regexp.MustCompile(`Known here: (.*)\.`)

func TestTheReferenceOfProfilesHasEveryKey(t *testing.T) {
	block := reference(t)
	for _, source := range sections() {
		_, err := upstreams.Parse("section", []byte(source))
		var bad *upstreams.ParseError
		if !errors.As(err, &bad) {
			t.Fatalf("%s\nis not refused: %v", source, err)
		}
		keys := 0
		for _, problem := range bad.Problems {
			match := knownHere.FindStringSubmatch(problem.Help)
			if match == nil {
				continue
			}
			for _, key := range regexp.MustCompile(`[a-z0-9_]+`).FindAllString(match[1], -1) {
				if keys++; key != "or" && key != "and" && !regexp.MustCompile(`\b`+key+`\b`).MatchString(block) {
					t.Errorf("the reference does not have the key %s (%s)", key, problem.Path)
				}
			}
		}
		if keys == 0 {
			t.Errorf("%s\nno complaint lists the known keys: %v", source, err)
		}
	}
}

// The profiles of the walk-through hold as they stand.
func TestTheProfilesOfThePageParse(t *testing.T) {
	blocks := regexp.MustCompile("(?ms)^```yaml\n(version: 1\n.*?)^```$").FindAllStringSubmatch(readFile(t, profilesPage), -1)
	if len(blocks) < 2 {
		t.Fatalf("%s shows %d profiles, fewer than it did", profilesPage, len(blocks))
	}
	for _, block := range blocks {
		parseProfile(t, profilesPage, block[1])
	}
	for _, rule := range regexp.MustCompile("\\| `(\\{when: .*\\})` \\|").FindAllStringSubmatch(readFile(t, profilesPage), -1) {
		parseProfile(t, rule[1], strings.Replace(blocks[0][1], "path: /charges", "path: /charges\n    answers: ["+rule[1]+"]", 1))
	}
}

// The notes that the page shows of a rule that fails are those of the judge.
func TestTheNotesOfThePage(t *testing.T) {
	p := parseProfile(t, "notes", strings.Replace(sections()[0], "nobody: 1", `
operations:
  o: {method: GET, path: /x, idempotency: {kind: safe}, answers: [{when: json.code == 7, answer: refused}]}`, 1))
	var shown strings.Builder
	for _, body := range []string{"{}", "<html>"} {
		j := p.Operations["o"].Judge(upstreams.Response{Status: 404, Body: []byte(body), BodyComplete: true, Attempt: 1})
		fmt.Fprintf(&shown, "{\"status\":404,\"answer\":%q,\"notes\":[%q]}\n", j.Answer, strings.Join(j.Notes, "; "))
	}
	if !strings.Contains(readFile(t, profilesPage), "```json\n"+shown.String()+"```\n") {
		t.Errorf("%s does not show\n%s", profilesPage, &shown)
	}
}
