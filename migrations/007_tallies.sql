-- +goose Up

-- How many commands there are in each state, and how many came to it in each
-- minute, without counting the table. Whoever accepts or moves commands adds a row
-- of differences in the same statement; nobody updates anything, so that no two
-- transactions meet. A duty folds them into the two tables below. A reader adds up
-- all three in one snapshot.
CREATE TABLE tally_deltas (
	tenant      text NOT NULL,
	upstream_id bigint NOT NULL,
	at          timestamptz NOT NULL, -- the minute
	what        text NOT NULL CHECK (what IN ('accepted', 'success', 'rejected', 'unresolved', 'cancelled', 'retried')),
	n           integer NOT NULL,     -- how often it happened
	stock       integer NOT NULL      -- by how much the number of commands in that state changed
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- The number of commands in a state; of accepted, the number of commands.
CREATE TABLE tally_totals (
	tenant      text NOT NULL,
	upstream_id bigint NOT NULL,
	what        text NOT NULL CHECK (what IN ('accepted', 'success', 'rejected', 'unresolved', 'cancelled', 'retried')),
	stock       bigint NOT NULL,
	PRIMARY KEY (tenant, upstream_id, what)
);

-- How often it happened in the time that begins at that moment (UTC): minutes of the
-- last hours, hours of the last days, and days.
CREATE TABLE tallies (
	tenant      text NOT NULL,
	span        text NOT NULL CHECK (span IN ('minute', 'hour', 'day')),
	at          timestamptz NOT NULL,
	upstream_id bigint NOT NULL,
	what        text NOT NULL CHECK (what IN ('accepted', 'success', 'rejected', 'unresolved', 'cancelled', 'retried')),
	n           bigint NOT NULL,
	PRIMARY KEY (tenant, span, at, upstream_id, what)
);
CREATE INDEX tallies_old ON tallies (span, at);

-- Nothing is accepted or moved between this count and the first row of differences.
LOCK TABLE commands IN SHARE ROW EXCLUSIVE MODE;

INSERT INTO tally_totals (tenant, upstream_id, what, stock)
SELECT tenant, upstream_id, 'accepted', count(*) FROM commands GROUP BY 1, 2
UNION ALL
SELECT tenant, upstream_id, state, count(*) FROM commands WHERE state NOT IN ('pending', 'executing') GROUP BY 1, 2, 3;

-- Of the outcomes before now each command's last one is known, and no retry.
INSERT INTO tallies (tenant, span, at, upstream_id, what, n)
SELECT tenant, span, date_trunc(span, at, 'UTC'), upstream_id, what, count(*)
FROM (
	SELECT tenant, upstream_id, what, at,
		CASE WHEN at >= now() - interval '3 hours' THEN 'minute' WHEN at >= now() - interval '8 days' THEN 'hour' ELSE 'day' END AS span
	FROM (
		SELECT tenant, upstream_id, 'accepted' AS what, created_at AS at FROM commands
		UNION ALL
		SELECT tenant, upstream_id, state, finalized_at FROM commands WHERE finalized_at IS NOT NULL AND state NOT IN ('pending', 'executing')
	) happened
) spans
GROUP BY 1, 2, 3, 4, 5;

-- What the review queue is filtered and sorted by, beside the doubt itself, so that
-- a filter that leaves nearly everything out reads no other table.
ALTER TABLE doubts
	ADD COLUMN operation text NOT NULL DEFAULT '',
	ADD COLUMN deadline  timestamptz NOT NULL DEFAULT 'epoch', -- the command's, when it became unresolved
	ADD COLUMN reason    text NOT NULL DEFAULT '',             -- of the outcome
	ADD COLUMN evidence  text NOT NULL DEFAULT ''              -- of the last attempt that may have acted
		CHECK (evidence IN ('', 'not_sent', 'sent_no_response', 'response_received', 'partial_response'));

UPDATE doubts d SET operation = c.operation, deadline = c.deadline, reason = coalesce(c.outcome ->> 'reason', ''),
	evidence = coalesce((
		SELECT coalesce(l.evidence, a.evidence)
		FROM attempts a
		LEFT JOIN LATERAL (
			SELECT evidence, answer FROM findings f
			WHERE f.command_id = a.command_id AND f.attempt_number = a.number AND f.source = 'late_evidence'
			ORDER BY f.id DESC LIMIT 1) l ON true
		WHERE a.command_id = c.id AND a.ended_at IS NOT NULL AND a.boundary <> 'not_crossed'
			AND coalesce(l.evidence, a.evidence) <> 'not_sent' AND coalesce(l.answer, a.answer) NOT IN ('refused', 'declined')
		ORDER BY a.number DESC LIMIT 1), '')
FROM commands c WHERE c.id = d.command_id;
CREATE INDEX doubts_review_deadline ON doubts (tenant, deadline, command_id) WHERE handed_at IS NOT NULL;

-- +goose Down
DROP INDEX doubts_review_deadline;
ALTER TABLE doubts DROP COLUMN evidence, DROP COLUMN reason, DROP COLUMN deadline, DROP COLUMN operation;
DROP TABLE tallies, tally_totals, tally_deltas;
