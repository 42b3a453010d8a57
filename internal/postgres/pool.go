// Package postgres opens the database: a pool with the settings that the
// product rests on, and a server of its own for development and tests.
package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	pgxuuid "github.com/vgarvardt/pgx-google-uuid/v5"
)

// MinVersion is the oldest PostgreSQL that is supported, as its
// server_version_num.
const MinVersion = 15_00_00

// sessionDefaults are settings of every session. What the URL sets goes first.
var sessionDefaults = map[string]string{
	"application_name": "executor",
	"timezone":         "UTC",
	// Above the longest deadline of our own: a statement that runs longer has
	// lost its caller.
	"statement_timeout": "60s",
	// A process that stands still in the middle of a transaction keeps its row
	// locks; those who take over its work must not wait for them for long.
	"idle_in_transaction_session_timeout": "10s",
}

// Open connects to the database and checks that it can be used. The URL may name
// several hosts; the pool then follows whichever accepts writes. maxConns of 0
// leaves the size to the URL (pool_max_conns) or to pgx. Errors say what to do
// and never contain the password.
func Open(ctx context.Context, url string, maxConns int) (*pgxpool.Pool, error) {
	return OpenWatched(ctx, url, maxConns, NewWatch(slog.Default()))
}

// OpenWatched is Open with somebody who hears the server's alarms.
func OpenWatched(ctx context.Context, url string, maxConns int, watch *Watch) (*pgxpool.Pool, error) {
	config, err := parse(url)
	if err != nil {
		return nil, err
	}
	if maxConns > 0 {
		config.MaxConns = int32(min(maxConns, 10_000))
		config.MinConns = min(config.MinConns, config.MaxConns)
	}
	config.ConnConfig.OnNotice = watch.hear
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, connectError(config, err)
	}
	if err := check(ctx, pool); err != nil {
		pool.Close()
		return nil, connectError(config, err)
	}
	return pool, nil
}

func parse(url string) (*pgxpool.Config, error) {
	if strings.TrimSpace(url) == "" {
		return nil, errors.New("no database URL is given: set it like postgres://USER:PASSWORD@HOST:5432/DATABASE")
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, parseError(err)
	}
	for name, value := range sessionDefaults {
		if _, given := config.ConnConfig.RuntimeParams[name]; !given {
			config.ConnConfig.RuntimeParams[name] = value
		}
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = 5 * time.Second // for each host
	}
	if config.ConnConfig.ValidateConnect == nil { // the URL names no target_session_attrs
		config.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	// A server whose machine is gone answers nothing: notice it within half a minute.
	config.ConnConfig.DialFunc = (&net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3,
	}}).DialContext
	config.MaxConnLifetimeJitter = config.MaxConnLifetime / 10
	config.PingTimeout = 5 * time.Second
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		registerUTC(conn.TypeMap())
		pgxuuid.Register(conn.TypeMap()) // ids travel as 16 bytes, not as text
		return errors.Join(keepCommits(ctx, conn), noticeGone(ctx, conn))
	}
	return config, nil
}

// noticeGone lets the server end a statement, and free its locks, soon after its
// process is gone or has given it up: else one that waits for a lock holds its own
// until it gets it. Servers on systems that cannot tell refuse the setting.
func noticeGone(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, `SET client_connection_check_interval = '2s'`)
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return nil
	}
	return err
}

// registerUTC lets moments arrive in UTC instead of the machine's time zone.
func registerUTC(types *pgtype.Map) {
	moment := &pgtype.Type{Name: "timestamptz", OID: pgtype.TimestamptzOID,
		Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC}}
	types.RegisterType(moment)
	types.RegisterType(&pgtype.Type{Name: "_timestamptz", OID: pgtype.TimestamptzArrayOID,
		Codec: &pgtype.ArrayCodec{ElementType: moment}})
}

func check(ctx context.Context, pool *pgxpool.Pool) error {
	var version int
	if err := pool.QueryRow(ctx, `SELECT current_setting('server_version_num')::int`).Scan(&version); err != nil {
		return err
	}
	if version < MinVersion {
		return fmt.Errorf("the server is PostgreSQL %d, which is too old: use %d or newer", version/10_000, MinVersion/10_000)
	}
	return nil
}

// CheckURL says whether a database URL can be read. The error never contains any
// of it.
func CheckURL(url string) error {
	_, err := parse(url)
	return err
}

// parseError leaves the cause out: it would repeat the URL, of which pgx masks only
// what it recognises as a password. It names the option that is wrong.
func parseError(err error) error {
	text := err.Error()
	text = text[strings.LastIndexByte(text, '`')+1:] // what follows the URL
	for _, option := range urlOptions {
		if strings.Contains(text, option) {
			return fmt.Errorf("the database URL cannot be read: %s is wrong; it is written like %s", option, urlForm)
		}
	}
	return errors.New("the database URL cannot be read: write it like " + urlForm)
}

const urlForm = "postgres://USER:PASSWORD@HOST:5432/DATABASE, with special characters in the password percent-encoded"

var urlOptions = []string{
	"port", "connect_timeout", "sslmode", "sslrootcert", "sslcert", "sslkey", "sslnegotiation", "target_session_attrs",
	"min_protocol_version", "max_protocol_version", "channel_binding", "require_auth", "service", "statement_cache_capacity", "default_query_exec_mode",
	"pool_max_conns", "pool_min_conns", "pool_max_conn_lifetime", "pool_max_conn_idle_time", "pool_health_check_period",
}

// connectError adds what to do to an error of the first connection.
func connectError(config *pgxpool.Config, err error) error {
	if advice := advise(config, err); advice != "" {
		return fmt.Errorf("connect to PostgreSQL: %w; %s", err, advice)
	}
	return fmt.Errorf("connect to PostgreSQL: %w", err)
}

func advise(config *pgxpool.Config, err error) string {
	var pgErr *pgconn.PgError
	var tlsErr *tls.CertificateVerificationError
	var netErr *net.OpError
	var dnsErr *net.DNSError
	switch {
	case errors.As(err, &pgErr):
		return adviseCode(pgErr.Code, config.ConnConfig)
	case errors.As(err, &tlsErr):
		return "name the CA with sslrootcert, or choose another sslmode"
	case strings.Contains(err.Error(), "server refused TLS connection"):
		return "the server speaks no TLS: switch it on there, or set sslmode=disable for a connection that needs none"
	case strings.Contains(err.Error(), "read only"):
		return "the server accepts no writes: point the URL at the primary, or list all hosts; if it is the primary, look for a full disk, and for default_transaction_read_only"
	case errors.As(err, &dnsErr):
		return "check the host name in the database URL"
	case errors.As(err, &netErr), errors.Is(err, context.DeadlineExceeded):
		return "check that PostgreSQL runs there and that host and port in the database URL are right"
	default:
		return ""
	}
}

func adviseCode(code string, config *pgx.ConnConfig) string {
	switch code {
	case "28P01", "28000":
		return "check user and password in the database URL, and the server's pg_hba.conf"
	case "3D000":
		return fmt.Sprintf("create the database first: createdb %q", config.Database)
	case "42501":
		return fmt.Sprintf("grant user %q the right to connect", config.User)
	case "53300":
		return "raise the server's max_connections or lower the pool's size"
	case "57P03":
		return "the server is starting or stopping: try again in a moment"
	default:
		return ""
	}
}
