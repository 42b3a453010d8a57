-- +goose Up

-- An endpoint's failed deliveries: to count, to list and to send again, however
-- many were delivered around them.
CREATE INDEX webhook_deliveries_endpoint_failed ON webhook_deliveries (endpoint_id, at DESC, id DESC) WHERE state = 'failed';

-- +goose Down
DROP INDEX webhook_deliveries_endpoint_failed;
