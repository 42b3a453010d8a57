package simulator

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
	"time"
)

// Receiver is where notices go and how they are signed.
type Receiver struct {
	URL     string   `json:"url"`                        // loopback only
	Scheme  string   `json:"scheme"`                     // standard-webhooks (default), hmac-sha256 or none
	Header  string   `json:"header,omitempty"`           // of hmac-sha256; Sim-Signature
	TimeIn  string   `json:"timestamp_header,omitempty"` // of hmac-sha256: the time stands here, and the bare signature in Header
	Secret  string   `json:"secret,omitempty"`           // standard-webhooks takes whsec_… or the bare base64
	Secrets []string `json:"secrets,omitempty"`          // more of them: one signature each
}

// Notice asks for a message about a payment, as upstreams send them.
type Notice struct {
	Receiver                        // what is left out is that of PUT /_notices
	Payment         string          `json:"payment"`         // its id, key or client_reference; it need not exist
	ID              string          `json:"id"`              // of the event; a new one
	States          []string        `json:"states"`          // one event each, in this order; the payment's own
	Body            json.RawMessage `json:"body"`            // instead of the event
	Copies          int             `json:"copies"`          // of each event; 1
	AtOnce          bool            `json:"at_once"`         // all of them together instead of one after the other
	After           string          `json:"after"`           // a duration
	Shift           string          `json:"shift"`           // of the timestamp, such as -10m
	WrongSignature  bool            `json:"wrong_signature"` // signed with another secret
	after, shiftFor time.Duration
}

// SentNotice is what became of a notice.
type SentNotice struct {
	Number int64     `json:"number"`
	Time   time.Time `json:"time"`
	ID     string    `json:"id"`
	URL    string    `json:"url"`
	Body   Body      `json:"body"`
	Status int       `json:"status"` // 0: no answer
	Error  string    `json:"error,omitempty"`
}

// event is the body of a notice.
type event struct {
	ID        string    `json:"id"`
	Type      string    `json:"type"`
	CreatedAt time.Time `json:"created_at"`
	Data      eventData `json:"data"`
}

type eventData struct {
	payment
	Key string `json:"idempotency_key"`
}

// SetReceiver says where the step `notice` sends to, and what notices take that
// leave something out.
func (s *Simulator) SetReceiver(r Receiver) error {
	r, err := r.complete(Receiver{})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.receiver = r
	return nil
}

// complete fills in what is left out and checks the rest.
func (r Receiver) complete(from Receiver) (Receiver, error) {
	r.URL, r.Scheme = cmp.Or(r.URL, from.URL), cmp.Or(r.Scheme, from.Scheme, schemeStandard)
	r.Header, r.TimeIn = cmp.Or(r.Header, from.Header, "Sim-Signature"), cmp.Or(r.TimeIn, from.TimeIn)
	if r.Secret == "" && len(r.Secrets) == 0 {
		r.Secret, r.Secrets = from.Secret, from.Secrets
	}
	if err := oneOf(r.Scheme, schemeStandard, schemeHMAC, schemeNone); err != nil {
		return r, fmt.Errorf("scheme: %w", err)
	}
	if r.Scheme != schemeNone && r.Secret == "" && len(r.Secrets) == 0 {
		return r, errors.New("no secret to sign with; set secret, or the scheme none")
	}
	return r, checkLoopback(r.URL)
}

// checkLoopback keeps the simulator from sending anything to anybody else.
func checkLoopback(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("url %q is not an http address", text)
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if u.Hostname() != "localhost" && (err != nil || !ip.IsLoopback()) {
		return fmt.Errorf("url %q is not on loopback; the simulator sends nowhere else", text)
	}
	return nil
}

// Notify sends notices in the background and returns the ids of their events.
func (s *Simulator) Notify(n Notice) ([]string, error) {
	s.mu.Lock()
	receiver := s.receiver
	s.mu.Unlock()
	var err error
	if n.Receiver, err = n.complete(receiver); err != nil {
		return nil, err
	}
	if n.after, err = time.ParseDuration(cmp.Or(n.After, "0s")); err != nil {
		return nil, fmt.Errorf("after %q is not a duration", n.After)
	}
	if n.shiftFor, err = time.ParseDuration(cmp.Or(n.Shift, "0s")); err != nil {
		return nil, fmt.Errorf("shift %q is not a duration", n.Shift)
	}
	if n.Copies < 0 || n.Copies > 1000 || len(n.States) > 1000 {
		return nil, errors.New("more than 1000 copies or states")
	}
	return s.schedule(n)
}

// notifyLater is the step `notice`. The lock is held.
func (s *Simulator) notifyLater(after time.Duration, p *payment) {
	s.later(after, func() {
		r, err := s.receiver.complete(Receiver{})
		if err != nil {
			s.addNotice(&SentNotice{Time: time.Now(), Error: err.Error()})
			return
		}
		s.background(Notice{Receiver: r}, []message{s.eventOf(Notice{}, p, "")})
	})
}

// message is one event as it goes out.
type message struct {
	id   string
	body []byte
}

// schedule makes the events when they are due, of the payment as it is then; only
// their ids are known at once.
func (s *Simulator) schedule(n Notice) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	states := n.States
	if len(states) == 0 {
		states = []string{""}
	}
	ids := make([]string, len(states))
	for i := range states {
		ids[i] = s.eventID(n, i)
	}
	due := func() {
		var messages []message
		for i, state := range states {
			named := n
			named.ID = ids[i]
			m := s.eventOf(named, s.paymentNamed(n.Payment), state)
			messages = append(messages, slices.Repeat([]message{m}, max(n.Copies, 1))...)
		}
		s.background(n, messages)
	}
	if n.after > 0 {
		s.later(n.after, due)
	} else {
		due()
	}
	return ids, nil
}

func (s *Simulator) eventID(n Notice, i int) string {
	switch {
	case n.ID != "" && i == 0:
		return n.ID
	case n.ID != "":
		return fmt.Sprintf("%s_%d", n.ID, i+1)
	default:
		s.ids++
		return fmt.Sprintf("evt_%d", s.ids)
	}
}

// paymentNamed finds a payment, or invents one that nobody asked for.
func (s *Simulator) paymentNamed(name string) *payment {
	for p := range s.payments.newest {
		if name != "" && matches(name, p.ID, p.key, p.Reference) {
			return p
		}
	}
	return &payment{Object: "payment", State: "done", Reference: name, CreatedAt: time.Now().UTC(), key: name}
}

// eventOf is the notice's event. The lock is held.
func (s *Simulator) eventOf(n Notice, p *payment, state string) message {
	id := s.eventID(n, 0)
	if len(n.Body) > 0 {
		return message{id, n.Body}
	}
	data := eventData{*p, p.key}
	data.State = cmp.Or(state, data.State)
	body, err := json.Marshal(event{ID: id, Type: data.Object + "." + data.State, CreatedAt: time.Now().UTC(), Data: data})
	if err != nil {
		body = []byte("null")
	}
	return message{id, body}
}

// background sends what stops with the simulator. The lock is held.
func (s *Simulator) background(n Notice, messages []message) {
	if !n.AtOnce {
		s.all.Go(func() {
			for _, m := range messages {
				s.deliver(n, m)
			}
		})
		return
	}
	for _, m := range messages {
		s.all.Go(func() { s.deliver(n, m) })
	}
}

// deliver posts one notice and enters what became of it.
func (s *Simulator) deliver(n Notice, m message) {
	sent := &SentNotice{Time: time.Now(), ID: m.id, URL: n.URL, Body: m.body}
	var err error
	if sent.Status, err = s.post(n, m); err != nil {
		sent.Error = err.Error()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addNotice(sent)
}

func (s *Simulator) addNotice(sent *SentNotice) {
	s.ledger.numbers++
	sent.Number = s.ledger.numbers
	s.ledger.notices = remember(s.ledger, s.ledger.notices, sent)
}

func (s *Simulator) post(n Notice, m message) (status int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	go func() { // ends with either
		select {
		case <-s.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.URL, bytes.NewReader(m.body))
	if err != nil {
		return 0, err
	}
	sign := signature{scheme: n.Scheme, header: n.Header, timeIn: n.TimeIn, secrets: n.secrets(), at: time.Now().Add(n.shiftFor), wrong: n.WrongSignature}
	req.Header = sign.headers(m.id, m.body)
	req.Header.Set("Content-Type", "application/json")
	res, err := loopbackClient().Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	return res.StatusCode, nil
}

func (r Receiver) secrets() []string {
	if r.Secret == "" {
		return r.Secrets
	}
	return append([]string{r.Secret}, r.Secrets...)
}

// loopbackClient dials nothing but loopback, whatever a name resolves to.
func loopbackClient() *http.Client {
	dialer := &net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
		if at, err := netip.ParseAddrPort(address); err != nil || !at.Addr().IsLoopback() {
			return fmt.Errorf("%s is not on loopback", address)
		}
		return nil
	}}
	return &http.Client{
		Transport:     &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Notices returns what was sent, oldest first.
func (s *Simulator) Notices() []SentNotice {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]SentNotice, len(s.ledger.notices))
	for i, n := range s.ledger.notices {
		list[i] = *n
	}
	return list
}

func (s *Simulator) putReceiver(body []byte) answer {
	var r Receiver
	if err := json.Unmarshal(body, &r); err != nil {
		return problem(http.StatusBadRequest, "malformed", `The body must be an object such as {"url": "http://127.0.0.1:8080/v1/notices/ledger", "secret": "whsec_…"}.`)
	}
	if err := s.SetReceiver(r); err != nil {
		return problem(http.StatusBadRequest, "invalid_receiver", err.Error())
	}
	return jsonAnswer(http.StatusOK, map[string]string{"url": r.URL, "scheme": cmp.Or(r.Scheme, schemeStandard)})
}

func (s *Simulator) postNotice(body []byte) answer {
	var n Notice
	if err := json.Unmarshal(body, &n); err != nil {
		return problem(http.StatusBadRequest, "malformed", `The body must be an object such as {"payment": "pay_1", "copies": 2}: `+err.Error())
	}
	ids, err := s.Notify(n)
	if err != nil {
		return problem(http.StatusBadRequest, "invalid_notice", err.Error())
	}
	return jsonAnswer(http.StatusAccepted, map[string]any{"ids": ids})
}
