-- +goose Up

-- A settlement report: a file in which the upstream says what became of what it
-- was sent. It is compared with our commands, and only a second call passes on what
-- it says. The row is its own job: due by next_at, held by a claim, and written only
-- under that claim, so that a killed process is followed by another and one that
-- stood still writes nothing more.
CREATE TABLE reports (
	id               uuid PRIMARY KEY,
	tenant           text NOT NULL,
	upstream_id      bigint NOT NULL,
	upstream         text NOT NULL,
	operation        text NOT NULL,        -- '': all of the upstream
	format           text NOT NULL CHECK (format IN ('csv', 'jsonl')),
	settings         json NOT NULL,        -- how its columns and words are read
	period_from      timestamptz,          -- commands accepted in this period are looked for in it
	period_until     timestamptz,          -- NULL: no period was given
	settles_for_ms   bigint NOT NULL,      -- what is younger may still differ
	created_at       timestamptz NOT NULL,
	created_by       text NOT NULL,
	state            text NOT NULL CHECK (state IN ('uploading', 'comparing', 'compared', 'applying', 'applied', 'failed')),
	problem          text NOT NULL DEFAULT '',
	bytes            bigint NOT NULL DEFAULT 0,
	sha256           bytea,                -- of the file
	lines            integer NOT NULL DEFAULT 0,
	-- Progress: lines up to here are compared; commands of the period up to there.
	compared         integer NOT NULL DEFAULT 0,
	scanned          bigint NOT NULL DEFAULT 0,
	scanned_at       timestamptz,
	scanned_id       uuid,
	compared_at      timestamptz,
	-- Of the lines. They add up to compared.
	matched          integer NOT NULL DEFAULT 0,
	different        integer NOT NULL DEFAULT 0,
	missing_here     integer NOT NULL DEFAULT 0,
	duplicate        integer NOT NULL DEFAULT 0,
	ambiguous        integer NOT NULL DEFAULT 0,
	unreadable       integer NOT NULL DEFAULT 0,
	too_young        integer NOT NULL DEFAULT 0,
	-- Of our commands.
	missing_there    integer NOT NULL DEFAULT 0,
	young_there      integer NOT NULL DEFAULT 0,
	-- What was passed on, by its effect.
	settled          integer NOT NULL DEFAULT 0,
	kept             integer NOT NULL DEFAULT 0,
	conflicts        integer NOT NULL DEFAULT 0,
	without_effect   integer NOT NULL DEFAULT 0,
	apply_asked_at   timestamptz,
	apply_asked_by   text NOT NULL DEFAULT '',
	apply_reason     text NOT NULL DEFAULT '',
	applied          integer NOT NULL DEFAULT 0, -- items up to here are passed on
	applied_at       timestamptz,
	next_at          timestamptz,
	claim            uuid,
	claimed_until    timestamptz,
	failures         integer NOT NULL DEFAULT 0 -- in a row
);
CREATE INDEX reports_list ON reports (tenant, created_at DESC, id DESC);
CREATE INDEX reports_due ON reports (next_at) WHERE next_at IS NOT NULL;

-- The lines as they came. Written once.
--
-- Both tables below grow by whole reports, of which the planner knows nothing yet
-- while they are worked on. So every statement of that work names a range of numbers,
-- or goes row by row through an index.
CREATE TABLE report_lines (
	report_id  uuid NOT NULL,
	number     integer NOT NULL, -- counts the lines that say something, from 1
	line       integer NOT NULL, -- where it begins in the file
	reference  text NOT NULL,
	key        text NOT NULL,
	command_id uuid,
	word       text NOT NULL,    -- the state as the report has it
	finding    text NOT NULL CHECK (finding IN ('', 'applied', 'refused', 'pending', 'absent', 'unknown')),
	code       text NOT NULL,
	message    text NOT NULL,
	given      text[] NOT NULL,  -- what the compared columns hold, in the order of the settings
	problem    text NOT NULL,    -- why it says nothing that can be compared
	content    text NOT NULL,    -- all of it, as a JSON object
	PRIMARY KEY (report_id, number)
);

-- What the comparison found: one for each line, and after them one for each command
-- that the report leaves out.
CREATE TABLE report_items (
	report_id    uuid NOT NULL,
	number       integer NOT NULL, -- of the line; higher where there is none
	line         integer,
	kind         text NOT NULL CHECK (kind IN ('matched', 'different', 'missing_here', 'missing_there', 'duplicate', 'ambiguous', 'unreadable', 'too_young')),
	command_id   uuid,
	state        text NOT NULL DEFAULT '', -- of the command when it was compared
	finding      text NOT NULL DEFAULT '' CHECK (finding IN ('', 'applied', 'refused', 'pending', 'absent', 'unknown')),
	differences  json,
	duplicate_of integer, -- the number of the first line about the command
	problem      text NOT NULL DEFAULT '',
	evidence     boolean NOT NULL DEFAULT false, -- may be passed on
	effect       text CHECK (effect IN ('settled', 'kept', 'none', 'conflict')),
	applied_at   timestamptz,
	PRIMARY KEY (report_id, number)
);
CREATE INDEX report_items_kind ON report_items (report_id, kind, number);
CREATE INDEX report_items_command ON report_items (report_id, command_id) WHERE command_id IS NOT NULL AND duplicate_of IS NULL;
CREATE INDEX report_items_duplicates ON report_items (report_id, duplicate_of) WHERE duplicate_of IS NOT NULL;
CREATE INDEX report_items_open ON report_items (report_id, number) WHERE evidence AND effect IS NULL;

-- A report may name what so far only a lookup has seen.
CREATE INDEX lookups_reference ON lookups (tenant, reference) WHERE reference <> '';

-- +goose Down
DROP INDEX lookups_reference;
DROP TABLE report_items, report_lines, reports;
