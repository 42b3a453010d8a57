-- +goose Up

-- One row: which deployment this data belongs to, and whether sending stands still.
CREATE TABLE deployment (
	only_row          boolean PRIMARY KEY DEFAULT true CHECK (only_row),
	id                text NOT NULL,
	system_identifier text NOT NULL,  -- of the cluster, and of the database in it, that last sent; a copy or a restore differs
	timeline          bigint NOT NULL, -- grows with every promotion
	frozen_at         timestamptz,
	frozen_by         text NOT NULL DEFAULT '',
	frozen_reason     text NOT NULL DEFAULT '',
	-- Set by a promotion or a restore: what was committed before may be lost, so that on
	-- resume every command that was not final gets a synthetic lost attempt.
	doubtful          boolean NOT NULL DEFAULT false
);

-- A lease is one process's right to send, renewed by database time. Its id is the epoch
-- that fences the attempts begun under it; a lapsed lease is never renewed, only replaced.
CREATE TABLE leases (
	epoch       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	instance    text NOT NULL,
	acquired_at timestamptz NOT NULL,
	renewed_at  timestamptz NOT NULL,
	expires_at  timestamptz NOT NULL,
	ended_at    timestamptz -- released by its owner or reaped by another
);
CREATE INDEX leases_live ON leases (expires_at) WHERE ended_at IS NULL;
CREATE INDEX leases_instance ON leases (instance) WHERE ended_at IS NULL;

CREATE TABLE upstreams (
	id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- also names the River queue: u<id>
	tenant          text NOT NULL,
	name            text NOT NULL,
	version         integer NOT NULL, -- the newest; commands pin the one they were accepted under
	paused_at       timestamptz,
	paused_by       text NOT NULL DEFAULT '',
	paused_reason   text NOT NULL DEFAULT '',
	throttled_until timestamptz,
	budget_tokens   double precision NOT NULL, -- retry budget, starts full
	budget_at       timestamptz NOT NULL,      -- when the floor was last credited
	created_at      timestamptz NOT NULL,
	updated_at      timestamptz NOT NULL,
	UNIQUE (tenant, name)
);

CREATE TABLE upstream_versions (
	upstream_id bigint NOT NULL REFERENCES upstreams (id),
	version     integer NOT NULL,
	source      text NOT NULL, -- the YAML as applied
	sha256      bytea NOT NULL,
	applied_at  timestamptz NOT NULL,
	applied_by  text NOT NULL,
	PRIMARY KEY (upstream_id, version)
);

-- What moves about a command. Kept narrow: it is rewritten at every step.
--
-- The tables that every command writes to (this one, command_requests, attempts,
-- events) have no foreign keys: their rows are written in the transaction that
-- holds the command's lock, nothing is ever deleted, and the checks were measured
-- at a fifth of the database's work a command.
CREATE TABLE commands (
	id                  uuid PRIMARY KEY,
	tenant              text NOT NULL,
	idempotency_key     text NOT NULL,
	upstream_id         bigint NOT NULL,
	operation           text NOT NULL,
	profile_version     integer NOT NULL,
	state               text NOT NULL CHECK (state IN ('pending', 'executing', 'success', 'rejected', 'unresolved', 'cancelled')),
	version             integer NOT NULL DEFAULT 1, -- grows with every change a reader can see; the ETag
	sequence            integer NOT NULL DEFAULT 0, -- grows with every outcome; above 0 one was announced
	priority            smallint NOT NULL DEFAULT 2 CHECK (priority BETWEEN 1 AND 3), -- 1 high, 2 normal, 3 low
	created_at          timestamptz NOT NULL,
	deadline            timestamptz NOT NULL,
	not_before          timestamptz,
	next_attempt_at     timestamptz, -- pending only: not before this moment
	wait_for            text CHECK (wait_for IN ('backoff', 'retry_token', 'not_before', 'throttle', 'credential')),
	attempts            integer NOT NULL DEFAULT 0,
	blocked_until       timestamptz, -- the latest end of a lost attempt: nothing starts before
	cancel_requested_at timestamptz,
	cancel_requested_by text NOT NULL DEFAULT '',
	-- Who looks after it while it is pending: a process that accepted it under its lease, or a
	-- River job. The sweeper mends a row whose keeper is gone.
	claimed_by          bigint,
	job_id              bigint,
	finalized_at        timestamptz,
	outcome             json, -- of the newest outcome; kept while a resend is under way
	phase               text CHECK (phase IN ('lookup', 'review')), -- unresolved only: who clears it up
	CHECK ((state IN ('pending', 'executing')) OR outcome IS NOT NULL),
	CHECK ((state = 'pending') = (next_attempt_at IS NOT NULL)),
	CHECK ((state = 'unresolved') = (phase IS NOT NULL)),
	UNIQUE (tenant, idempotency_key)
) WITH (fillfactor = 60);
-- No index and no predicate names a column that changes between executing and a
-- settled outcome, so that this step rewrites the row in its page and no index (a
-- heap-only update); hence also the room left in each page.
CREATE INDEX commands_list ON commands (tenant, created_at DESC, id DESC);
CREATE INDEX commands_unresolved ON commands (tenant, created_at DESC, id DESC) WHERE phase IS NOT NULL;
CREATE INDEX commands_due ON commands (next_attempt_at) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX commands_deadline ON commands (deadline) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX commands_claimed ON commands (claimed_by) WHERE claimed_by IS NOT NULL;

-- What was accepted and what will be sent: written once, with the command, never changed.
CREATE TABLE command_requests (
	command_id      uuid PRIMARY KEY,
	tenant          text NOT NULL,
	method          text NOT NULL,
	path            text NOT NULL,  -- escaped path and query below the base URL, as rendered at accept
	headers         json NOT NULL,  -- [[name, value], …] in order, without credentials
	body            bytea NOT NULL, -- sent byte for byte
	body_kind       text NOT NULL CHECK (body_kind IN ('replayable', 'reopenable', 'one_shot')),
	content_type    text NOT NULL,
	key_in          text NOT NULL,
	key_name        text NOT NULL,
	wire_key        text NOT NULL,
	params          json NOT NULL,
	-- SHA-256 of each field of the submission, to name what differs when a key comes again.
	field_hashes    bytea NOT NULL,
	metadata        jsonb NOT NULL,
	submitted_by    text NOT NULL
);
CREATE INDEX command_requests_metadata ON command_requests USING gin (metadata jsonb_path_ops) WHERE metadata <> '{}'::jsonb;

CREATE TABLE attempts (
	command_id        uuid NOT NULL,
	number            integer NOT NULL CHECK (number >= 1),
	tenant            text NOT NULL,
	upstream_id       bigint NOT NULL,
	epoch             bigint NOT NULL, -- of the lease it was begun under: the fence
	instance          text NOT NULL,
	profile_version   integer NOT NULL,
	started_at        timestamptz NOT NULL,
	send_deadline     timestamptz NOT NULL, -- no first byte leaves after it
	latest_end        timestamptz NOT NULL, -- nothing of it is under way after it
	ended_at          timestamptz,
	evidence          text CHECK (evidence IN ('not_sent', 'sent_no_response', 'response_received', 'partial_response')),
	stage             text NOT NULL DEFAULT '',
	category          text NOT NULL DEFAULT '',
	detail            text NOT NULL DEFAULT '',
	answer            text NOT NULL DEFAULT '' CHECK (answer IN ('', 'applied', 'pending', 'refused', 'declined', 'unclear')),
	status            integer NOT NULL DEFAULT 0,
	boundary          text NOT NULL DEFAULT '' CHECK (boundary IN ('', 'not_crossed', 'possibly_crossed', 'crossed')),
	settled_by        text NOT NULL DEFAULT '', -- a confirmed absence that came after it
	rule              integer NOT NULL DEFAULT 0,
	decision          text NOT NULL DEFAULT '',
	reason            text NOT NULL DEFAULT '',
	wait_ms           bigint,
	retry_at          timestamptz,
	retry_after       text NOT NULL DEFAULT '',
	refreshed_auth    boolean NOT NULL DEFAULT false,
	request           json NOT NULL,   -- method, url, headers as sent, redacted
	bytes_total       bigint NOT NULL,
	bytes_handed_over bigint NOT NULL DEFAULT 0,
	body_sha256       bytea NOT NULL,
	response_headers  json,
	response_body     bytea, -- raw, cut at the profile's stored_response_bytes
	response_truncated boolean NOT NULL DEFAULT false,
	response_sha256   bytea,
	response_bytes    bigint NOT NULL DEFAULT 0,
	reference         text NOT NULL DEFAULT '',
	rejection_code    text NOT NULL DEFAULT '',
	rejection_message text NOT NULL DEFAULT '',
	addresses         json,
	timings           json,
	remote            text NOT NULL DEFAULT '',
	protocol          text NOT NULL DEFAULT '',
	reused            boolean NOT NULL DEFAULT false,
	deadline_left_ms  bigint NOT NULL DEFAULT 0,
	budget_tokens     double precision NOT NULL DEFAULT 0,
	notes             json,
	PRIMARY KEY (command_id, number),
	CHECK ((evidence IS NULL) = (ended_at IS NULL))
);
-- Also finds the open attempts of a lease: there are never many.
CREATE UNIQUE INDEX attempts_one_open ON attempts (command_id) WHERE ended_at IS NULL;
CREATE INDEX attempts_reference ON attempts (tenant, reference) WHERE reference <> '';

-- Knowledge that came by another way than an attempt's own finish: a late response, a
-- lookup, a notice, a person. Append-only.
CREATE TABLE findings (
	id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	command_id     uuid NOT NULL REFERENCES commands (id),
	tenant         text NOT NULL,
	at             timestamptz NOT NULL,
	source         text NOT NULL CHECK (source IN ('late_evidence', 'lookup', 'notice', 'report', 'operator')),
	actor          text NOT NULL DEFAULT '',
	attempt_number integer, -- the attempt it belongs to, where there is one
	evidence       text NOT NULL DEFAULT '',
	category       text NOT NULL DEFAULT '',
	answer         text NOT NULL DEFAULT '',
	status         integer NOT NULL DEFAULT 0,
	retry_after    text NOT NULL DEFAULT '',
	reference      text NOT NULL DEFAULT '',
	code           text NOT NULL DEFAULT '',
	message        text NOT NULL DEFAULT '',
	observation    json NOT NULL, -- everything that was seen, as an attempt would have kept it
	body           bytea,
	-- what became of it: it moved the command, waits for the running attempt, adds nothing, or
	-- contradicts an absorbed state
	effect         text NOT NULL CHECK (effect IN ('settled', 'kept', 'none', 'conflict')),
	resolved_at    timestamptz -- a conflict that a person corrected or dismissed
);
CREATE INDEX findings_command ON findings (command_id, id);
CREATE INDEX findings_reference ON findings (tenant, reference) WHERE reference <> '';
CREATE INDEX findings_conflicts ON findings (tenant, at) WHERE effect = 'conflict' AND resolved_at IS NULL;

CREATE TABLE events (
	command_id uuid NOT NULL,
	number     integer NOT NULL, -- counts the events of one command: the command's version when it was written
	id         uuid NOT NULL,    -- stable; the webhook id
	tenant     text NOT NULL,
	type       text NOT NULL,
	at         timestamptz NOT NULL,
	sequence   integer NOT NULL, -- of the outcome; 0 for events that are none
	actor      text NOT NULL DEFAULT '',
	data       json NOT NULL,
	PRIMARY KEY (command_id, number)
);

CREATE TABLE api_keys (
	id           uuid PRIMARY KEY,
	tenant       text NOT NULL,
	name         text NOT NULL,
	prefix       text NOT NULL, -- shown, to tell keys apart
	hash         bytea NOT NULL UNIQUE, -- SHA-256; 32 random bytes need no slow hash
	scopes       text[] NOT NULL,
	created_at   timestamptz NOT NULL,
	last_used_at timestamptz,
	revoked_at   timestamptz
);
CREATE UNIQUE INDEX api_keys_name ON api_keys (tenant, name) WHERE revoked_at IS NULL;

-- +goose Down
DROP TABLE api_keys, events, findings, attempts, command_requests, commands, upstream_versions, upstreams, leases, deployment;
