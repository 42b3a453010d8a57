-- +goose Up

-- Where a tenant wants to be told of outcomes. An endpoint collects deliveries as
-- long as it exists; while it is disabled they wait.
CREATE TABLE webhook_endpoints (
	id              uuid PRIMARY KEY,
	tenant          text NOT NULL,
	url             text NOT NULL,
	description     text NOT NULL,
	events          text[] NOT NULL,  -- the types it wants; none: all
	upstreams       text[] NOT NULL,  -- whose commands it wants; none: all
	ordered         boolean NOT NULL, -- a command's later events wait for the earlier ones
	version         integer NOT NULL DEFAULT 1,
	created_at      timestamptz NOT NULL,
	updated_at      timestamptz NOT NULL,
	disabled_at     timestamptz,
	disabled_by     text NOT NULL DEFAULT '' CHECK (disabled_by IN ('', 'person', 'gone', 'failing')),
	disabled_reason text NOT NULL DEFAULT '',
	failing_since   timestamptz,                    -- the first failure after the last success
	troubled        boolean NOT NULL DEFAULT false, -- its last answer was a failure or slow: it waits in a line of its own
	paused_until    timestamptz,                    -- it asked to be left alone (Retry-After)
	CHECK ((disabled_at IS NULL) = (disabled_by = '')),
	UNIQUE (tenant, url) -- a repeated creation makes no second one
);

CREATE TABLE webhook_secrets (
	id          uuid PRIMARY KEY,
	endpoint_id uuid NOT NULL REFERENCES webhook_endpoints (id) ON DELETE CASCADE,
	tenant      text NOT NULL,
	sealed      bytea NOT NULL,
	created_at  timestamptz NOT NULL,
	expires_at  timestamptz -- it still signs until then; NULL: the one that stays
);
CREATE INDEX webhook_secrets_endpoint ON webhook_secrets (endpoint_id);

-- What is told, byte for byte as it is signed: once for an event, however many
-- endpoints want it. The id is the event's, and the webhook id of every delivery.
CREATE TABLE webhook_events (
	id         uuid PRIMARY KEY,
	tenant     text NOT NULL,
	command_id uuid, -- NULL: a test
	sequence   integer NOT NULL,
	type       text NOT NULL,
	at         timestamptz NOT NULL,
	payload    bytea NOT NULL
);

-- One event for one endpoint; written in the transaction that moves the command.
-- No foreign keys: the log outlives the endpoint.
CREATE TABLE webhook_deliveries (
	id            uuid PRIMARY KEY DEFAULT gen_random_uuid(),
	event_id      uuid NOT NULL,
	endpoint_id   uuid NOT NULL,
	tenant        text NOT NULL,
	command_id    uuid,
	sequence      integer NOT NULL,
	type          text NOT NULL,
	at            timestamptz NOT NULL, -- of the event
	state         text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'failed', 'dropped')),
	held_until    timestamptz,                -- a later outcome before then drops it
	next_at       timestamptz NOT NULL,       -- pending: not before
	step          integer NOT NULL DEFAULT 0, -- failures since it was last scheduled anew
	tries         integer NOT NULL DEFAULT 0, -- all of them
	-- Whoever tries holds the claim until then, and records under it.
	claim         uuid,
	claimed_until timestamptz,
	ended_at      timestamptz,
	status        integer NOT NULL DEFAULT 0, -- of the last try
	failure       text NOT NULL DEFAULT '',   -- of the last try
	detail        text NOT NULL DEFAULT '',   -- the same in words
	CHECK ((state = 'pending') = (ended_at IS NULL)),
	UNIQUE (event_id, endpoint_id)
);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (endpoint_id, next_at) WHERE state = 'pending';
CREATE INDEX webhook_deliveries_held ON webhook_deliveries (command_id) WHERE state = 'pending' AND held_until IS NOT NULL;
CREATE INDEX webhook_deliveries_command ON webhook_deliveries (command_id, sequence) WHERE command_id IS NOT NULL;
CREATE INDEX webhook_deliveries_tenant ON webhook_deliveries (tenant, at DESC, id DESC);
CREATE INDEX webhook_deliveries_failed ON webhook_deliveries (tenant, at DESC, id DESC) WHERE state = 'failed';
CREATE INDEX webhook_deliveries_endpoint ON webhook_deliveries (endpoint_id, at DESC, id DESC);

-- One request to an endpoint and what came of it. Append-only.
CREATE TABLE webhook_tries (
	delivery_id uuid NOT NULL,
	number      integer NOT NULL,
	tenant      text NOT NULL,
	instance    text NOT NULL,
	at          timestamptz NOT NULL,
	duration_ms integer NOT NULL,
	status      integer NOT NULL DEFAULT 0, -- 0: no response
	failure     text NOT NULL DEFAULT '' CHECK (failure IN ('', 'address_forbidden', 'dns_failure', 'connect_failure', 'tls_failure', 'timeout',
		'connection_lost', 'response_invalid', 'redirect', 'gone', 'refused', 'interrupted', 'secret_unreadable')),
	detail      text NOT NULL DEFAULT '',
	excerpt     text NOT NULL DEFAULT '', -- the beginning of the response, printable
	next_at     timestamptz,              -- the try after it; NULL: none
	PRIMARY KEY (delivery_id, number)
);

-- +goose Down
DROP TABLE webhook_tries, webhook_deliveries, webhook_events, webhook_secrets, webhook_endpoints;
