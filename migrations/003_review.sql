-- +goose Up

-- What people did and why, written in the transaction of the deed. Entries of one
-- tenant are numbered without gaps and each is bound to the one before it by hash.
-- The JSON is kept as text (json, not jsonb): the hash covers it letter by letter.
CREATE TABLE audit (
	tenant             text NOT NULL,
	number             bigint NOT NULL CHECK (number >= 1),
	at                 timestamptz NOT NULL,
	actor              text NOT NULL,
	action             text NOT NULL,
	command_id         uuid,                     -- NULL: it was done to something else
	subject            text NOT NULL DEFAULT '', -- what that is
	reason             text NOT NULL DEFAULT '',
	evidence_reference text NOT NULL DEFAULT '',
	before             json,
	after              json,
	details            json,
	format             smallint NOT NULL, -- how the hash was computed
	previous_hash      bytea NOT NULL,
	hash               bytea NOT NULL,
	PRIMARY KEY (tenant, number)
);
CREATE INDEX audit_command ON audit (tenant, command_id, number) WHERE command_id IS NOT NULL;
CREATE INDEX audit_actor ON audit (tenant, actor, number);
CREATE INDEX audit_action ON audit (tenant, action, number);
CREATE INDEX audit_at ON audit (tenant, at);

-- The last entry of each tenant. Locked while one is appended; a missing end of the
-- chain shows by it.
CREATE TABLE audit_heads (
	tenant text PRIMARY KEY,
	number bigint NOT NULL,
	hash   bytea NOT NULL
);

-- Nobody changes what is written by mistake: whoever wants to has to switch the
-- triggers off first, and the hashes tell of it afterwards.
-- +goose StatementBegin
CREATE FUNCTION audit_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'the table % is append-only: % is refused', TG_TABLE_NAME, TG_OP
		USING ERRCODE = 'restrict_violation';
END
$$;
-- +goose StatementEnd
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
	FOR EACH STATEMENT EXECUTE FUNCTION audit_append_only();
CREATE TRIGGER never_removed BEFORE DELETE OR TRUNCATE ON audit_heads
	FOR EACH STATEMENT EXECUTE FUNCTION audit_append_only();
CREATE TRIGGER never_back BEFORE UPDATE ON audit_heads
	FOR EACH ROW WHEN (NEW.tenant <> OLD.tenant OR NEW.number <> OLD.number + 1) EXECUTE FUNCTION audit_append_only();
ALTER TABLE audit ENABLE ALWAYS TRIGGER append_only;
ALTER TABLE audit_heads ENABLE ALWAYS TRIGGER never_removed;
ALTER TABLE audit_heads ENABLE ALWAYS TRIGGER never_back;

-- The queue of doubts that wait for a person, the oldest first.
CREATE INDEX doubts_review ON doubts (tenant, since, command_id) WHERE handed_at IS NOT NULL;

-- One action on many commands. Which ones they are is settled when it is started;
-- the id comes from whoever starts it, so that asking again starts nothing.
CREATE TABLE bulk_actions (
	tenant      text NOT NULL,
	id          uuid NOT NULL,
	action      text NOT NULL CHECK (action IN ('resolve', 'lookup', 'resend', 'assign', 'note')),
	actor       text NOT NULL,
	request     json NOT NULL, -- all that was asked for, as text to compare
	created_at  timestamptz NOT NULL,
	finished_at timestamptz,   -- no item is left; NULL until somebody has looked
	PRIMARY KEY (tenant, id)
);
CREATE INDEX bulk_actions_open ON bulk_actions (created_at) WHERE finished_at IS NULL;

CREATE TABLE bulk_items (
	tenant     text NOT NULL,
	bulk_id    uuid NOT NULL,
	number     integer NOT NULL,
	command_id uuid NOT NULL,
	version    integer NOT NULL,     -- of the command when it was selected: moved on since, it is left alone
	result     text NOT NULL DEFAULT 'pending' CHECK (result IN ('pending', 'done', 'refused')),
	problem    text NOT NULL DEFAULT '', -- the code of the refusal
	detail     text NOT NULL DEFAULT '',
	next_at    timestamptz NOT NULL, -- due then; somebody who works on it moves it on first
	tries      integer NOT NULL DEFAULT 0,
	ended_at   timestamptz,
	PRIMARY KEY (tenant, bulk_id, number),
	FOREIGN KEY (tenant, bulk_id) REFERENCES bulk_actions (tenant, id)
);
CREATE INDEX bulk_items_due ON bulk_items (tenant, bulk_id, next_at, number) WHERE result = 'pending';

-- +goose Down
DROP TABLE bulk_items, bulk_actions;
DROP INDEX doubts_review;
DROP TABLE audit_heads, audit;
DROP FUNCTION audit_append_only;
