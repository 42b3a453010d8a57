package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"
)

// Problems that callers tell apart, for errors.Is. The *Problem itself says more.
var (
	ErrUnauthorized = errors.New("no API key, or one that is unknown or revoked") // 401
	ErrForbidden    = errors.New("the API key lacks a scope")                     // 403
	ErrNotFound     = errors.New("there is nothing by that name")                 // 404
	ErrConflict     = errors.New("the state does not allow it")                   // 409
	ErrStale        = errors.New("the command has changed since that version")    // 412
	ErrInvalid      = errors.New("the request can never be accepted as it is")    // 400, 413, 415, 422, and *Invalid
	ErrKeyReused    = errors.New("the key belongs to another request")            // 422 idempotency_key_reused
	ErrUnavailable  = errors.New("the service is away for now")                   // 502, 503, 504
)

// Problem is a refusal (RFC 9457). Where something else than the service answered,
// such as a proxy, Code is empty and only Status is to be relied on.
type Problem struct {
	Type      string       `json:"type"`
	Title     string       `json:"title"`
	Status    int          `json:"status"`
	Detail    string       `json:"detail"`
	Code      string       `json:"code"` // for programs
	RequestID string       `json:"request_id"`
	Errors    []FieldError `json:"errors"`
	CommandID string       `json:"command_id"` // with idempotency_key_reused: whose key it is
	// CurrentVersion comes with precondition_failed: the version that the command has
	// now.
	CurrentVersion int `json:"current_version"`
	Count          int `json:"count"` // with count_differs and too_many: how many commands the filter selects now

	retryAfter time.Duration // negative: not stated
}

// FieldError is one place that is wrong. One of Pointer (into the body), Parameter
// and Header names it; in a profile it is Line and Column.
type FieldError struct {
	Pointer   string `json:"pointer"`
	Parameter string `json:"parameter"`
	Header    string `json:"header"`
	Line      int    `json:"line"`
	Column    int    `json:"column"`
	Code      string `json:"code"`
	Detail    string `json:"detail"`
}

func (p *Problem) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d", p.Status)
	if p.Code != "" {
		b.WriteString(" " + p.Code)
	}
	if text := p.Detail; text != "" {
		b.WriteString(": " + text)
	} else {
		b.WriteString(": " + p.Title)
	}
	for _, e := range p.Errors {
		b.WriteString("\n  " + e.String())
	}
	if p.RequestID != "" {
		b.WriteString(" (request " + p.RequestID + ")")
	}
	return b.String()
}

// String says where and what.
func (e FieldError) String() string {
	where := e.Pointer + e.Parameter
	if e.Header != "" {
		where = "header " + e.Header
	}
	if e.Line > 0 {
		where = strings.TrimPrefix(fmt.Sprintf("%s %d:%d", where, e.Line, e.Column), " ")
	}
	if where == "" {
		return e.Detail
	}
	return where + ": " + e.Detail
}

// Is makes errors.Is work with the Err variables.
func (p *Problem) Is(target error) bool {
	switch target {
	case ErrUnauthorized:
		return p.Status == http.StatusUnauthorized
	case ErrForbidden:
		return p.Status == http.StatusForbidden
	case ErrNotFound: // a proxy's 404 says nothing of our commands
		return p.Status == http.StatusNotFound && p.Code != ""
	case ErrConflict:
		return p.Status == http.StatusConflict
	case ErrStale:
		return p.Status == http.StatusPreconditionFailed
	case ErrKeyReused:
		return p.Code == "idempotency_key_reused"
	case ErrInvalid:
		return p.Status == http.StatusBadRequest || p.Status == http.StatusRequestEntityTooLarge ||
			p.Status == http.StatusUnsupportedMediaType || p.Status == http.StatusUnprocessableEntity
	case ErrUnavailable:
		return p.passing()
	default:
		return false
	}
}

// passing says whether the same request may find the service again.
func (p *Problem) passing() bool {
	return p.Status == http.StatusBadGateway || p.Status == http.StatusServiceUnavailable || p.Status == http.StatusGatewayTimeout
}

// problemOf reads an answer that is no success.
func problemOf(res *http.Response, body []byte) *Problem {
	p := &Problem{}
	media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if media != "application/problem+json" || json.Unmarshal(body, p) != nil {
		p = &Problem{Title: http.StatusText(res.StatusCode), Detail: fmt.Sprintf("answered %s, not a problem of this API; is the URL right, or is a proxy between?", orUntyped(media))}
	}
	p.Status = res.StatusCode
	if p.RequestID == "" {
		p.RequestID = res.Header.Get("X-Request-Id")
	}
	p.retryAfter = retryAfter(res.Header.Get("Retry-After"), time.Now())
	return p
}

func orUntyped(media string) string {
	if media == "" {
		return "without a content type"
	}
	return media
}

// Invalid is a call that was not made, since the service could never accept it.
// errors.Is finds ErrInvalid in it, as in the service's own refusal.
type Invalid struct {
	Field  string // of what was given, such as Key of a Submission; empty for the id or the name in a call's path
	Detail string
}

func (i *Invalid) Error() string { return i.Detail }

// Is makes errors.Is work with ErrInvalid.
func (i *Invalid) Is(target error) bool { return target == ErrInvalid }

// errForeign: what answered speaks JSON, but is not this service.
var errForeign = errors.New("the answer is not one of executor's: does the URL lead to another service?")

// Unconfirmed says that a submit may or may not have been accepted. Submitting
// the same again under Key is safe, at any time.
type Unconfirmed struct {
	Key string // in a batch: of the first item
	Err error  // what happened last
}

func (u *Unconfirmed) Error() string {
	return fmt.Sprintf("not known whether the command with key %q was accepted; submit it again with the same key: %v", u.Key, u.Err)
}

func (u *Unconfirmed) Unwrap() error { return u.Err }

// Unanswered says that something was asked for that is not repeated by itself, and
// that it is not known whether the service did it. Look before doing it again.
type Unanswered struct {
	Err error // what happened
}

func (u *Unanswered) Error() string {
	return fmt.Sprintf("not known whether it was done; look before doing it again: %v", u.Err)
}

func (u *Unanswered) Unwrap() error { return u.Err }

// unanswered keeps a certain refusal as it is.
func unanswered(err error) error {
	var u errUncertain
	if errors.As(err, &u) {
		return &Unanswered{u.error}
	}
	return err
}
