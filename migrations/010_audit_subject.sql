-- +goose Up

-- What was done to one thing that is no command: an upstream, a webhook, a key.
CREATE INDEX audit_subject ON audit (tenant, subject, number) WHERE subject <> '';

-- +goose Down
DROP INDEX audit_subject;
