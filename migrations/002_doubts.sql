-- +goose Up

-- Who follows up a command that is or was unresolved: written in the transaction
-- that makes it so. Lookups are due by these rows alone; no job of the queue
-- stands behind them.
CREATE TABLE doubts (
	command_id     uuid PRIMARY KEY,
	tenant         text NOT NULL,
	upstream_id    bigint NOT NULL,
	since          timestamptz NOT NULL, -- the command became unresolved
	next_at        timestamptz,          -- the next round of lookups; NULL: none is planned
	gives_up_at    timestamptz,          -- no round is planned beyond; NULL: the operation has no lookup
	rounds         integer NOT NULL DEFAULT 0,
	lookups        integer NOT NULL DEFAULT 0, -- requests made
	unknown        integer NOT NULL DEFAULT 0, -- rounds that brought nothing
	absents        integer NOT NULL DEFAULT 0, -- in a row, of those that count
	last_absent_at timestamptz,
	seen           boolean NOT NULL DEFAULT false, -- it was there once
	-- One round at a time: whoever asks holds the claim until then, and records under it.
	claim          uuid,
	claimed_until  timestamptz,
	assignee       text NOT NULL DEFAULT '',
	handed_at      timestamptz, -- to a person
	handed_reason  text NOT NULL DEFAULT ''
);
CREATE INDEX doubts_due ON doubts (upstream_id, next_at) WHERE next_at IS NOT NULL;

-- One question to the upstream and its answer. Append-only.
CREATE TABLE lookups (
	id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	command_id       uuid NOT NULL,
	tenant           text NOT NULL,
	round            integer NOT NULL,
	question         integer NOT NULL, -- its place in the profile's list, from 1
	instance         text NOT NULL,
	profile_version  integer NOT NULL,
	started_at       timestamptz NOT NULL,
	ended_at         timestamptz NOT NULL,
	request          json NOT NULL,              -- method, url, headers, redacted
	category         text NOT NULL DEFAULT '',   -- of a failure
	detail           text NOT NULL DEFAULT '',
	status           integer NOT NULL DEFAULT 0, -- 0: no response
	finding          text NOT NULL CHECK (finding IN ('applied', 'refused', 'pending', 'absent', 'unknown')),
	counts           boolean NOT NULL,           -- an absent after the settle time, spaced
	rule             text NOT NULL DEFAULT '',   -- of the profile, that gave the finding
	reference        text NOT NULL DEFAULT '',
	code             text NOT NULL DEFAULT '',
	message          text NOT NULL DEFAULT '',
	response_headers json,
	response_body    bytea, -- raw, redacted, cut at the profile's stored_response_bytes
	truncated        boolean NOT NULL DEFAULT false,
	notes            json
);
CREATE INDEX lookups_command ON lookups (command_id, id);

-- An unresolved command that may be sent once more, and by what: consumed by the
-- one attempt that follows.
ALTER TABLE commands ADD COLUMN resend text CHECK (resend IN ('absence', 'replay', 'operator'));
-- Where the upstream said that the state of what it accepted can be seen: path and
-- query on its own origin.
ALTER TABLE attempts ADD COLUMN link text NOT NULL DEFAULT '';
-- What is found about a command as a whole; '' for late evidence of one attempt.
ALTER TABLE findings ADD COLUMN finding text NOT NULL DEFAULT '' CHECK (finding IN ('', 'applied', 'refused', 'pending', 'absent', 'unknown'));
CREATE INDEX findings_kept ON findings (command_id) WHERE effect = 'kept';

-- +goose Down
DROP INDEX findings_kept;
ALTER TABLE findings DROP COLUMN finding;
ALTER TABLE attempts DROP COLUMN link;
ALTER TABLE commands DROP COLUMN resend;
DROP TABLE lookups, doubts;
