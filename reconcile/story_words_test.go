package reconcile_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rogpeppe/go-internal/testscript"

	"executor/commands"
	"executor/internal/audit"
	"executor/internal/simulator"
	"executor/outcome"
	"executor/reconcile"
	"executor/upstreams"
)

// storyWords are what a script may say.
//
//	profile FILE                      apply another profile than testdata/ledger.yaml, which every
//	                                  story begins with; $UPSTREAM in it is the simulator
//	submit KEY OPERATION [sim=STEPS] [body=JSON] [timeout=1m]
//	                                  submit a command; its client_reference is the key
//	await KEY STATE [FIELD=VALUE …]   wait until it is in the state and shows all of that, or
//	                                  was announced with all of that
//	after-settling KEY                no absent counted before the first attempt's settle time was over
//	counts KEY NAME=N …               requests, effects, lookups at the upstream; N may be >=2
//	webhooks KEY STATE …              wait until the shop was told exactly of these, in order
//	disabled WHOM                     wait until the shop's endpoint is disabled by gone, failing or person
//	cancel KEY RESULT                 the caller cancels, and is told the result
//	read KEY                          a person reads it and keeps its version
//	resolve|resend|lookup|correct KEY …  what the person does then; "!" in front: it is refused
//	notify KEY [NAME=VALUE …]         the upstream sends a notice about it: states=done,pending,
//	                                  copies=2, shift=-10m, id=EVENT, wrong=true
//	notices KEY N [answered=N refused=N]  wait until so many were taken in about it
//	behave PATH [STEPS]               how the upstream answers everything below a path
//	hook STEPS                        how the shop's receiver answers
//	restart                           end the process in good order and start another
var storyWords = map[string]func(ts *testscript.TestScript, refused bool, args []string){
	"profile":        scripted(2, sayProfile),
	"submit":         scripted(3, saySubmit),
	"await":          scripted(3, sayAwait),
	"after-settling": scripted(2, sayAfterSettling),
	"counts":         scripted(3, sayCounts),
	"webhooks":       scripted(2, sayWebhooks),
	"disabled":       scripted(2, sayDisabled),
	"cancel":         scripted(3, sayCancel),
	"read":           scripted(2, sayRead),
	"resolve":        person(sayResolve),
	"resend":         person(sayResend),
	"lookup":         person(sayLookup),
	"correct":        person(sayCorrect),
	"notify":         scripted(2, sayNotify),
	"notices":        scripted(3, sayNotices),
	"behave":         scripted(2, sayBehave),
	"hook":           scripted(1, sayHook),
	"restart":        scripted(1, sayRestart),
}

// line is one line of a script.
type line struct {
	*testscript.TestScript
	*story
	args []string
	ctx  context.Context
}

func (l *line) arg(i int) string {
	if i >= len(l.args) {
		l.Fatalf("a word is missing")
	}
	return l.args[i]
}

// options are the words of the form name=value from the i-th on.
func (l *line) options(i int) map[string]string {
	named := map[string]string{}
	for _, word := range l.args[min(i, len(l.args)):] {
		name, value, ok := strings.Cut(word, "=")
		if !ok {
			l.Fatalf("%q is not of the form name=value", word)
		}
		named[name] = value
	}
	return named
}

// scripted is a word that must succeed. words counts the word itself.
func scripted(words int, say func(*line) error) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, refused bool, args []string) {
		if refused || len(args) < words-1 {
			ts.Fatalf("usage: see storyWords")
		}
		l := newLine(ts, args)
		ts.Check(say(l))
	}
}

// person is a word that may be refused.
func person(say func(*line) error) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, refused bool, args []string) {
		err := say(newLine(ts, args))
		switch {
		case refused && err == nil:
			ts.Fatalf("it was not refused")
		case refused:
			ts.Logf("refused: %v", err)
		default:
			ts.Check(err)
		}
	}
}

func newLine(ts *testscript.TestScript, args []string) *line {
	return &line{TestScript: ts, story: ts.Value(storyKey{}).(*story), args: args, ctx: context.Background()}
}

func sayProfile(l *line) error { return l.apply(l.ctx, l.arg(0), l.ReadFile(l.arg(0))) }

func (w *story) apply(ctx context.Context, name, source string) error {
	p, err := upstreams.Parse(name, []byte(strings.ReplaceAll(source, "$UPSTREAM", w.simURL)))
	if err != nil {
		return err
	}
	_, _, err = w.ups.Apply(ctx, p, audit.By{Actor: "story"})
	return err
}

func saySubmit(l *line) error {
	key, o := l.arg(0), l.options(2)
	body := map[string]any{"amount": 100, "client_reference": key}
	if o["body"] != "" {
		if err := json.Unmarshal([]byte(o["body"]), &body); err != nil {
			return err
		}
	}
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	s := commands.Submission{
		Tenant: tenant, Key: key, Upstream: "ledger", Operation: l.arg(1), Actor: "story", Body: text, HasBody: true,
		Headers: map[string]string{"Sim-Behavior": o["sim"]},
	}
	if o["sim"] == "" {
		s.Headers = nil
	}
	if o["timeout"] != "" {
		if s.Timeout, err = time.ParseDuration(o["timeout"]); err != nil {
			return err
		}
	}
	accepted, err := l.commands.Submit(l.ctx, s)
	l.ids[key] = accepted.Command.ID
	return err
}

func (l *line) command(key string) (commands.Command, error) {
	id, ok := l.ids[key]
	if !ok {
		return commands.Command{}, fmt.Errorf("nothing was submitted under %q", key)
	}
	return l.commands.Get(l.ctx, tenant, id)
}

// within asks again and again until ok, or patience is at its end.
func within(ok func() (bool, error)) error {
	tick := time.NewTicker(100 * time.Millisecond) // the events tell what was over between two looks
	defer tick.Stop()
	for bound := time.Now().Add(2 * patience); ; <-tick.C {
		done, err := ok()
		if done && err == nil {
			return nil
		}
		if time.Now().After(bound) {
			return errors.Join(errors.New("it did not happen"), err)
		}
	}
}

func sayAwait(l *line) error {
	want := l.options(2)
	want["state"] = l.arg(1)
	var got map[string]string
	err := within(func() (bool, error) {
		c, err := l.command(l.arg(0))
		if err != nil {
			return false, err
		}
		if got = shown(c); holds(got, want) {
			return true, nil
		}
		past, err := l.announced(c)
		return slices.ContainsFunc(past, func(o map[string]string) bool { return holds(o, want) }), err
	})
	if err != nil {
		return fmt.Errorf("%w: it shows %v", err, got)
	}
	return nil
}

func holds(got, want map[string]string) bool {
	for name, value := range want {
		if got[name] != value {
			return false
		}
	}
	return true
}

// announced lists the outcomes that there were: on a busy machine one is over before
// anybody looks.
func (l *line) announced(c commands.Command) ([]map[string]string, error) {
	rows, err := l.pool.Query(l.ctx, `
		SELECT data ->> 'state', data ->> 'reason', data ->> 'decided_by', data ->> 'next_action', data ->> 'safe_to_resubmit', sequence::text
		FROM events WHERE command_id = $1 AND sequence > 0`, c.ID)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (map[string]string, error) {
		var state, reason, by, next, safe, sequence string
		err := row.Scan(&state, &reason, &by, &next, &safe, &sequence)
		return map[string]string{"state": state, "reason": reason, "by": by, "next": next, "safe": safe, "sequence": sequence, "key": c.Key}, err
	})
}

// shown is what a reader sees of a command, in words.
func shown(c commands.Command) map[string]string {
	m := map[string]string{"state": string(c.State), "attempts": strconv.Itoa(c.Attempts), "key": c.Key, "final": strconv.FormatBool(c.Final())}
	if o := c.Outcome; o != nil {
		m["reason"], m["by"], m["next"] = string(o.Reason), string(o.DecidedBy), string(o.NextAction)
		m["safe"], m["sequence"] = strconv.FormatBool(o.SafeToResubmit), strconv.Itoa(o.Sequence)
		if o.Result != nil {
			m["reference"] = o.Result.Reference
		}
		if o.Rejection != nil {
			m["code"] = o.Rejection.Code
		}
	}
	if r := c.Reconciliation; r != nil {
		m["phase"], m["absents"], m["assignee"] = r.Phase, strconv.Itoa(r.AbsentInARow), r.Assignee
	}
	return m
}

// sayAfterSettling compares moments on record, not how long the test took.
func sayAfterSettling(l *line) error {
	c, err := l.command(l.arg(0))
	if err != nil {
		return err
	}
	op, err := l.commands.Operation(l.ctx, c.UpstreamID, c.ProfileVersion, c.Operation)
	if err != nil {
		return err
	}
	var until time.Time
	err = l.pool.QueryRow(l.ctx, `SELECT latest_end FROM attempts WHERE command_id = $1 AND number = 1`, c.ID).Scan(&until)
	if err != nil {
		return err
	}
	var settled time.Time
	err = l.pool.QueryRow(l.ctx, `SELECT min(started_at) FROM lookups WHERE command_id = $1 AND counts`, c.ID).Scan(&settled)
	if err != nil {
		return fmt.Errorf("no absent counted: %w", err)
	}
	if after := op.LookupAbsence().SettlesAfter; after <= 0 || settled.Before(until.Add(after)) {
		return fmt.Errorf("the first absent that counted was asked for %s after the last moment of the first attempt, the settle time is %s", settled.Sub(until), after)
	}
	return nil
}

func sayCounts(l *line) error {
	counts := l.sim.Counts(l.arg(0))
	got := map[string]int{"requests": counts.Commands, "effects": counts.Effects, "lookups": counts.Lookups, "replayed": counts.Replayed}
	for name, value := range l.options(1) {
		n, least := strings.CutPrefix(value, ">")
		want, err := strconv.Atoi(n)
		if err != nil {
			return fmt.Errorf("%s=%s is no number", name, value)
		}
		if have, ok := got[name]; !ok || (least && have <= want) || (!least && have != want) {
			return fmt.Errorf("%s: %d, want %s (all: %v)", name, have, value, got)
		}
	}
	return nil
}

// told is what a webhook says.
type told struct {
	Type string `json:"type"`
	Data struct {
		ID            string        `json:"id"`
		Sequence      int           `json:"sequence"`
		PreviousState outcome.State `json:"previous_state"`
	} `json:"data"`
}

// sayWebhooks waits until the shop was told of exactly these outcomes. A webhook
// may come more than once; its id says that it is the same.
func sayWebhooks(l *line) error {
	key, want := l.arg(0), l.args[1:]
	var got []string
	err := within(func() (bool, error) {
		heard, err := l.heard(key)
		if err != nil {
			return false, err
		}
		got = nil
		for _, sequence := range slices.Sorted(maps.Keys(heard)) {
			got = append(got, strings.TrimPrefix(heard[sequence].Type, "command."))
			// An outcome that was held back and dropped is the previous one all the same.
			before, told := heard[sequence-1]
			if previous := "command." + string(heard[sequence].Data.PreviousState); told && previous != before.Type {
				return false, fmt.Errorf("sequence %d names %s as the one before, which was %s", sequence, previous, before.Type)
			}
		}
		return slices.Equal(got, want), nil
	})
	if err != nil {
		return fmt.Errorf("%w: the shop was told %v, want %v", err, got, want)
	}
	return nil
}

// sayDisabled waits until the shop's endpoint is disabled: what it answered is put on
// record a moment after it heard of the outcome.
func sayDisabled(l *line) error {
	return within(func() (bool, error) {
		list, err := l.hooks.List(context.Background(), tenant)
		return len(list) == 1 && string(list[0].DisabledBy) == l.arg(0), err
	})
}

// heard lists what was told of a command, by sequence; each has one id.
func (l *line) heard(key string) (map[int]told, error) {
	heard, ids := map[int]told{}, map[int]string{}
	for _, r := range l.sim.Deliveries("shop") {
		var e told
		if err := json.Unmarshal(r.Body, &e); err != nil {
			return nil, err
		}
		if e.Data.ID != l.ids[key].String() {
			continue
		}
		if r.Verified == nil || !*r.Verified {
			return nil, fmt.Errorf("a webhook of %s is not signed rightly", key)
		}
		if id := ids[e.Data.Sequence]; id != "" && id != r.Key {
			return nil, fmt.Errorf("sequence %d came under the ids %s and %s", e.Data.Sequence, id, r.Key)
		}
		heard[e.Data.Sequence], ids[e.Data.Sequence] = e, r.Key
	}
	return heard, nil
}

func sayCancel(l *line) error {
	_, result, err := l.commands.Cancel(l.ctx, tenant, l.ids[l.arg(0)], audit.By{Actor: "story"})
	if err == nil && string(result) != l.arg(1) {
		err = fmt.Errorf("the caller is told %s", result)
	}
	return err
}

func sayRead(l *line) error {
	c, err := l.command(l.arg(0))
	l.op[l.arg(0)] = c.Version
	return err
}

// action is what the person does to the command as it was read: at "read", or
// just now.
func (l *line) action() (reconcile.Action, error) {
	c, err := l.command(l.arg(0))
	version := l.op[l.arg(0)]
	if version == 0 {
		version = c.Version
	}
	return reconcile.Action{Tenant: tenant, Command: c.ID, Version: version, Actor: "ann", Reason: "the vendor's dashboard says so", EvidenceReference: "ticket-1"}, err
}

func sayResolve(l *line) error {
	a, err := l.action()
	if err != nil {
		return err
	}
	return l.doubts.Resolve(l.ctx, a, reconcile.Resolution{State: outcome.State(l.arg(1)), Reference: l.options(2)["reference"]})
}

func sayResend(l *line) error {
	a, err := l.action()
	if err != nil {
		return err
	}
	return l.doubts.Resend(l.ctx, a, slices.Contains(l.args, "absent"))
}

func sayLookup(l *line) error {
	a, err := l.action()
	if err != nil {
		return err
	}
	return l.doubts.LookUpNow(l.ctx, a)
}

func sayCorrect(l *line) error {
	a, err := l.action()
	if err != nil {
		return err
	}
	return l.doubts.Correct(l.ctx, a, reconcile.Resolution{State: outcome.State(l.arg(1)), Reference: l.options(2)["reference"]})
}

func sayNotify(l *line) error {
	o := l.options(1)
	n := simulator.Notice{Payment: l.arg(0), ID: o["id"], Shift: o["shift"], WrongSignature: o["wrong"] == "true"}
	if o["states"] != "" {
		n.States = strings.Split(o["states"], ",")
	}
	n.Copies, _ = strconv.Atoi(o["copies"])
	_, err := l.sim.Notify(n)
	return err
}

// sayNotices waits until all that was sent was answered, and counts.
func sayNotices(l *line) error {
	want := l.options(2)
	want["taken"] = l.arg(1)
	var got map[string]string
	err := within(func() (bool, error) {
		var taken int
		err := l.pool.QueryRow(l.ctx, `SELECT count(*) FROM notices WHERE command_id = $1`, l.ids[l.arg(0)]).Scan(&taken)
		answered := map[int]int{}
		for _, n := range l.sim.Notices() {
			answered[n.Status]++
		}
		got = map[string]string{"taken": strconv.Itoa(taken), "refused": strconv.Itoa(answered[http.StatusUnauthorized]), "answered": strconv.Itoa(answered[http.StatusAccepted])}
		for name, value := range want {
			if got[name] != value {
				return false, err
			}
		}
		return true, err
	})
	if err != nil {
		return fmt.Errorf("%w: %v, want %v", err, got, want)
	}
	return nil
}

func sayBehave(l *line) error { return l.sim.Behave(l.arg(0), strings.Join(l.args[1:], ";")) }

func sayHook(l *line) error { return l.sim.SetHook("shop", strings.Join(l.args, ";"), l.secret) }

func sayRestart(l *line) error {
	l.stop()
	return l.start()
}
