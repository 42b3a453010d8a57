package api

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"executor/internal/audit"
	"executor/upstreams"
)

const yamlType = "application/yaml"

// ListUpstreams reads the tenant's upstreams.
func (s *Server) ListUpstreams(w http.ResponseWriter, r *http.Request) error {
	list, err := s.upstreams.List(r.Context(), callOf(r).key.Tenant)
	if err != nil {
		return err
	}
	answer := UpstreamList{Data: make([]Upstream, len(list))}
	for i, u := range list {
		answer.Data[i] = upstreamSummary(u)
	}
	return writeJSON(w, http.StatusOK, "application/json", answer)
}

// GetUpstream reads one upstream, or its profile alone.
func (s *Server) GetUpstream(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Vary", "Accept")
	u, err := s.namedUpstream(r)
	if err != nil {
		return err
	}
	if accepts(r, yamlType) {
		return write(w, http.StatusOK, yamlType, u.Profile.Source)
	}
	return writeJSON(w, http.StatusOK, "application/json", upstreamView(u))
}

// ExplainUpstream shows what each kind of failure would end in.
func (s *Server) ExplainUpstream(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Vary", "Accept")
	u, err := s.namedUpstream(r)
	if err != nil {
		return err
	}
	matrix := u.Profile.Explain()
	if !accepts(r, "text/plain") {
		return writeJSON(w, http.StatusOK, "application/json", matrix)
	}
	var b bytes.Buffer
	if _, err := matrix.WriteTo(&b); err != nil {
		return fmt.Errorf("write matrix: %w", err)
	}
	return write(w, http.StatusOK, "text/plain; charset=utf-8", b.Bytes())
}

func (s *Server) namedUpstream(r *http.Request) (upstreams.Upstream, error) {
	name, err := upstreamName(r)
	if err != nil {
		return upstreams.Upstream{}, err
	}
	return s.upstreams.Get(r.Context(), callOf(r).key.Tenant, name)
}

// appliedUpstream is an upstream and whether applying made a new version.
type appliedUpstream struct {
	Upstream
	Changed bool `json:"changed"`
}

// ApplyUpstream applies a profile. JSON is YAML and is read as such.
func (s *Server) ApplyUpstream(w http.ResponseWriter, r *http.Request) error {
	name, err := upstreamName(r)
	if err != nil {
		return err
	}
	reason, err := reasonParam(r)
	if err != nil {
		return err
	}
	src, err := readBody(w, r, s.submitBytes, yamlType, "application/json", "application/x-yaml", "text/yaml")
	if err != nil {
		return err
	}
	caller := callOf(r).key
	profile, err := parseProfile(src, caller.Tenant, name)
	if err != nil {
		return err
	}
	u, changed, err := s.upstreams.Apply(r.Context(), profile, audit.By{Actor: caller.Name, Reason: reason})
	var elsewhere *upstreams.CredentialError
	if errors.As(err, &elsewhere) {
		return invalidProfile(&elsewhere.ParseError)
	}
	if err != nil {
		return err
	}
	status := http.StatusOK
	if changed && u.Version == 1 {
		status = http.StatusCreated
		w.Header().Set("Location", "/v1/upstreams/"+u.Name)
	}
	return writeJSON(w, status, "application/json", appliedUpstream{Upstream: upstreamView(u), Changed: changed})
}

// reasonParam is the reason of a call whose body is something else.
func reasonParam(r *http.Request) (string, error) {
	reason := param(r, "reason")
	if given(r, "reason") && (len(callOf(r).query["reason"]) > 1 || strings.TrimSpace(reason) == "" || utf8.RuneCountInString(reason) > maxReason) {
		return "", badParameter("reason", fmt.Sprintf("The parameter reason is one text of up to %d characters.", maxReason))
	}
	return reason, nil
}

// parseProfile checks a profile that is to be applied under a name of a tenant.
func parseProfile(src []byte, tenant, name string) (*upstreams.Profile, error) {
	if !utf8.Valid(src) || bytes.IndexByte(src, 0) >= 0 {
		return nil, &failure{code: ProblemCodeMalformedBody, detail: "A profile is text in UTF-8 without NUL characters."}
	}
	profile, err := upstreams.Parse(name+".yaml", src)
	var bad *upstreams.ParseError
	if errors.As(err, &bad) {
		return nil, invalidProfile(bad)
	}
	if err != nil {
		return nil, err
	}
	var fields []FieldProblem
	if profile.Upstream != name {
		fields = append(fields, FieldProblem{Pointer: "/upstream", Code: "mismatch",
			Detail: fmt.Sprintf("The profile is of %q, the path says %q.", profile.Upstream, name)})
	}
	if profile.Tenant != tenant {
		fields = append(fields, FieldProblem{Pointer: "/tenant", Code: "mismatch",
			Detail: fmt.Sprintf("The profile is for the tenant %q, the API key belongs to %q. Write tenant: %s.", profile.Tenant, tenant, tenant)})
	}
	if len(fields) > 0 {
		return nil, &failure{code: ProblemCodeInvalidProfile, detail: fields[0].Detail, fields: fields}
	}
	return profile, nil
}

func invalidProfile(bad *upstreams.ParseError) error {
	fields := make([]FieldProblem, len(bad.Problems))
	for i, p := range bad.Problems {
		detail := p.Message
		if p.Path != "" {
			detail = p.Path + ": " + detail
		}
		if p.Help != "" {
			detail += " " + p.Help
		}
		fields[i] = FieldProblem{Line: p.Line, Column: p.Column, Code: "profile", Detail: detail}
	}
	return &failure{code: ProblemCodeInvalidProfile, detail: bad.Error(), fields: fields}
}

// PauseUpstream starts no further attempt at an upstream.
func (s *Server) PauseUpstream(w http.ResponseWriter, r *http.Request) error {
	name, err := upstreamName(r)
	if err != nil {
		return err
	}
	reason, err := s.readReason(w, r)
	if err != nil {
		return err
	}
	caller := callOf(r).key
	u, err := s.upstreams.Pause(r.Context(), caller.Tenant, name, audit.By{Actor: caller.Name, Reason: reason})
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, "application/json", upstreamView(u))
}

// ResumeUpstream sends to an upstream again.
func (s *Server) ResumeUpstream(w http.ResponseWriter, r *http.Request) error {
	name, err := upstreamName(r)
	if err != nil {
		return err
	}
	reason, err := s.mayReason(w, r)
	if err != nil {
		return err
	}
	caller := callOf(r).key
	u, err := s.upstreams.Resume(r.Context(), caller.Tenant, name, audit.By{Actor: caller.Name, Reason: reason})
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, "application/json", upstreamView(u))
}

// upstreamSummary is an upstream as lists show it.
func upstreamSummary(u upstreams.Upstream) Upstream {
	v := Upstream{
		Name: u.Name, Tenant: u.Tenant, Version: u.Version, Description: u.Profile.Description, BaseURL: u.Profile.Base.String(),
		Operations: slices.Sorted(maps.Keys(u.Profile.Operations)), ThrottledUntil: stillToCome(u.ThrottledUntil),
		BudgetTokens: u.BudgetTokens, CreatedAt: u.CreatedAt.UTC(), UpdatedAt: u.UpdatedAt.UTC(),
	}
	if u.PausedAt != nil {
		v.Paused = &Pause{At: u.PausedAt.UTC(), By: u.PausedBy, Reason: u.PausedReason}
	}
	return v
}

// stillToCome is a moment that is not over, else null.
func stillToCome(at *time.Time) *time.Time {
	if at == nil || !at.After(time.Now()) {
		return nil
	}
	return utc(at)
}

// upstreamView adds the profile's text and what is doubtful about it.
func upstreamView(u upstreams.Upstream) Upstream {
	v := upstreamSummary(u)
	v.Profile = string(u.Profile.Source)
	v.Warnings = make([]Warning, len(u.Profile.Warnings))
	for i, warning := range u.Profile.Warnings {
		v.Warnings[i] = Warning{
			Code: warning.Code, Line: warning.Line, Column: warning.Column, Path: warning.Path, Detail: warning.Message,
		}
	}
	return v
}
