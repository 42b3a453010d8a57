-- The sizes are in the settings seed.commands, seed.unresolved and seed.conflicts.
SET LOCAL synchronous_commit = off;
SET LOCAL work_mem = '256MB';

INSERT INTO leases (instance, acquired_at, renewed_at, expires_at, ended_at)
SELECT 'seeded-' || i, now() - i * interval '1 hour', now(), now() + interval '1 day', CASE WHEN i > 2 THEN now() - i * interval '10 minutes' END
FROM generate_series(1, 5) i;

-- One row a command, the newest first: most of them are young. One in ten is another
-- tenant's.
CREATE TEMP TABLE seeds ON COMMIT DROP AS
SELECT i, at, state, tenant, upstream_id, tries,
	(lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || substr(md5(i::text), 1, 3) || 'a' || substr(md5(i::text), 4, 15))::uuid AS id,
	CASE state WHEN 'success' THEN 'applied' WHEN 'rejected' THEN 'refused'
		WHEN 'cancelled' THEN (ARRAY['never_sent', 'cancelled_by_caller', 'declined'])[1 + i % 3]
		WHEN 'unresolved' THEN (ARRAY['no_response', 'no_response', 'partial_response', 'unclear_response'])[1 + i / 50 % 4] END AS reason,
	CASE state WHEN 'success' THEN 'applied' WHEN 'rejected' THEN 'refused' WHEN 'cancelled' THEN 'deadline' WHEN 'unresolved' THEN 'max_attempts' END AS stopped_by,
	CASE WHEN state = 'unresolved' THEN CASE WHEN i / 50 % 4 = 1 THEN 'lookup' ELSE 'review' END ELSE 'none' END AS next_action,
	at + tries * interval '2 seconds' AS ended_at
FROM (
	SELECT i, now() - interval '30 seconds' - (i::float8 / size) ^ 2 * interval '30 days' AS at,
		CASE WHEN i % every = 0 THEN 'unresolved' WHEN i <= size / 25000 THEN 'executing' WHEN i <= size / 200 THEN 'pending'
			WHEN i % 17 = 1 THEN 'rejected' WHEN i % 23 = 1 THEN 'cancelled' ELSE 'success' END AS state,
		CASE WHEN i % 10 = 9 THEN 'other' ELSE 'default' END AS tenant,
		(SELECT id FROM upstreams u WHERE u.tenant = CASE WHEN i % 10 = 9 THEN 'other' ELSE 'default' END
			ORDER BY id OFFSET CASE WHEN i % 10 = 9 THEN 0 WHEN i % 100 < 70 THEN 0 WHEN i % 100 < 97 THEN 1 ELSE 2 END LIMIT 1) AS upstream_id,
		CASE i % 20 WHEN 0 THEN 5 WHEN 1 THEN 3 WHEN 2 THEN 2 ELSE 1 END AS tries
	FROM generate_series(1, current_setting('seed.commands')::int) i,
		(SELECT current_setting('seed.commands')::int AS size, current_setting('seed.commands')::int / current_setting('seed.unresolved')::int AS every) sizes
) shape;
ANALYZE seeds;

INSERT INTO commands (id, tenant, idempotency_key, upstream_id, operation, profile_version, state, version, sequence, created_at, deadline,
	next_attempt_at, wait_for, attempts, finalized_at, outcome, phase)
SELECT id, tenant, 'order-' || i, upstream_id, 'pay', 1, state, 2 * tries + 1, CASE WHEN reason IS NULL THEN 0 ELSE 1 END, at,
	CASE WHEN state = 'pending' THEN now() + interval '1 minute' + i * interval '1 second' ELSE at + interval '30 minutes' END,
	CASE WHEN state = 'pending' THEN now() - interval '20 seconds' + i % 600 * interval '1 second' END,
	CASE WHEN state = 'pending' AND i % 600 > 20 THEN 'backoff' END,
	CASE WHEN state = 'pending' OR reason = 'never_sent' THEN 0 ELSE tries END,
	CASE WHEN reason IS NOT NULL THEN ended_at END,
	CASE WHEN reason IS NOT NULL THEN json_build_object('state', state, 'reason', reason, 'stopped_by', stopped_by,
		'decided_by', CASE WHEN i % 40 = 7 THEN 'lookup' WHEN state = 'cancelled' THEN 'deadline' ELSE 'attempt' END,
		'decided_at', to_char(ended_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), 'sequence', 1,
		'safe_to_resubmit', (state = 'cancelled'), 'next_action', next_action,
		'attempt', CASE WHEN state IN ('success', 'rejected') THEN tries ELSE 0 END,
		'status', CASE state WHEN 'success' THEN 201 WHEN 'rejected' THEN 422 ELSE 0 END,
		'reference', CASE WHEN state = 'success' THEN 'pay_' || i ELSE '' END) END,
	CASE WHEN state = 'unresolved' THEN next_action END
FROM seeds;

INSERT INTO command_requests (command_id, tenant, method, path, headers, body, body_kind, content_type, key_in, key_name, wire_key,
	params, field_hashes, metadata, submitted_by)
SELECT id, tenant, 'POST', '/payments', '[{"name":"Content-Type","value":"application/json"}]', convert_to('{"amount":' || i || ',"currency":"EUR"}', 'UTF8'),
	'replayable', 'application/json', 'header', 'Idempotency-Key', 'order-' || i, '{}', '',
	jsonb_build_object('order', 'o-' || i, 'customer', 'c-' || i % 50000, 'country', (ARRAY['DE', 'FR', 'NL'])[1 + i % 3]), 'seed'
FROM seeds;

-- Attempts that another followed brought a 503; the last one brought what became of
-- the command.
INSERT INTO attempts (command_id, number, tenant, upstream_id, epoch, instance, profile_version, started_at, send_deadline, latest_end,
	ended_at, evidence, stage, category, answer, status, boundary, rule, decision, reason, wait_ms, request, bytes_total, bytes_handed_over,
	body_sha256, response_headers, response_body, response_bytes, reference, rejection_code, rejection_message, timings, remote, protocol, budget_tokens)
SELECT id, n, tenant, upstream_id, (SELECT min(epoch) FROM leases), 'seeded-1', 1, began, began + interval '5 seconds', began + interval '20 seconds',
	CASE WHEN NOT running THEN began + interval '1 second' END, CASE WHEN NOT running THEN evidence END,
	CASE WHEN running THEN '' WHEN evidence = 'sent_no_response' THEN 'headers' WHEN evidence = 'not_sent' THEN 'connect' ELSE 'done' END,
	CASE WHEN running THEN '' WHEN evidence = 'sent_no_response' THEN 'header_timeout' WHEN evidence = 'not_sent' THEN 'connect_refused' ELSE 'none' END,
	CASE WHEN running THEN '' ELSE answer END,
	CASE WHEN running OR answer = '' THEN 0 ELSE (ARRAY[201, 422, 503, 429])[array_position(ARRAY['applied', 'refused', 'unclear', 'declined'], answer)] END,
	CASE WHEN running THEN '' WHEN answer = 'applied' THEN 'crossed' WHEN answer IN ('refused', 'declined') OR evidence = 'not_sent' THEN 'not_crossed' ELSE 'possibly_crossed' END,
	CASE WHEN last THEN 0 ELSE 9 END, CASE WHEN running THEN '' WHEN last THEN 'close' ELSE 'retry' END, CASE WHEN running THEN '' ELSE 'status_503' END,
	CASE WHEN NOT last THEN 1000 END, '{"method":"POST","url":"https://up.example/payments","headers":[{"name":"Content-Type","value":"application/json"}]}',
	40, 240, '\x00', '{"Content-Type":["application/json"]}', CASE WHEN answer <> '' THEN convert_to('{"id":"pay_' || i || '"}', 'UTF8') END, 18,
	CASE WHEN answer = 'applied' THEN 'pay_' || i ELSE '' END, CASE WHEN answer = 'refused' THEN 'card_declined' ELSE '' END,
	CASE WHEN answer = 'refused' THEN 'The card was declined.' ELSE '' END, '{"permit":0.2,"dns":1.1,"connect":3.5,"tls":8.2,"write":0.3,"headers":120.5,"body":0.8}',
	'203.0.113.7:443', 'HTTP/1.1', 9
FROM (
	SELECT s.*, n, n = tries AS last, at + (n - 1) * interval '2 seconds' AS began, state = 'executing' AND n = tries AS running,
		CASE WHEN n < tries THEN 'response_received' WHEN state = 'unresolved' AND reason = 'no_response' THEN 'sent_no_response'
			WHEN state = 'unresolved' AND reason = 'partial_response' THEN 'partial_response' WHEN state = 'cancelled' AND reason <> 'declined' THEN 'not_sent'
			ELSE 'response_received' END AS evidence,
		CASE WHEN state = 'success' AND n = tries THEN 'applied' WHEN state = 'rejected' AND n = tries THEN 'refused' WHEN state = 'cancelled' AND reason = 'declined' THEN 'declined'
			WHEN state IN ('cancelled') THEN '' WHEN n < tries OR reason = 'unclear_response' THEN 'unclear' ELSE '' END AS answer
	FROM seeds s, generate_series(1, s.tries) n
	WHERE state <> 'pending' AND reason IS DISTINCT FROM 'never_sent'
) a;

INSERT INTO events (command_id, number, id, tenant, type, at, sequence, data)
SELECT id, 2 * tries + 1, gen_random_uuid(), tenant, 'command.' || state, ended_at, 1,
	json_build_object('state', state, 'reason', reason, 'decided_at', ended_at, 'sequence', 1, 'previous_state', NULL)
FROM seeds WHERE reason IS NOT NULL;

INSERT INTO doubts (command_id, tenant, upstream_id, since, next_at, gives_up_at, rounds, lookups, unknown, assignee, handed_at, handed_reason,
	operation, deadline, reason, evidence)
SELECT id, tenant, upstream_id, ended_at, CASE WHEN next_action = 'lookup' THEN now() + i % 3600 * interval '1 second' END, ended_at + interval '72 hours',
	2, 2, 2, CASE WHEN i % 7 = 0 THEN 'alice' ELSE '' END, CASE WHEN next_action = 'review' THEN ended_at + interval '1 hour' END,
	CASE WHEN next_action = 'review' THEN (ARRAY['no_lookup', 'schedule_used_up', 'lookup_unavailable'])[1 + i % 3] ELSE '' END,
	'pay', at + interval '30 minutes', reason,
	CASE reason WHEN 'no_response' THEN 'sent_no_response' WHEN 'partial_response' THEN 'partial_response' ELSE 'response_received' END
FROM seeds WHERE state = 'unresolved';

INSERT INTO lookups (command_id, tenant, round, question, instance, profile_version, started_at, ended_at, request, category, finding, counts, status)
SELECT id, tenant, n, 1, 'seeded-1', 1, ended_at + n * interval '1 minute', ended_at + n * interval '1 minute', '{"method":"GET","url":"https://up.example/payments","headers":[]}',
	'', 'unknown', false, 500
FROM seeds, generate_series(1, 2) n WHERE state = 'unresolved';

INSERT INTO findings (command_id, tenant, at, source, actor, evidence, answer, status, reference, observation, effect, finding)
SELECT id, tenant, ended_at, 'lookup', 'seeded-1', '', '', 200, 'pay_' || i, '{}', 'settled', 'applied'
FROM seeds WHERE state = 'success' AND i % 40 = 7;
INSERT INTO findings (command_id, tenant, at, source, actor, status, observation, effect, finding, code, message)
SELECT id, tenant, ended_at + interval '1 minute', 'notice', 'up', 0, '{}', 'conflict', 'refused', 'reversed', 'The payment was reversed.'
FROM (SELECT * FROM seeds WHERE state = 'success' AND tenant = 'default' ORDER BY i % 977, i LIMIT current_setting('seed.conflicts')::int) s;

INSERT INTO webhook_endpoints (id, tenant, url, description, events, upstreams, ordered, created_at, updated_at)
SELECT gen_random_uuid(), t, 'https://hooks.example/' || t, 'Seeded', '{}', '{}', false, now(), now() FROM unnest(ARRAY['default', 'other']) t;
INSERT INTO webhook_events (id, tenant, command_id, sequence, type, at, payload)
SELECT e.id, e.tenant, e.command_id, 1, e.type, e.at, convert_to('{"type":"' || e.type || '"}', 'UTF8')
FROM seeds s JOIN events e ON e.command_id = s.id WHERE s.i % 10 IN (0, 9);
INSERT INTO webhook_deliveries (event_id, endpoint_id, tenant, command_id, sequence, type, at, state, next_at, tries, ended_at, status, failure)
SELECT w.id, e.id, w.tenant, w.command_id, 1, w.type, w.at, state, CASE WHEN state = 'pending' THEN now() + interval '1 hour' ELSE w.at END, 1,
	CASE WHEN state <> 'pending' THEN w.at + interval '1 second' END, CASE WHEN state = 'delivered' THEN 204 ELSE 500 END, CASE WHEN state = 'delivered' THEN '' ELSE 'refused' END
FROM webhook_events w JOIN webhook_endpoints e ON e.tenant = w.tenant,
	LATERAL (SELECT CASE WHEN w.at > now() - interval '10 seconds' * 60 AND hashtext(w.id::text) % 5 = 0 THEN 'pending' WHEN hashtext(w.id::text) % 100 = 1 THEN 'failed' ELSE 'delivered' END AS state) s;
INSERT INTO webhook_tries (delivery_id, number, tenant, instance, at, duration_ms, status, failure)
SELECT id, 1, tenant, 'seeded-1', at, 20, status, failure FROM webhook_deliveries;

INSERT INTO tally_totals (tenant, upstream_id, what, stock)
SELECT tenant, upstream_id, 'accepted', count(*) FROM seeds GROUP BY 1, 2
UNION ALL
SELECT tenant, upstream_id, state, count(*) FROM seeds WHERE reason IS NOT NULL GROUP BY 1, 2, 3;
INSERT INTO tallies (tenant, span, at, upstream_id, what, n)
SELECT tenant, span, date_trunc(span, at, 'UTC'), upstream_id, what, sum(n)
FROM (
	SELECT *, CASE WHEN at >= now() - interval '3 hours' THEN 'minute' WHEN at >= now() - interval '8 days' THEN 'hour' ELSE 'day' END AS span
	FROM (
		SELECT tenant, upstream_id, 'accepted' AS what, at, 1 AS n FROM seeds
		UNION ALL SELECT tenant, upstream_id, state, ended_at, 1 FROM seeds WHERE reason IS NOT NULL
		UNION ALL SELECT tenant, upstream_id, 'retried', ended_at, tries - 1 FROM seeds WHERE tries > 1 AND reason IS NOT NULL
	) happened
) spans
GROUP BY 1, 2, 3, 4, 5;
