package postgres

import (
	"log/slog"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"
)

// Watch hears what servers say beside their answers. One warning is an alarm:
// the wait for the synchronous standby was broken off, so a commit that is
// reported as done exists on one machine only.
type Watch struct {
	log          *slog.Logger
	unreplicated atomic.Int64
}

// NewWatch makes a Watch with the log that alarms go to.
func NewWatch(log *slog.Logger) *Watch { return &Watch{log: log} }

// Unreplicated counts the commits whose replication was not waited for to its end.
func (w *Watch) Unreplicated() int64 { return w.unreplicated.Load() }

// hear is called within the answer to a statement, by whoever reads it.
func (w *Watch) hear(conn *pgconn.PgConn, notice *pgconn.Notice) {
	if !unreplicated(notice) {
		w.log.Debug("notice from PostgreSQL",
			"severity", notice.SeverityUnlocalized, "sqlstate", notice.Code, "message", notice.Message)
		return
	}
	w.unreplicated.Add(1)
	conn.CustomData()[unreplicatedKey] = Unreplicated(conn) + 1
	w.log.Error("a commit was not replicated: it is lost if this database server is",
		"sqlstate", notice.Code, "message", notice.Message, "detail", notice.Detail)
}

// unreplicated goes by the place in the server that speaks: the text depends on
// its language, and other warnings share the code.
func unreplicated(notice *pgconn.Notice) bool {
	return notice.SeverityUnlocalized == "WARNING" && notice.Routine == "SyncRepWaitForLSN"
}

const unreplicatedKey = "executor unreplicated commits"

// Unreplicated counts the commits of one connection that were not replicated, for
// whoever holds the connection. One more after a COMMIT means that its success holds
// for this server only.
func Unreplicated(conn *pgconn.PgConn) int {
	n, _ := conn.CustomData()[unreplicatedKey].(int)
	return n
}
