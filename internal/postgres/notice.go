package postgres

import (
	"log/slog"

	"github.com/jackc/pgx/v5/pgconn"
)

// logNotice logs what the server says beside its answers. One warning is an
// alarm: the wait for the synchronous standby was broken off, so a commit that
// was reported as done exists on one machine only.
func logNotice(log *slog.Logger, notice *pgconn.Notice) {
	if unreplicated(notice) {
		log.Error("a commit was not replicated: it is lost if this database server is",
			"sqlstate", notice.Code, "message", notice.Message, "detail", notice.Detail)
		return
	}
	log.Debug("notice from PostgreSQL",
		"severity", notice.SeverityUnlocalized, "sqlstate", notice.Code, "message", notice.Message)
}

// unreplicated goes by the place in the server that speaks: the text depends on
// its language, and other warnings share the code.
func unreplicated(notice *pgconn.Notice) bool {
	return notice.SeverityUnlocalized == "WARNING" && notice.Routine == "SyncRepWaitForLSN"
}
