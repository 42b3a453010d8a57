package attempts

import (
	"context"
	"errors"
	"net/http"
	"time"

	"executor/outcome"
)

// Gate is asked once, immediately before the first byte. It checks and does not
// wait; its error means that nothing may be sent any more.
type Gate func() error

// Send makes the exchange on a connection of Dial: one request, at most once,
// and its response. It returns by the deadline, which bounds everything, and
// always disposes of the connection. ctx should be detached from whatever may
// want to interrupt the caller: ending it cuts the exchange off where it stands.
func (s *Sender) Send(ctx context.Context, c *Conn, r WireRequest, gate Gate, deadline time.Time) Observation {
	head, err := Encode(r, c.target)
	if err != nil {
		c.close()
		return c.describe(InvalidRequest(err))
	}
	x := newExchange(c, r.Method, head, r.Body, deadline)
	disposed := false
	defer func() { // a gate that panics must not leave the connection open
		if !disposed {
			x.counter.seal(c.wire.reset)
		}
	}()
	if refusal, ok := x.admit(ctx, gate); !ok {
		disposed = true
		return x.conclude(x.counter.seal(c.wire.reset), refusal)
	}
	stop := context.AfterFunc(ctx, x.clock.stop)
	go x.write()
	x.read()
	if !stop() {
		x.clock.stop() // the connection must not be given on before its deadline was spoilt
	}
	t, keep := x.finish()
	<-x.done
	disposed = true
	o := x.conclude(t, x.classify(t))
	if keep {
		s.pool.put(c) // last: from here on it is another exchange's
	}
	return o
}

// chunk is how much one write call is given: about one TLS record. The counter is
// marked around each.
const chunk = 16 << 10

// settling is how long a write call may take to return once reading is over or the
// response has begun. The peer can answer before the call that carried the
// request's last bytes has returned; a peer that has stopped reading keeps it
// longer, and its response counts as early.
const settling = 100 * time.Millisecond

// exchange is one request and its response on one connection.
type exchange struct {
	conn    *Conn
	method  string
	head    []byte
	body    []byte
	counter *counter
	clock   *clock

	began time.Time
	done  chan struct{} // closed when writing is over
	wrote time.Time     // when; valid after done

	early   bool
	interim int
	reply   *reply
	headErr error // why there is no reply
	ended   time.Time
	notes   []string
}

func newExchange(c *Conn, method string, head, body []byte, deadline time.Time) *exchange {
	return &exchange{
		conn: c, method: method, head: head, body: body,
		counter: newCounter(c, int64(len(head)+len(body))),
		clock:   &clock{conn: c.wire, end: deadline, headers: c.target.Timeouts.ResponseHeader},
		done:    make(chan struct{}),
	}
}

// admit looks at the clocks and the connection, asks the gate, looks once more
// and opens the counter, so that nothing but the first write follows. What the
// peer said until now is no answer to this request. If it says no, nothing was
// sent.
func (x *exchange) admit(ctx context.Context, gate Gate) (Observation, bool) {
	refuse := func(category outcome.Category, err error) (Observation, bool) {
		return notSent(outcome.StageWrite, category, err.Error()), false
	}
	if ctx.Err() != nil || x.clock.over() {
		return refuse(outcome.CategoryAttemptTimeout, errors.New("the attempt's time was over before the request"))
	}
	if err := x.clock.start(); err != nil {
		return refuse(outcome.CategoryConnectionReset, cause(err))
	}
	if err := x.conn.silent(); err != nil {
		return refuse(beforeRequest(err), cause(err))
	}
	if err := gate(); err != nil {
		return refuse(outcome.CategoryExecutorLost, err)
	}
	if err := x.conn.silent(); err != nil {
		return refuse(beforeRequest(err), cause(err))
	}
	if err := x.counter.Open(); err != nil {
		return refuse(outcome.CategoryExecutorLost, err)
	}
	x.began, x.conn.served = time.Now(), true
	return Observation{}, true
}

// write hands the request over, the first piece with as much of the body as fits,
// so that a small request is one segment. It stops at the end even if the
// connection's timers are late, as after a pause of the whole process.
func (x *exchange) write() {
	defer close(x.done)
	defer func() { x.wrote = time.Now(); x.clock.written() }()
	first := x.head
	rest := x.body
	if n := min(len(rest), max(0, chunk-len(first))); n > 0 {
		first = append(first[:len(first):len(first)], rest[:n]...)
		rest = rest[n:]
	}
	for piece := first; !x.clock.over(); {
		if _, err := x.counter.Write(piece); err != nil || len(rest) == 0 {
			return
		}
		n := min(len(rest), chunk)
		piece, rest = rest[:n], rest[n:]
	}
}

// read takes the response, while the request may still be on its way: an early
// refusal followed by a reset would otherwise be lost behind the write error.
func (x *exchange) read() {
	defer func() { x.ended = time.Now() }()
	limits := x.conn.target.Limits
	unsent := false
	res, interim, err := x.conn.responses.head(x.method, headerBytes(limits), func() {
		unsent = x.counter.entered.Load() < x.counter.total
	})
	x.interim = interim
	if err != nil {
		x.headErr = err
		x.settle() // a write that ends by itself tells more than one that was cut off
		return
	}
	x.clock.answer()
	x.early = unsent || !x.settle()
	if x.early && res.StatusCode >= http.StatusMultipleChoices {
		x.counter.sealed.Store(true) // refused: cease sending (RFC 9112, section 9.5)
	}
	x.reply = x.conn.responses.body(res, responseBytes(limits))
}

// settle gives a write call that is under way a moment to return, and says whether
// the whole request was taken.
func (x *exchange) settle() bool {
	wait := time.NewTimer(settling)
	defer wait.Stop()
	select {
	case <-x.done:
	case <-wait.C:
	}
	return x.counter.whole()
}

// reusable says that nothing of this exchange can be left on the connection, as
// far as its own framing tells.
func (x *exchange) reusable() bool {
	r := x.reply
	return canPeek && r != nil && r.keep && !r.openEnd && !r.truncated && r.bodyErr == nil &&
		!x.early && x.counter.whole() && !x.conn.target.Fresh && !x.clock.over()
}

// finish seals the counter and says whether the connection may be kept. If not it
// is ended: politely after a whole exchange, else with a reset.
func (x *exchange) finish() (t tally, keep bool) {
	c := x.conn
	if x.reusable() {
		<-x.done
		err := c.silent()
		if err == nil {
			return x.counter.seal(nil), true
		}
		if errors.Is(err, errPeerSpoke) {
			x.notes = append(x.notes, "the peer sent more than its response: the connection is not used again")
		}
	}
	if x.reply != nil && x.reply.bodyErr == nil && !x.reply.truncated && x.counter.whole() {
		return x.counter.seal(c.close), false
	}
	return x.counter.seal(c.wire.reset), false
}
