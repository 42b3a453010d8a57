package commands

import "fmt"

// Refuse has this process accept nothing until Accept: what it accepted might be
// lost, for the given reason. Submissions get ErrUnavailable, and may be repeated.
func (s *Store) Refuse(reason error) { s.refusing.Store(&reason) }

// Accept ends what Refuse began.
func (s *Store) Accept() { s.refusing.Store(nil) }

// refused is why nothing is accepted, or nil.
func (s *Store) refused() error {
	if reason := s.refusing.Load(); reason != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, *reason)
	}
	return nil
}
