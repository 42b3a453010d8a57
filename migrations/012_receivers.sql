-- +goose Up

-- An endpoint gets nothing but a challenge until its receiver has answered one, or
-- a person vouches for it; its deliveries wait. Those that exist count as verified.
ALTER TABLE webhook_endpoints
	ADD COLUMN verified_at timestamptz,
	ADD COLUMN verified_by text NOT NULL DEFAULT '' CHECK (verified_by IN ('', 'challenge', 'person', 'setting', 'before'));
UPDATE webhook_endpoints SET verified_at = created_at, verified_by = 'before';
ALTER TABLE webhook_endpoints ADD CHECK ((verified_at IS NULL) = (verified_by = ''));

-- Finds the challenge among all that waits for an endpoint that is not verified.
CREATE INDEX webhook_deliveries_challenge ON webhook_deliveries (endpoint_id) WHERE state = 'pending' AND type = 'webhook.challenge';

ALTER TABLE webhook_tries DROP CONSTRAINT webhook_tries_failure_check;
ALTER TABLE webhook_tries ADD CONSTRAINT webhook_tries_failure_check CHECK (failure IN ('', 'unreachable', 'address_forbidden', 'dns_failure',
	'connect_failure', 'tls_failure', 'timeout', 'connection_lost', 'response_invalid', 'redirect', 'gone', 'refused', 'unproven', 'interrupted',
	'secret_unreadable'));

-- How much of something that a tenant may ask for is used up: each use moves its
-- moment on, and one that is too far ahead refuses the next.
CREATE TABLE webhook_allowances (
	tenant text NOT NULL,
	what   text NOT NULL,
	until  timestamptz NOT NULL,
	PRIMARY KEY (tenant, what)
);

-- +goose Down
DROP TABLE webhook_allowances;
DROP INDEX webhook_deliveries_challenge;
ALTER TABLE webhook_endpoints DROP COLUMN verified_by, DROP COLUMN verified_at;
