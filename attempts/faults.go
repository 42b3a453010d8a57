package attempts

import "github.com/google/uuid"

// faults are the moments of an attempt at which tests strike. Outside of tests
// there are none.
type faults struct {
	begun func(uuid.UUID) // its open row is committed, nothing is sent
	seen  func(uuid.UUID) // the exchange is over, nothing of it is recorded
}

func strike(at func(uuid.UUID), id uuid.UUID) {
	if at != nil {
		at(id)
	}
}
