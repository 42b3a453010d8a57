package web

import "fmt"

// diffPage compares two versions of a profile.
type diffPage struct {
	Upstream string
	From, To int
	Newest   int
	Numbers  []int // of all versions, the newest first
	Diff     diff
}

func (s *Server) upstreamDiff(v *visit) error {
	versions, err := s.upstreams.Versions(v.r.Context(), v.tenant, v.param("name"))
	if err != nil {
		return err
	}
	p := &diffPage{Upstream: v.param("name"), Newest: versions[0].Version}
	for _, version := range versions {
		p.Numbers = append(p.Numbers, version.Version)
	}
	if p.To, err = versionOf(v.query("to"), p.Newest, p.Newest); err != nil {
		return err
	}
	if p.From, err = versionOf(v.query("from"), max(1, p.To-1), p.Newest); err != nil {
		return err
	}
	if p.Diff, err = s.compareVersions(v, p.Upstream, p.From, p.To); err != nil {
		return err
	}
	return v.render("upstream_diff.html", fmt.Sprintf("%s: version %d against %d", p.Upstream, p.To, p.From), p)
}

func (s *Server) compareVersions(v *visit, name string, from, to int) (diff, error) {
	was, err := s.upstreams.Source(v.r.Context(), v.tenant, name, from)
	if err != nil {
		return diff{}, err
	}
	is, err := s.upstreams.Source(v.r.Context(), v.tenant, name, to)
	return compareLines(was, is), err
}
