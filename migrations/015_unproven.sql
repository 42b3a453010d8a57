-- +goose Up

-- A webhook whose receiver has not said for days that it wants webhooks is disabled, and
-- nothing more is kept for it. The list only grows, so no row has to be looked at while the
-- table is locked.
ALTER TABLE webhook_endpoints DROP CONSTRAINT webhook_endpoints_disabled_by_check;
ALTER TABLE webhook_endpoints ADD CONSTRAINT webhook_endpoints_disabled_by_check
	CHECK (disabled_by IN ('', 'person', 'gone', 'failing', 'unproven')) NOT VALID;

-- +goose Down
UPDATE webhook_endpoints SET disabled_by = 'failing' WHERE disabled_by = 'unproven';
ALTER TABLE webhook_endpoints DROP CONSTRAINT webhook_endpoints_disabled_by_check;
ALTER TABLE webhook_endpoints ADD CONSTRAINT webhook_endpoints_disabled_by_check
	CHECK (disabled_by IN ('', 'person', 'gone', 'failing'));
