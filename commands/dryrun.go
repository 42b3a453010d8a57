package commands

import (
	"context"
	"errors"
	"time"

	"executor/upstreams"
)

// DryRun shows what a submission would send, and accepts nothing.
func (s *Store) DryRun(ctx context.Context, sub Submission) (Preview, error) {
	e, err := s.prepare(ctx, sub)
	if err != nil {
		return Preview{}, err
	}
	p := Preview{
		Method: e.request.Method, URL: requestURL(e.upstream.Profile, e.request.Path), Headers: e.request.Headers,
		Body: e.request.Body, Files: e.request.Files, BodyKind: sub.bodyKind(), ContentType: e.request.ContentType, ProfileVersion: e.upstream.Version, Identity: e.request.Identity,
	}
	if e.deadline != nil {
		p.Deadline = *e.deadline
	} else {
		p.Deadline = later(time.Now(), sub.NotBefore).Add(e.timeout)
	}
	id, hashes, err := s.boundTo(ctx, sub.Tenant, sub.Key)
	switch {
	case errors.Is(err, ErrNotFound):
		return p, nil
	case err != nil:
		return Preview{}, err
	}
	if mismatch := s.mismatch(id, hashes, sub); mismatch != nil {
		return Preview{}, mismatch
	}
	c, err := s.Get(ctx, sub.Tenant, id)
	p.Existing = &c
	return p, err
}

func later(t time.Time, other *time.Time) time.Time {
	if other != nil && other.After(t) {
		return *other
	}
	return t
}

// requestURL shows an absolute URL for people; the wire uses its parts.
func requestURL(p *upstreams.Profile, path string) string {
	return p.Base.Scheme + "://" + p.Base.Host + path
}
