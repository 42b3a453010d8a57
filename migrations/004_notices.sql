-- +goose Up

-- What upstreams told by themselves. An event is kept once, and its id for good: a
-- copy that comes years later is still a copy.
CREATE TABLE notices (
	id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	tenant          text NOT NULL,
	upstream_id     bigint NOT NULL,
	event_id        text NOT NULL,
	profile_version integer NOT NULL, -- that it was read by
	received_at     timestamptz NOT NULL,
	named_by        text NOT NULL CHECK (named_by IN ('', 'key', 'id', 'reference')),
	name            text NOT NULL,    -- of the command, in the notice's words
	weight          text NOT NULL CHECK (weight IN ('conclusive', 'hint')),
	finding         text NOT NULL CHECK (finding IN ('applied', 'refused', 'pending', 'absent', 'unknown')),
	reference       text NOT NULL DEFAULT '',
	code            text NOT NULL DEFAULT '',
	message         text NOT NULL DEFAULT '',
	rule            text NOT NULL DEFAULT '', -- of the profile, that gave the finding
	notes           json NOT NULL,
	headers         json,             -- redacted; NULL once it has expired, as the body
	body            bytea,            -- redacted
	body_sha256     bytea NOT NULL,   -- as it came
	-- unmatched: no command of this name yet; kept: the command is under way, and the
	-- notice is weighed again once it is not; ignored: it names no command.
	state           text NOT NULL CHECK (state IN ('unmatched', 'kept', 'done', 'ignored', 'expired')),
	effect          text NOT NULL DEFAULT '' CHECK (effect IN ('', 'settled', 'kept', 'none', 'conflict', 'lookup', 'reported')),
	command_id      uuid,
	matched_at      timestamptz,
	sequence        integer,          -- of the command, when it was last weighed
	tries           integer NOT NULL DEFAULT 0,
	next_at         timestamptz,      -- when it is looked at again; NULL: never
	expires_at      timestamptz NOT NULL,
	CHECK ((state IN ('unmatched', 'kept')) = (next_at IS NOT NULL)),
	CHECK ((state IN ('kept', 'done')) = (command_id IS NOT NULL)),
	UNIQUE (upstream_id, event_id)
);
CREATE INDEX notices_due ON notices (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX notices_command ON notices (command_id, id) WHERE command_id IS NOT NULL;

-- +goose Down
DROP TABLE notices;
