package postgres

import (
	"github.com/stele-go/stele/postgres/internal/pgdb"
)

// statements are the texts that calls send, with the schema before each table. Those that
// write follow the lock of the thread in their transaction, so that each sees what all
// earlier calls of stele left.
type statements struct {
	touch                                  string
	put, putWrites, putTrace               string
	named, newest, listed                  tupleStatements
	attempt, ttl                           string
	deleteRemember                         string
	deleteTables                           []string
	lease, renew, release, fence           string
	chain, chainWrites                     string
	threadIDs, ownThreadIDs, threadID      string
	writesAlone                            string
	threadHeads, threadWrites, threadCalls string
	schema                                 string
}

func newStatements(schema string) *statements {
	q := func(sql string) string { return pgdb.Qualify(schema, sql) }
	st := &statements{schema: schema}

	st.touch = q(`
INSERT INTO @.stele_threads (thread_id, updated_at) VALUES ($1, $2)
ON CONFLICT (thread_id) DO UPDATE SET updated_at = EXCLUDED.updated_at`)

	const call = `$1::bigint, $2::uuid, $3::timestamptz, $4::bigint, $5::timestamptz, $6::text, $7::text, $8::text, `
	st.put = q(`SELECT @.stele_put(` + call + `$9::text, $10::text, $11::text, $12::text, $13::text[],
	$14::text[], $15::text[], $16::text[], $17::bytea[], $18::bool[], $19::int, $20::bool, $21::text, $22::text, $23::bytea,
	$24::text[], $25::text[], $26::text[], $27::int[], $28::text[], $29::text[], $30::bytea[], $31::text[], $32::text[], $33::text[], $34::bool[])`)
	st.putWrites = q(`SELECT @.stele_put_writes(` + call + `
	$9::text[], $10::text[], $11::text[], $12::int[], $13::text[], $14::text[], $15::bytea[], $16::text[], $17::text[], $18::text[], $19::bool[])`)

	st.putTrace = q(`
SELECT EXISTS (SELECT FROM @.stele_checkpoints WHERE thread_id = $1 AND checkpoint_ns = $2 AND checkpoint_id = $3 AND call = $4)`)

	st.named = st.tuples(`thread_id = $1 AND checkpoint_ns = $2 AND checkpoint_id = $3`)
	st.newest = st.tuples(`thread_id = $1 AND checkpoint_ns = $2 ORDER BY checkpoint_id DESC LIMIT 1`)

	st.listed = st.tuples(`(thread_id, checkpoint_ns, checkpoint_id) IN (SELECT * FROM unnest($1::text[], $2::text[], $3::text[]))`)

	st.writesAlone = q(`
SELECT w.thread_id, w.checkpoint_ns, w.checkpoint_id, w.task_id, w.task_path, w.idx, w.channel, coalesce(w.type, ''), w.blob
FROM @.checkpoint_writes w LEFT JOIN @.checkpoints c USING (thread_id, checkpoint_ns, checkpoint_id)
WHERE w.thread_id = $1 AND c.thread_id IS NULL`)

	st.attempt = q(`
INSERT INTO @.stele_checkpoints AS s (thread_id, checkpoint_ns, checkpoint_id, attempts)
SELECT thread_id, checkpoint_ns, checkpoint_id, 1 FROM @.checkpoints
WHERE thread_id = $1 AND checkpoint_ns = $2 AND ($3 = '' OR checkpoint_id = $3) ORDER BY checkpoint_id DESC LIMIT 1
ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id) DO UPDATE SET attempts = s.attempts + 1
RETURNING attempts`)

	st.ttl = q(`SELECT coalesce((SELECT ttl FROM @.stele_threads WHERE thread_id = $1), 0)`)

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
	q := func(sql string) string { return pgdb.Qualify(st.schema, t+where+sql) }
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
