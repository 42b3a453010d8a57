package postgres

import (
	"errors"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"
)

// Refused says that the database found something wrong with what it was given, which
// no repeat will mend: by SQLSTATE a data exception, a constraint or a limit.
func Refused(err error) bool {
	const dataException, integrity, programLimit = "22", "23", "54"
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && slices.Contains([]string{dataException, integrity, programLimit}, pgErr.Code[:2])
}
