// Package seats bounds how much of something may be open at once: for one person,
// key or tenant, and for all of a process together.
package seats

import "sync"

// Seats is safe for concurrent use.
type Seats struct {
	each, all int

	mu    sync.Mutex
	taken map[string]int
	sum   int
}

// New has so many seats in all, of which each may take so many.
func New(each, all int) *Seats { return &Seats{each: each, all: all, taken: make(map[string]int)} }

// Take takes a seat for who. leave gives it back, and has to be called once; ok is
// false where there is none.
func (s *Seats) Take(who string) (leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sum >= s.all || s.taken[who] >= s.each {
		return nil, false
	}
	s.sum++
	s.taken[who]++
	return func() { s.leave(who) }, true
}

func (s *Seats) leave(who string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sum--
	if s.taken[who]--; s.taken[who] == 0 {
		delete(s.taken, who)
	}
}

// Taken is how many seats are taken.
func (s *Seats) Taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sum
}
