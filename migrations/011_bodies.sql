-- +goose Up

-- The process that accepted a one-shot command, by the epoch of its lease: it alone
-- has the body, in memory. Nobody else starts the command; when that lease ends, it
-- is closed.
ALTER TABLE commands ADD held_by bigint;
CREATE INDEX commands_held ON commands (held_by) WHERE held_by IS NOT NULL AND next_attempt_at IS NOT NULL;

-- The files that are sent within the body, each with its place among the stored
-- bytes, its path below the tenant's folder, its size and its SHA-256.
ALTER TABLE command_requests ADD body_files json;

-- +goose Down
ALTER TABLE command_requests DROP body_files;
DROP INDEX commands_held;
ALTER TABLE commands DROP held_by;
