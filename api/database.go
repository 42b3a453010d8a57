package api

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"executor/internal/groupcommit"
)

// databaseAway reports whether an error means that the database could not be
// asked, as against one that it answered with.
func databaseAway(err error) bool {
	var (
		answered *pgconn.PgError
		connect  *pgconn.ConnectError
		network  net.Error
	)
	if errors.Is(err, groupcommit.ErrUnknown) {
		return true
	}
	if errors.As(err, &connect) { // also one that the server turned down
		return true
	}
	if errors.As(err, &answered) {
		return unavailableState(answered.Code)
	}
	return errors.As(err, &network) || pgconn.SafeToRetry(err) || pgconn.Timeout(err) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.DeadlineExceeded)
}

// unavailableState tells the SQLSTATEs that pass by themselves: connection
// trouble, too few resources, a server that is stopping, starting or a standby, a
// statement that took too long.
func unavailableState(code string) bool {
	for _, class := range []string{"08", "53", "57P", "57014", "25006"} {
		if strings.HasPrefix(code, class) {
			return true
		}
	}
	return false
}
