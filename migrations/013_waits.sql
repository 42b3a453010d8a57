-- +goose Up

-- A command may wait for a file of its body too. The list only grows, so no row has to
-- be looked at while the table is locked.
ALTER TABLE commands DROP CONSTRAINT commands_wait_for_check;
ALTER TABLE commands ADD CONSTRAINT commands_wait_for_check
	CHECK (wait_for IN ('backoff', 'retry_token', 'not_before', 'throttle', 'credential', 'file')) NOT VALID;

-- +goose Down
UPDATE commands SET wait_for = NULL WHERE wait_for = 'file';
ALTER TABLE commands DROP CONSTRAINT commands_wait_for_check;
ALTER TABLE commands ADD CONSTRAINT commands_wait_for_check
	CHECK (wait_for IN ('backoff', 'retry_token', 'not_before', 'throttle', 'credential'));
