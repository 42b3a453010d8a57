package operators

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// ErrSignIn: no such name, the wrong password, disabled, or without any role; which
// of them is not told.
var ErrSignIn = errors.New("the name or the password is wrong")

// SignIn finds the operator of a name and a password. address is where the request
// came from; "" where that is not known. Errors are ErrSignIn, which takes as long
// whatever the cause, a *WaitError, which comes before the password is looked at,
// and those of the database.
//
// It serves as well where a person who is signed in has to give their password.
func (s *Store) SignIn(ctx context.Context, name, password, address string) (Operator, error) {
	select {
	case s.crowd <- struct{}{}:
		defer func() { <-s.crowd }()
	default:
		return Operator{}, &WaitError{Wait: crowdWait}
	}
	tallies, err := s.count(ctx, name, address)
	if err != nil {
		return Operator{}, err
	}
	c, err := s.candidate(ctx, name)
	if err != nil {
		return Operator{}, err
	}
	ok, outdated, err := s.hasher.matches(ctx, password, c.PasswordHash)
	if err != nil {
		return Operator{}, err
	}
	if !ok || !c.Enabled {
		return Operator{}, ErrSignIn
	}
	again := ""
	if outdated {
		if again, err = s.hasher.hash(ctx, password); err != nil {
			return Operator{}, err
		}
	}
	return s.admit(ctx, c, again, tallies)
}

// candidate is who a sign-in may be.
type candidate struct {
	ID           uuid.UUID
	PasswordHash *string
	Epoch        int
	Enabled      bool // and has a role somewhere
}

// candidate reads the operator of a name; nobody, for an unknown one.
func (s *Store) candidate(ctx context.Context, name string) (candidate, error) {
	rows, _ := s.pool.Query(ctx, `
		SELECT o.id, o.password_hash, o.epoch, `+mayEnter+` AS enabled
		FROM operators o WHERE `+byName, printable(name))
	c, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[candidate])
	if errors.Is(err, pgx.ErrNoRows) {
		return candidate{}, nil
	}
	if err != nil {
		return candidate{}, fmt.Errorf("read operator: %w", err)
	}
	return c, nil
}

// mayEnter is true of an operator o who is enabled and has a role.
const mayEnter = `(o.disabled_at IS NULL AND EXISTS (SELECT FROM operator_roles r WHERE r.operator_id = o.id))`

// admit lets a candidate in whose rights are still those that the password was
// compared with.
func (s *Store) admit(ctx context.Context, c candidate, again string, tallies []tally) (Operator, error) {
	var o Operator
	err := s.commit(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		o, err = readOne(ctx, tx, `o.id = $1 AND o.epoch = $2 AND `+mayEnter, c.ID, c.Epoch)
		if errors.Is(err, ErrUnknown) {
			return ErrSignIn
		}
		if err != nil {
			return err
		}
		if err := rehash(ctx, tx, c, again); err != nil {
			return err
		}
		return takeBack(ctx, tx, tallies) // after the operator's row, as SetPassword locks them
	})
	if err != nil {
		return Operator{}, err
	}
	return o, nil
}

// rehash stores the hash of the same password with today's parameters, if there is one.
func rehash(ctx context.Context, tx pgx.Tx, c candidate, hash string) error {
	if hash == "" {
		return nil
	}
	_, err := tx.Exec(ctx, `UPDATE operators SET password_hash = $2 WHERE id = $1 AND password_hash = $3`, c.ID, hash, c.PasswordHash)
	if err != nil {
		return fmt.Errorf("hash the password of operator %s anew: %w", c.ID, err)
	}
	return nil
}
