-- +goose Up

-- People who may sign in to the dashboard. They are never deleted: the audit
-- names them.
CREATE TABLE operators (
	id            uuid PRIMARY KEY,
	name          text NOT NULL,
	password_hash text, -- argon2id; NULL: no sign-in by password
	-- Who they are at an identity provider.
	issuer        text,
	subject       text,
	epoch         integer NOT NULL DEFAULT 1, -- sessions and links of an earlier one are void
	created_at    timestamptz NOT NULL,
	disabled_at   timestamptz,
	CHECK ((issuer IS NULL) = (subject IS NULL)),
	UNIQUE (issuer, subject)
);
-- Two names that differ in case only would be taken for each other.
CREATE UNIQUE INDEX operators_name ON operators (lower(name COLLATE "C"));

CREATE TABLE operator_roles (
	operator_id uuid NOT NULL REFERENCES operators (id),
	tenant      text NOT NULL,
	role        text NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
	PRIMARY KEY (operator_id, tenant)
);
CREATE INDEX operator_roles_tenant ON operator_roles (tenant, role);

-- A session that has ended stays until some time after it would have expired, so
-- that a request which began under it cannot write it anew.
CREATE TABLE operator_sessions (
	token        text PRIMARY KEY, -- its hash
	id           uuid NOT NULL UNIQUE DEFAULT gen_random_uuid(),
	operator_id  uuid NOT NULL REFERENCES operators (id),
	epoch        integer NOT NULL, -- the operator's at sign-in
	created_at   timestamptz NOT NULL,
	last_seen_at timestamptz NOT NULL, -- within a minute or so
	address      text NOT NULL,
	user_agent   text NOT NULL,
	expires_at   timestamptz NOT NULL,
	ended_at     timestamptz, -- signed out or revoked
	data         bytea NOT NULL
);
CREATE INDEX operator_sessions_operator ON operator_sessions (operator_id, created_at DESC);
CREATE INDEX operator_sessions_expiry ON operator_sessions (expires_at);

-- Links that sign in once.
CREATE TABLE operator_links (
	hash        bytea PRIMARY KEY, -- of the token
	operator_id uuid NOT NULL REFERENCES operators (id),
	epoch       integer NOT NULL, -- the operator's when the link was made
	created_at  timestamptz NOT NULL,
	expires_at  timestamptz NOT NULL
);
CREATE INDEX operator_links_operator ON operator_links (operator_id);
CREATE INDEX operator_links_expiry ON operator_links (expires_at);

-- Failed sign-ins, for a name or from an address. The subject is a hash: people
-- type passwords into the wrong field.
CREATE TABLE sign_in_failures (
	subject       bytea PRIMARY KEY,
	failures      integer NOT NULL,
	blocked_until timestamptz NOT NULL, -- no try before
	at            timestamptz NOT NULL  -- of the last one
);
CREATE INDEX sign_in_failures_at ON sign_in_failures (at);

-- +goose Down
DROP TABLE sign_in_failures, operator_links, operator_sessions, operator_roles, operators;
