package simulator

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// exchange is one request and what becomes of it.
type exchange struct {
	sim      *Simulator
	conn     *conn
	head     *http.Request
	rec      *Request // in the ledger: changed through sim.update only
	body     []byte
	sum      [sha256.Size]byte
	fields   fields
	behavior Behavior
	attempt  int
}

// fields are the members of a body that the simulator looks at.
type fields struct {
	Sim       string          `json:"sim"`
	Key       string          `json:"idempotency_key"`
	Reference string          `json:"client_reference"`
	Amount    json.RawMessage `json:"amount"`
}

func newExchange(c *conn, head *http.Request) *exchange {
	x := &exchange{sim: c.sim, conn: c, head: head, rec: &Request{
		Kind: kindOf(head), Time: time.Now(), Connection: c.number, Method: head.Method, Path: head.URL.RequestURI(),
		Headers: withoutCredentials(head.Header), Key: cmp.Or(keyOf(head.Header), head.URL.Query().Get("idempotency_key")), Reference: head.Header.Get("Sim-Reference"),
	}}
	switch x.rec.Kind {
	case KindLookup:
		x.rec.About = x.about()
	case KindHook:
		x.rec.Key = head.Header.Get("Webhook-Id")
	}
	return x
}

// run answers the request and says whether the connection goes on.
func (x *exchange) run() (keep bool) {
	x.sim.record(x.rec)
	early, err := x.chooseByHead()
	if !early && x.readBody() != nil {
		return x.end(0)
	}
	if err == nil && !early {
		err = x.chooseByBody()
	}
	x.countAttempt()
	x.expectQuestions()
	if err != nil {
		return x.reply(problem(http.StatusBadRequest, "unknown_behavior", err.Error()))
	}
	keep = x.play()
	if early && keep {
		return !x.expectsContinue() && x.readBody() == nil
	}
	return keep
}

// chooseByHead takes the behaviour from the header, else from the command that a
// question is about, else from the path, and says whether the answer must come
// before the body is read.
func (x *exchange) chooseByHead() (early bool, err error) {
	x.behavior = x.sim.behaviorOf(x.head.Method, x.head.URL.Path)
	if b, ok := x.behaviorOfLookup(); ok {
		x.behavior = b
	}
	if x.rec.Kind == KindHook {
		x.behavior = x.sim.behaviorOfHook(x.hookName())
	}
	if text := strings.Join(x.head.Header.Values("Sim-Behavior"), ","); text != "" {
		x.behavior, err = ParseBehavior(text)
	}
	return x.behavior.early, err
}

// chooseByBody lets the body's member decide if no header did.
func (x *exchange) chooseByBody() (err error) {
	if x.fields.Sim != "" && x.head.Header.Get("Sim-Behavior") == "" && x.rec.Kind != KindHook {
		x.behavior, err = ParseBehavior(x.fields.Sim)
	}
	return err
}

// readBody reads the body to its end and enters it into the ledger, whole or as
// far as it came.
func (x *exchange) readBody() error {
	if x.expectsContinue() && x.rec.EndedAt == nil {
		if _, err := x.conn.send([]byte("HTTP/1.1 100 Continue\r\n\r\n")); err != nil {
			return err
		}
	}
	body, err := io.ReadAll(x.head.Body)
	x.body, x.sum = body, sha256.Sum256(body)
	x.fields = parseFields(x.head.Header.Get("Content-Type"), body)
	x.sim.update(func() {
		x.rec.Body = x.kept()
		x.rec.BodyBytes, x.rec.BodySHA256 = int64(len(body)), hex.EncodeToString(x.sum[:])
		x.rec.Complete = err == nil
		if x.fields.Reference != "" {
			x.rec.Reference = x.fields.Reference
		}
		if x.rec.Key == "" {
			x.rec.Key = x.fields.Key
		}
	})
	return err
}

// kept is the part of the body that stays in memory.
func (x *exchange) kept() Body {
	if x.head.URL.Path == tokenPath {
		return Body("[redacted]") // it may hold the client's secret
	}
	return Body(bytes.Clone(x.body[:min(len(x.body), x.sim.cfg.BodyBytes)]))
}

func (x *exchange) expectsContinue() bool {
	return strings.EqualFold(x.head.Header.Get("Expect"), "100-continue")
}

// parseFields reads JSON, whatever it calls itself, or a form. Any other body is
// welcome too, and members of another type count as left out.
func parseFields(contentType string, body []byte) (f fields) {
	if json.Valid(body) || !strings.HasPrefix(contentType, "application/x-www-form-urlencoded") {
		_ = json.Unmarshal(body, &f)
		return f
	}
	form, _ := url.ParseQuery(string(body))
	f.Sim, f.Reference, f.Key = form.Get("sim"), form.Get("client_reference"), form.Get("idempotency_key")
	if amount := form.Get("amount"); amount != "" {
		f.Amount, _ = json.Marshal(amount)
	}
	return f
}

// countAttempt numbers the attempts of one key (or reference, or body) on one
// path, and lets a behaviour end after its first few.
func (x *exchange) countAttempt() {
	identity := x.rec.Method + " " + x.rec.Path + " " + cmp.Or(x.rec.Key, x.rec.Reference, string(x.sum[:]))
	x.sim.update(func() {
		before, _ := x.sim.attempts.get(identity)
		x.attempt = before + 1
		x.sim.attempts.set(identity, x.attempt)
		if x.behavior.times > 0 && x.attempt > x.behavior.times {
			x.behavior = Behavior{}
		}
		x.rec.Attempt, x.rec.Behavior = x.attempt, x.behavior.text
	})
}

// play does what the behaviour says: waits, effect, cut or answer, in this order.
func (x *exchange) play() (keep bool) {
	b := x.behavior
	if b.expiredToken && !x.freshToken() {
		return x.reply(unauthorized())
	}
	route := x.route()
	claim, refusal := x.claim(route)
	if refusal != nil {
		return x.reply(*refusal)
	}
	if b.stallsFirst() && !x.stall() {
		claim.release()
		return x.end(0)
	}
	result := route.run(x, claim)
	if b.stall != 0 && !b.stallsFirst() && !x.stall() {
		return x.end(0)
	}
	if b.cuts() {
		return x.cut()
	}
	return x.reply(x.dress(result))
}

// stall waits as long as the behaviour says. A wait without end ends with the
// connection; only then, or when the simulator is closed, it returns false.
func (x *exchange) stall() bool {
	ctx, gone := context.WithCancel(context.Background())
	defer gone()
	if x.behavior.stall == forever {
		stop := x.conn.watch(gone)
		defer stop()
	}
	return x.sim.pause(ctx, x.behavior.stall)
}

// dress turns the result into the answer that was asked for.
func (x *exchange) dress(a answer) answer {
	b := x.behavior
	switch {
	case b.html:
		a = page(cmp.Or(b.status, http.StatusOK))
	case b.redirect != "":
		a = a.as(cmp.Or(b.status, http.StatusFound)).with("Location", b.redirect)
	default:
		a = a.as(b.status)
	}
	if b.retryAfter != "" {
		a = a.with("Retry-After", b.retryAfter)
	}
	if b.gzip != "" {
		a = a.compressed(b.gzip)
	}
	return a
}

// reply sends the answer. The ledger knows it before the client can.
func (x *exchange) reply(a answer) (keep bool) {
	a = a.with("Sim-Request", fmt.Sprint(x.rec.Number))
	if x.head.Method == http.MethodHead {
		a.body = nil
	}
	b := x.behavior
	if b.endless {
		return x.neverEnd(a)
	}
	keep = !b.closes && !b.truncates && !x.head.Close && x.head.ProtoAtLeast(1, 1)
	wire := a.encode(!keep && !b.truncates)
	if b.truncates && a.hasBody() {
		wire = wire[:len(wire)-len(a.body)+min(b.truncate, len(a.body))]
	}
	if b.leftover {
		wire = append(wire, jsonAnswer(http.StatusOK, map[string]string{"id": "leftover", "state": "done"}).encode(false)...)
	}
	x.ended(a.status, int64(len(wire)))
	if sent, err := x.conn.send(wire); err != nil {
		x.sim.update(func() { x.rec.AnswerBytes = sent })
		return false
	}
	return keep
}

// neverEnd sends the answer and then more of its body, at about 1 MiB/s, until the
// client or the simulator closes.
func (x *exchange) neverEnd(a answer) (keep bool) {
	head := a.encodeHead(true, -1)
	x.ended(a.status, int64(len(head)+len(a.body)))
	sent, err := x.conn.send(append(head, a.body...))
	for filler := bytes.Repeat([]byte(" "), 16<<10); err == nil && x.sim.pause(context.Background(), 16*time.Millisecond); {
		var more int64
		more, err = x.conn.send(filler)
		sent += more
	}
	x.sim.update(func() { x.rec.AnswerBytes = sent })
	return false
}

// cut closes the connection without an answer.
func (x *exchange) cut() (keep bool) {
	x.ended(0, 0)
	if x.behavior.reset {
		x.conn.abort()
	}
	return false
}

func (x *exchange) end(status int) (keep bool) {
	x.ended(status, 0)
	return false
}

func (x *exchange) ended(status int, bytes int64) {
	now := time.Now()
	x.sim.update(func() { x.rec.Status, x.rec.AnswerBytes, x.rec.EndedAt = status, bytes, &now })
}

// keyOf reads the Idempotency-Key, quoted or not.
func keyOf(h http.Header) string {
	key := h.Get("Idempotency-Key")
	if len(key) > 1 && strings.HasPrefix(key, `"`) && strings.HasSuffix(key, `"`) {
		return key[1 : len(key)-1]
	}
	return key
}
