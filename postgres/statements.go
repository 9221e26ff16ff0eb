package postgres

// statements are the texts that calls send, with the schema before each table. Those that
// write follow the lock of the thread in their transaction, so that each sees what all
// earlier calls of stele left.
type statements struct {
	void, touch                                             string
	putGuard, putBlobs, putUnblob, putCheckpoint, putBeside string
	putTrace                                                string
	writesGuard, writes, calls                              string
	named, newest                                           tupleStatements
	attempt                                                 string
	voidGuard, deleteRemember                               string
	deleteTables                                            []string
	lease, renew, release, fence                            string
	chain, chainWrites                                      string
	threadIDs, threadHeads, threadWrites, threadCalls       string
	schema                                                  string
}

func newStatements(schema string) *statements {
	q := func(sql string) string { return qualify(schema, sql) }
	st := &statements{schema: schema}

	st.void = q(`INSERT INTO @.stele_voided (call, at) VALUES ($1, $2) ON CONFLICT DO NOTHING`)

	st.touch = q(`
INSERT INTO @.stele_threads (thread_id, updated_at) VALUES ($1, $2)
ON CONFLICT (thread_id) DO UPDATE SET updated_at = EXCLUDED.updated_at`)

	// $1 thread, $2 namespace, $3 id, $4 call, $5 since when deletions are remembered, $6
	// parent, $7 where values come from, $8 expected head or NULL, $9 checkpoints that the
	// writes of the request hang on, $10 epoch or 0. The first row that comes ends the
	// transaction.
	st.putGuard = q(`
SELECT @.stele_refuse(code, detail) FROM (
	SELECT '` + refusedVoided + `' AS code, '' AS detail
	WHERE EXISTS (SELECT FROM @.stele_voided WHERE call = $4)
UNION ALL
	SELECT '` + refusedFenced + `', '' WHERE $10::bigint <> 0 AND NOT EXISTS (
		SELECT FROM @.stele_leases WHERE thread_id = $1 AND epoch = $10)
UNION ALL
	SELECT '` + refusedParent + `', $6::text FROM @.stele_deleted d
	WHERE d.thread_id = $1 AND d.at >= $5 AND $6 <> '' AND NOT EXISTS (
		SELECT FROM @.checkpoints WHERE thread_id = $1 AND checkpoint_ns = $2 AND checkpoint_id = $6)
UNION ALL
	SELECT '` + refusedWrites + `', n.id FROM @.stele_deleted d CROSS JOIN unnest($9::text[]) n(id)
	WHERE d.thread_id = $1 AND d.at >= $5 AND n.id <> $3 AND n.id <= d.greatest_id COLLATE "C" AND NOT EXISTS (
		SELECT FROM @.checkpoints WHERE thread_id = $1 AND checkpoint_ns = $2 AND checkpoint_id = n.id)
UNION ALL
	SELECT '` + refusedSource + `', $7::text
	WHERE $7 <> '' AND NOT EXISTS (
		SELECT FROM @.checkpoints WHERE thread_id = $1 AND checkpoint_ns = $2 AND checkpoint_id = $7)
UNION ALL
	SELECT '` + refusedConflict + `', head.id FROM (SELECT coalesce((
		SELECT checkpoint_id FROM @.checkpoints WHERE thread_id = $1 AND checkpoint_ns = $2
		ORDER BY checkpoint_id DESC LIMIT 1), '') AS id) head
	WHERE head.id <> $8::text
) refusals`)

	// $1 thread, $2 namespace, $3 id; the channels that got a version: $4 names, $5
	// versions, $6 kinds, NULL for no blob, $7 blobs, $8 whether nobody else can have the
	// version. The final SELECT sees the blobs as they were. A channel is refused if another
	// checkpoint has the same version of it and would read something else afterwards:
	// because the blob differs, or because there is none so far, which is seen by looking at
	// all checkpoints of the namespace.
	st.putBlobs = q(`
WITH f AS MATERIALIZED (
	SELECT * FROM unnest($4::text[], $5::text[], $6::text[], $7::bytea[], $8::bool[]) f(channel, version, kind, blob, minted)
), stored AS (
	INSERT INTO @.checkpoint_blobs AS b (thread_id, checkpoint_ns, channel, version, type, blob)
	SELECT $1, $2, channel, version, kind, blob FROM f WHERE kind IS NOT NULL
	ON CONFLICT (thread_id, checkpoint_ns, channel, version)
	DO UPDATE SET type = EXCLUDED.type, blob = EXCLUDED.blob
	WHERE (b.type, b.blob) IS DISTINCT FROM (EXCLUDED.type, EXCLUDED.blob)
)
SELECT @.stele_refuse('` + refusedTaken + `', f.channel)
FROM f LEFT JOIN @.checkpoint_blobs b
	ON b.thread_id = $1 AND b.checkpoint_ns = $2 AND b.channel = f.channel AND b.version = f.version AND b.type <> 'empty'
WHERE CASE WHEN b.channel IS NOT NULL THEN (b.type, b.blob) IS DISTINCT FROM (f.kind, f.blob)
	ELSE f.kind IS NOT NULL AND NOT f.minted END
AND EXISTS (
	SELECT FROM @.checkpoints c WHERE c.thread_id = $1 AND c.checkpoint_ns = $2 AND c.checkpoint_id <> $3
	AND c.checkpoint -> 'channel_versions' ->> f.channel = f.version)`)

	// A blob would be read before the value that stands in the checkpoint. It is there only
	// if this checkpoint was put before: putBlobs has looked.
	st.putUnblob = q(`
DELETE FROM @.checkpoint_blobs b USING unnest($3::text[], $4::text[], $5::text[]) f(channel, version, kind)
WHERE f.kind IS NULL AND b.thread_id = $1 AND b.checkpoint_ns = $2 AND b.channel = f.channel AND b.version = f.version`)

	// $1 thread, $2 namespace, $3 id, $4 parent, $5 where unchanged values come from, $6
	// checkpoint, $7 metadata, $8 the unchanged channels, $9 their versions as JSON. Blobs
	// need nothing: they are found by their versions. What stands in the checkpoint is
	// copied from the source if that has the same version, else from the checkpoint that
	// got it last: one whose parent does not have it.
	st.putCheckpoint = q(`
WITH u AS (
	SELECT u.channel, u.version::jsonb AS version,
		source.checkpoint -> 'channel_versions' -> u.channel = u.version::jsonb AS same,
		source.checkpoint -> 'channel_values' -> u.channel AS value
	FROM unnest($8::text[], $9::text[]) u(channel, version)
	LEFT JOIN @.checkpoints source ON source.thread_id = $1 AND source.checkpoint_ns = $2 AND source.checkpoint_id = $5
), inherited AS (
	SELECT channel, value FROM u WHERE same
UNION ALL
	SELECT u.channel, last.value FROM u CROSS JOIN LATERAL (
		SELECT c.checkpoint -> 'channel_values' -> u.channel AS value
		FROM @.checkpoints c LEFT JOIN @.stele_checkpoints s USING (thread_id, checkpoint_ns, checkpoint_id)
		WHERE c.thread_id = $1 AND c.checkpoint_ns = $2 AND c.checkpoint -> 'channel_versions' -> u.channel = u.version
		AND NOT EXISTS (
			SELECT FROM @.checkpoints p
			WHERE p.thread_id = $1 AND p.checkpoint_ns = $2 AND p.checkpoint_id = c.parent_checkpoint_id
			AND p.checkpoint -> 'channel_versions' -> u.channel = u.version)
		ORDER BY s.seq DESC NULLS LAST, c.checkpoint_id DESC LIMIT 1
	) last WHERE u.same IS NOT TRUE
)
INSERT INTO @.checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint, metadata)
SELECT $1, $2, $3, nullif($4, ''),
	jsonb_set($6::jsonb, '{channel_values}',
		coalesce((SELECT jsonb_object_agg(channel, value) FROM inherited WHERE value IS NOT NULL), '{}') || ($6::jsonb -> 'channel_values')),
	$7::jsonb
ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id) DO UPDATE SET
	parent_checkpoint_id = EXCLUDED.parent_checkpoint_id, checkpoint = EXCLUDED.checkpoint, metadata = EXCLUDED.metadata`)

	st.putBeside = q(`
INSERT INTO @.stele_checkpoints (thread_id, checkpoint_ns, checkpoint_id, note, call) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id) DO UPDATE SET note = EXCLUDED.note, call = EXCLUDED.call, seq = DEFAULT`)

	st.putTrace = q(`
SELECT EXISTS (SELECT FROM @.stele_checkpoints WHERE thread_id = $1 AND checkpoint_ns = $2 AND checkpoint_id = $3 AND call = $4)`)

	// $1 thread, $2 namespace, $3 id, $4 call, $5 since when deletions are remembered, $6
	// epoch or 0.
	st.writesGuard = q(`
SELECT @.stele_refuse(code, detail) FROM (
	SELECT '` + refusedVoided + `' AS code, '' AS detail
	WHERE EXISTS (SELECT FROM @.stele_voided WHERE call = $4)
UNION ALL
	SELECT '` + refusedFenced + `', '' WHERE $6::bigint <> 0 AND NOT EXISTS (
		SELECT FROM @.stele_leases WHERE thread_id = $1 AND epoch = $6)
UNION ALL
	SELECT '` + refusedWrites + `', $3::text FROM @.stele_deleted d
	WHERE d.thread_id = $1 AND d.at >= $5 AND NOT (
		EXISTS (SELECT FROM @.checkpoints WHERE thread_id = $1) AND ($3 > d.greatest_id COLLATE "C" OR EXISTS (
			SELECT FROM @.checkpoints WHERE thread_id = $1 AND checkpoint_ns = $2 AND checkpoint_id = $3)))
) refusals`)

	// At an index the first write stays, below zero, on LangGraph's special channels, the
	// last.
	st.writes = q(`
INSERT INTO @.checkpoint_writes AS w (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob)
SELECT $1, $2, u.* FROM unnest($3::text[], $4::text[], $5::text[], $6::int[], $7::text[], $8::text[], $9::bytea[]) u
ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id, task_id, idx) DO UPDATE SET
	channel = EXCLUDED.channel, type = EXCLUDED.type, blob = EXCLUDED.blob, task_path = EXCLUDED.task_path
WHERE w.idx < 0`)

	st.calls = q(`
INSERT INTO @.stele_calls (thread_id, checkpoint_ns, checkpoint_id, task_id, channels)
SELECT $1, $2, u.id, u.task, u.channels
FROM unnest($3::text[], $4::text[], $5::text[], $6::bool[]) WITH ORDINALITY u(id, task, channels, special, n)
WHERE u.special OR EXISTS (
	SELECT FROM @.stele_calls WHERE thread_id = $1 AND checkpoint_ns = $2 AND checkpoint_id = u.id)
ORDER BY u.n`)

	st.named = st.tuples(`thread_id = $1 AND checkpoint_ns = $2 AND checkpoint_id = $3`)
	st.newest = st.tuples(`thread_id = $1 AND checkpoint_ns = $2 ORDER BY checkpoint_id DESC LIMIT 1`)

	st.attempt = q(`
INSERT INTO @.stele_checkpoints AS s (thread_id, checkpoint_ns, checkpoint_id, attempts)
SELECT thread_id, checkpoint_ns, checkpoint_id, 1 FROM @.checkpoints
WHERE thread_id = $1 AND checkpoint_ns = $2 AND ($3 = '' OR checkpoint_id = $3) ORDER BY checkpoint_id DESC LIMIT 1
ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id) DO UPDATE SET attempts = s.attempts + 1
RETURNING attempts`)

	st.voidGuard = q(`
SELECT @.stele_refuse('` + refusedVoided + `', '') WHERE EXISTS (SELECT FROM @.stele_voided WHERE call = $1)`)

	// $1 thread, $2 now, $3 since when deletions are remembered. A thread that is not there
	// leaves no row.
	st.deleteRemember = q(`
INSERT INTO @.stele_deleted AS d (thread_id, greatest_id, at)
SELECT $1, max(id COLLATE "C"), $2 FROM (
	SELECT checkpoint_id AS id FROM @.checkpoints WHERE thread_id = $1
	UNION ALL SELECT checkpoint_id FROM @.checkpoint_writes WHERE thread_id = $1) ids
HAVING count(*) > 0
ON CONFLICT (thread_id) DO UPDATE SET at = EXCLUDED.at,
	greatest_id = CASE WHEN d.at >= $3 THEN greatest(d.greatest_id COLLATE "C", EXCLUDED.greatest_id) ELSE EXCLUDED.greatest_id END`)

	for _, table := range threadTables {
		st.deleteTables = append(st.deleteTables, q(`DELETE FROM @.`+table+` WHERE thread_id = $1`))
	}
	st.ownerStatements(q)
	st.threadStatements(q)
	st.chainStatements(q)
	return st
}

// threadTables have the rows that go with a thread.
var threadTables = []string{"checkpoints", "checkpoint_blobs", "checkpoint_writes", "stele_checkpoints", "stele_calls", "stele_threads"}

// tupleStatements read the checkpoints that a condition selects, all with its parameters.
type tupleStatements struct{ checkpoints, blobs, writes, packets string }

// tuples makes the statements for a condition on checkpoints, which may go on with ORDER BY
// and LIMIT.
func (st *statements) tuples(where string) tupleStatements {
	const t = `WITH t AS MATERIALIZED (SELECT * FROM @.checkpoints WHERE `
	q := func(sql string) string { return qualify(st.schema, t+where+sql) }
	return tupleStatements{
		checkpoints: q(`)
SELECT t.thread_id, t.checkpoint_ns, t.checkpoint_id, coalesce(t.parent_checkpoint_id, ''), t.checkpoint, t.metadata, s.note
FROM t LEFT JOIN @.stele_checkpoints s USING (thread_id, checkpoint_ns, checkpoint_id)
ORDER BY t.checkpoint_id DESC, t.thread_id, t.checkpoint_ns`),
		blobs: q(`), v AS (
	SELECT DISTINCT t.thread_id, t.checkpoint_ns, v.key, v.value
	FROM t CROSS JOIN LATERAL jsonb_each_text(t.checkpoint -> 'channel_versions') v)
SELECT b.thread_id, b.checkpoint_ns, b.channel, b.version, b.type, b.blob
FROM v JOIN @.checkpoint_blobs b
	ON b.thread_id = v.thread_id AND b.checkpoint_ns = v.checkpoint_ns AND b.channel = v.key AND b.version = v.value
WHERE b.type <> 'empty'`),
		writes: q(`)
SELECT w.thread_id, w.checkpoint_ns, w.checkpoint_id, w.task_id, w.task_path, w.idx, w.channel, coalesce(w.type, ''), w.blob
FROM t JOIN @.checkpoint_writes w USING (thread_id, checkpoint_ns, checkpoint_id)`),
		packets: q(`)
SELECT t.thread_id, t.checkpoint_ns, t.checkpoint_id, w.task_id, w.task_path, w.idx, w.channel, coalesce(w.type, ''), w.blob
FROM t JOIN @.checkpoint_writes w
	ON w.thread_id = t.thread_id AND w.checkpoint_ns = t.checkpoint_ns AND w.checkpoint_id = t.parent_checkpoint_id
WHERE (t.checkpoint ->> 'v')::int < 4 AND w.channel = '__pregel_tasks'`),
	}
}
