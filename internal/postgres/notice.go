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

// unreplicated goes by severity and code: the text depends on the server's
// language. The server sends these codes as a warning in this one case only.
func unreplicated(notice *pgconn.Notice) bool {
	const queryCanceled, adminShutdown = "57014", "57P01"
	return notice.SeverityUnlocalized == "WARNING" && (notice.Code == queryCanceled || notice.Code == adminShutdown)
}
