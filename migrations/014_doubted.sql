-- +goose Up

-- Where the database stood when it was frozen in doubt. One that was promoted or restored
-- once more since may have lost that somebody resumed, and what was sent after that: the
-- doubt then counts anew.
ALTER TABLE deployment
	ADD COLUMN doubted_system_identifier text NOT NULL DEFAULT '',
	ADD COLUMN doubted_timeline bigint NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE deployment DROP COLUMN doubted_timeline, DROP COLUMN doubted_system_identifier;
