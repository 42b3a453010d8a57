package api

import (
	"context"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"executor/internal/audit"
)

// Audit is what the API asks of the log of what people did; an *AuditLog is one.
type Audit interface {
	List(ctx context.Context, f audit.Filter) (page []audit.Recorded, next string, err error)
	Verify(ctx context.Context, tenant string, pins ...audit.Pin) (audit.Report, error)
}

// AuditLog reads the audit from the database.
type AuditLog struct{ pool *pgxpool.Pool }

// NewAuditLog builds an AuditLog.
func NewAuditLog(pool *pgxpool.Pool) *AuditLog { return &AuditLog{pool} }

// List reads a page, newest first.
func (l *AuditLog) List(ctx context.Context, f audit.Filter) ([]audit.Recorded, string, error) {
	return audit.List(ctx, l.pool, f)
}

// Verify checks the chain of one tenant.
func (l *AuditLog) Verify(ctx context.Context, tenant string, pins ...audit.Pin) (audit.Report, error) {
	return audit.Verify(ctx, l.pool, tenant, pins...)
}

// ListAudit reads what people did.
func (s *Server) ListAudit(w http.ResponseWriter, r *http.Request) error {
	f := audit.Filter{Tenant: callOf(r).key.Tenant, Actor: param(r, "actor"), Action: param(r, "action"), Subject: param(r, "subject")}
	err := notEmpty(r, "actor", "action", "subject", "cursor")
	if err != nil {
		return err
	}
	if f.Command, err = queryID(r, "command"); err != nil {
		return err
	}
	if f.After, err = moment(r, "after"); err != nil {
		return err
	}
	if f.Before, err = moment(r, "before"); err != nil {
		return err
	}
	return s.answerAudit(w, r, f)
}

// ListCommandAudit reads what people did to one command.
func (s *Server) ListCommandAudit(w http.ResponseWriter, r *http.Request) error {
	id, err := commandID(r)
	if err != nil {
		return err
	}
	if err := notEmpty(r, "cursor"); err != nil {
		return err
	}
	tenant := callOf(r).key.Tenant
	if _, err := s.commands.Get(r.Context(), tenant, id); err != nil {
		return err
	}
	return s.answerAudit(w, r, audit.Filter{Tenant: tenant, Command: &id})
}

func (s *Server) answerAudit(w http.ResponseWriter, r *http.Request, f audit.Filter) (err error) {
	f.Cursor = param(r, "cursor")
	if f.Limit, err = number(r, "limit", 1, audit.MaxPage, 0); err != nil {
		return err
	}
	list, next, err := s.audit.List(r.Context(), f)
	if err != nil {
		return err
	}
	return write(w, http.StatusOK, "application/json", page(list, next, writeRecorded))
}

func writeRecorded(w *jsonWriter, e audit.Recorded) {
	w.begin('{')
	w.integer("number", e.Number)
	w.time("at", e.At)
	w.text("actor", e.Actor)
	w.text("action", e.Action)
	w.idOrNull("command_id", e.Command)
	w.optional("subject", e.Subject)
	w.optional("reason", e.Reason)
	w.optional("evidence_reference", e.EvidenceReference)
	w.rawOrNothing("before", e.Before)
	w.rawOrNothing("after", e.After)
	w.rawOrNothing("details", e.Details)
	w.text("previous_hash", hex.EncodeToString(e.PreviousHash))
	w.text("hash", hex.EncodeToString(e.Hash))
	w.end('}')
}

// longestCheck is how long the reading of a long audit may keep its caller waiting.
const longestCheck = 5 * time.Minute

// VerifyAudit checks the tenant's chain.
func (s *Server) VerifyAudit(w http.ResponseWriter, r *http.Request) error {
	tenant := callOf(r).key.Tenant
	var pins []audit.Pin
	if given(r, "pin") {
		pin, err := audit.ParsePin(tenant, param(r, "pin"))
		if err != nil {
			return badParameter("pin", sentence(err.Error()))
		}
		pins = append(pins, pin)
	}
	allowLater(w, r, longestCheck)
	report, err := s.audit.Verify(r.Context(), tenant, pins...)
	if err != nil {
		return err
	}
	answer := AuditVerification{Sound: report.Sound()}
	for _, chain := range report.Chains { // of the one tenant
		answer.Entries = chain.Entries
		if chain.Head.Number > 0 {
			answer.Head = textOrNull(chain.Head.String())
		}
		if p := chain.Problem; p != nil {
			answer.Problem = &AuditProblem{Number: p.Number, Kind: AuditProblemKind(p.Kind), Detail: p.Detail}
		}
	}
	return writeJSON(w, http.StatusOK, "application/json", answer)
}
