package pgqueue

import (
	"strings"

	"github.com/stele-go/stele/runs"

	"github.com/stele-go/stele/postgres/internal/pgdb"
)

// statements are the texts that a Queue sends, with the schema before each table.
type statements struct {
	get, all, changedBy, appendedBy, claimedBy string
	busy, submit, submitted                    string
	cancel, cancelOthers, retry                string
	claim, giveUp, renew, mark, finish, append string
	wake                                       string
	holds                                      string
	startedBy, childRuns, output               string
	events, sweep, remove, notify              string
	putSchedule, schedules, advance            string
	deleteSchedule, depth                      string
	serve, leave, versions                     string
}

// refusedBusy is the code of stele_refuse for a thread with a run that has not ended.
const refusedBusy = "busy"

// runColumns are the columns of the table r that runRow scans.
const runColumns = `r.id, r.key, r.status, coalesce(r.attempt, 0), coalesce(r.waiting, false), r.error, r.cancel, r.worker, coalesce(r.epoch, 0), r.mark,
	r.spec, r.after_at, r.created_at, r.started_at, r.ended_at, r.changed_by,
	r.version, coalesce(r.pinned, false), r.parent, coalesce(r.detached, false)`

// clockOf is a table of one row: the time, which is parameter n, or the server's.
func clockOf(n string) string {
	return `t AS MATERIALIZED (SELECT coalesce(` + n + `::timestamptz, clock_timestamp()) AS now)`
}

// lastEvent stores the last event of the runs in table r that have ended.
func lastEvent(kind, data string) string {
	return `last AS (
	INSERT INTO @.stele_run_events (run_id, seq, attempt, kind, data_kind, data, at)
	SELECT r.id, r.events, r.attempt, 'end', ` + kind + `, ` + data + `, t.now FROM r, t WHERE r.ended_at IS NOT NULL
)`
}

// seesMarks is true if the end of a run sees the marks of submissions that it has waited for. At
// another isolation level, which may be the server's default, a transaction sees only the state at its
// beginning.
const seesMarks = `current_setting('transaction_isolation') = 'read committed'`

func newStatements(schema string) *statements {
	q := func(sql string) string { return pgdb.Qualify(schema, sql) }
	st := &statements{}
	// A thread with this name, whose runs have all ended, may go on and ask how its children have ended.
	mayAsk := func(thread string) string {
		return `coalesce((SELECT p.waiting OR p.status = 'error' FROM @.stele_runs p WHERE p.thread_id = ` + thread + `
	AND p.ended_at IS NOT NULL AND p.epoch > 0 ORDER BY p.ended_at DESC, p.seq DESC LIMIT 1), false)`
	}

	st.all = q(`SELECT ` + runColumns + ` FROM @.stele_runs r`)
	st.get = st.all + ` WHERE id = $1`
	st.changedBy = q(`SELECT EXISTS (SELECT FROM @.stele_runs WHERE id = $1 AND changed_by = $2)`)
	st.appendedBy = q(`SELECT seq FROM @.stele_run_events WHERE run_id = $1 AND call = $2`)
	st.notify = `SELECT pg_notify($1::text, $2::text)`

	// $1 thread, $2 id, $3 key or NULL.
	st.busy = q(`
SELECT @.stele_refuse('` + refusedBusy + `', o.id) FROM (
	SELECT id FROM @.stele_runs WHERE thread_id = $1 AND ended_at IS NULL
	AND NOT EXISTS (SELECT FROM @.stele_runs WHERE id = $2 OR key = $3) ORDER BY seq LIMIT 1) o`)

	// $1 id, $2 key, $3 the run that starts it, $4 epoch of its claim. The lock keeps that run from its end until the
	// child is there to see.
	st.startedBy = q(`
WITH p AS MATERIALIZED (SELECT id FROM @.stele_runs WHERE id = $3 AND epoch = $4 AND status = 'running' FOR SHARE)
SELECT CASE WHEN NOT EXISTS (SELECT FROM p) AND NOT EXISTS (SELECT FROM @.stele_runs WHERE id = $1 OR key = $2)
	THEN @.stele_refuse('` + pgdb.RefusedFenced + `', '')::text END`)

	// $1 id, $2 thread, $3 graph, $4 key or NULL, $5 priority, $6 attempts, $7 spec, $8 after or
	// NULL, $9 clock, $10 call, $11 parent or NULL, $12 detached. Who has the key already stays. seq is the order of
	// submission in a thread: its lock is held. A run on the thread of a child that has not ended has its parent. If
	// that has ended, the run is to be interrupted; the lock keeps it from its end, as above.
	st.submit = q(`
WITH ` + clockOf("$9") + `, ahead AS MATERIALIZED (
	SELECT FROM @.stele_runs WHERE thread_id = $2 AND ended_at IS NULL AND NOT behind
	AND (started_at IS NOT NULL OR after_at <= (SELECT now FROM t)) LIMIT 1
	FOR SHARE SKIP LOCKED
), last AS MATERIALIZED (
	SELECT parent, detached FROM (
		SELECT parent, detached, ended_at, waiting FROM @.stele_runs WHERE $11::text IS NULL AND thread_id = $2
		AND (epoch > 0 OR ended_at IS NULL) -- one that was cancelled before it was begun ends nothing
		ORDER BY id COLLATE "POSIX" DESC LIMIT 1) o
	WHERE parent IS NOT NULL AND (ended_at IS NULL OR waiting)
), open AS MATERIALIZED (
	SELECT FROM @.stele_runs WHERE thread_id = (SELECT parent FROM last) AND ended_at IS NULL FOR SHARE
)
INSERT INTO @.stele_runs (id, thread_id, graph, key, status, priority, attempts, spec, due_at, after_at, created_at, changed_by, behind,
	parent, detached, cancel)
SELECT $1, $2, $3, $4, 'pending', $5, $6, $7::json, greatest($8, t.now), greatest($8, t.now), t.now, $10,
	coalesce($8 <= t.now, true) AND ` + seesMarks + ` AND EXISTS (SELECT FROM ahead),
	coalesce($11, last.parent), coalesce(last.detached, $12),
	CASE WHEN last.parent IS NOT NULL AND NOT last.detached AND NOT EXISTS (SELECT FROM open) AND NOT ` + mayAsk("last.parent") + ` THEN 'interrupt' ELSE '' END
FROM t LEFT JOIN last ON true
ON CONFLICT DO NOTHING`)

	// $1 thread. The lock waits for an end under way.
	st.childRuns = st.all + ` WHERE thread_id = $1 ORDER BY id COLLATE "POSIX" FOR SHARE`

	// $1 run.
	st.output = q(`SELECT data_kind, data FROM @.stele_run_events WHERE run_id = $1 AND kind = '` + string(runs.KindOutput) + `' ORDER BY seq DESC LIMIT 1`)

	// $1 id, $2 key or NULL.
	st.submitted = st.all + ` WHERE id = $1 OR key = $2`

	// $1 id or thread, $2 how, $3 and $4 the data of the last event, $5 clock, $6 call, $7
	// channel. A run that no worker has is interrupted at once; one that was begun and is to be
	// rolled back needs a worker, but need not wait.
	cancel := func(which string) string {
		const atOnce = `(r.status = 'pending' AND (r.epoch = 0 OR $2 = 'interrupt' AND r.cancel <> 'rollback'))`
		return q(`
WITH ` + clockOf("$5") + `, r AS (
	UPDATE @.stele_runs r SET
		cancel = CASE WHEN r.cancel = 'rollback' THEN r.cancel ELSE $2 END,
		status = CASE WHEN ` + atOnce + ` THEN 'interrupted' ELSE r.status END,
		waiting = r.waiting AND NOT ` + atOnce + `, pinned = false,
		ended_at = CASE WHEN ` + atOnce + ` THEN t.now END,
		events = r.events + ` + atOnce + `::int,
		after_at = least(r.after_at, t.now),
		due_at = CASE WHEN r.status = 'running' THEN r.due_at WHEN NOT ` + atOnce + ` THEN least(r.after_at, t.now) END,
		changed_by = $6
	FROM t WHERE ` + which + ` AND r.ended_at IS NULL RETURNING r.*
), ` + lastEvent("$3", "$4") + `
SELECT pg_notify($7::text, id) FROM r UNION ALL SELECT pg_notify($7::text, '')`)
	}
	st.cancel = cancel(`r.id = $1`)
	// $8 the run that was submitted. If it was not, because another has its key, nothing is
	// cancelled.
	st.cancelOthers = cancel(`r.thread_id = $1 AND r.id <> $8 AND EXISTS (SELECT FROM @.stele_runs WHERE id = $8 AND changed_by = $6)`)

	// $1 id, $2 clock, $3 call, $4 channel.
	st.retry = q(`
WITH ` + clockOf("$2") + `, r AS (
	UPDATE @.stele_runs r SET status = 'pending', attempt = 0, cancel = '', error = '', waiting = false,
		after_at = t.now, due_at = t.now, started_at = NULL, ended_at = NULL, changed_by = $3
	FROM t WHERE r.id = $1 AND r.status IN ('error', 'interrupted') AND r.cancel <> 'rollback' RETURNING r.id
)
SELECT pg_notify($4::text, topic) FROM r, unnest(ARRAY[r.id, '']) topic`)

	// $1 worker, $2 graphs, $3 lease time in microseconds, $4 clock, $5 call, $6 channel. Thousands of runs may
	// sleep: if none is due, no run is looked at. A run that is pinned to a version of the worker comes first. The
	// scalar sub-selects keep the planner from joining all runs that wait with one another.
	before := func(what string) string {
		return `(SELECT ` + what + ` FROM @.stele_runs o
		WHERE o.thread_id = r.thread_id AND o.ended_at IS NOT NULL AND o.epoch > 0 AND o.id <> r.id
		ORDER BY o.ended_at DESC, o.seq DESC LIMIT 1)`
	}
	versionBefore := before("CASE o.graph WHEN r.graph THEN o.version END")
	discard := `coalesce(` + before("o.status = 'interrupted'") + `, false), ` + versionBefore
	// What a newer version stored so, it executes: see runs.CheckStored.
	const unknown = `(r.status NOT IN ('pending', 'running', 'success', 'error', 'interrupted') OR r.cancel NOT IN ('', 'interrupt', 'rollback'))`
	later := func(which string) string {
		return `(SELECT min(o.due_at) FROM @.stele_runs o WHERE ` + which + ` AND o.ended_at IS NULL
		AND o.graph = ANY($2::text[]) AND o.due_at > t.now)`
	}
	st.claim = q(`
WITH ` + clockOf("$4") + `, pinned AS MATERIALIZED (
	SELECT r.id, r.attempt >= r.attempts AS gone
	FROM @.stele_workers w CROSS JOIN unnest(w.graphs, w.versions) v(graph, version)
	JOIN @.stele_runs r ON r.graph = v.graph AND r.version = v.version
	WHERE w.worker = $1 AND r.graph = ANY($2::text[]) AND r.pinned AND r.ended_at IS NULL AND r.started_at IS NOT NULL
	AND r.status = 'pending' AND r.cancel = '' LIMIT 1
	FOR UPDATE OF r SKIP LOCKED
), due AS MATERIALIZED (
	SELECT r.id, r.attempt >= r.attempts AND r.cancel = '' AS gone
	FROM @.stele_runs r
	WHERE NOT EXISTS (SELECT FROM pinned) AND r.ended_at IS NULL AND NOT r.behind AND r.graph = ANY($2::text[]) AND r.due_at <= (SELECT now FROM t)
	AND NOT ` + unknown + ` AND (SELECT min(o.due_at) FROM @.stele_runs o WHERE o.ended_at IS NULL AND NOT o.behind) <= (SELECT now FROM t)
	AND (r.started_at IS NOT NULL
	OR (SELECT true FROM @.stele_runs o WHERE o.thread_id = r.thread_id AND o.started_at IS NOT NULL AND o.ended_at IS NULL LIMIT 1) IS NULL
	AND (SELECT true FROM @.stele_runs o WHERE o.thread_id = r.thread_id AND o.ended_at IS NULL
		AND o.seq < r.seq AND o.after_at <= (SELECT now FROM t) LIMIT 1) IS NULL)
	ORDER BY r.priority DESC, r.after_at, r.seq LIMIT 1
	FOR UPDATE OF r SKIP LOCKED
), next AS MATERIALIZED (SELECT * FROM pinned UNION ALL SELECT * FROM due), r AS (
	UPDATE @.stele_runs r SET status = 'running', waiting = false, worker = $1, pinned = false,
		version = coalesce(nullif(r.version, ''), nullif(` + versionBefore + `, ''),
			(SELECT w.versions[array_position(w.graphs, r.graph)] FROM @.stele_workers w WHERE w.worker = $1), ''), attempt = r.attempt + 1, epoch = r.epoch + 1,
		started_at = coalesce(r.started_at, t.now), due_at = t.now + $3 * interval '1 microsecond', claimed_by = $5
	FROM next, t WHERE r.id = next.id AND NOT next.gone RETURNING r.*
)
SELECT next.id, coalesce(next.gone, false),
	CASE WHEN next.id IS NULL THEN least(` + later("o.started_at IS NULL") + `, ` + later("NOT o.behind") + `) END,
	` + discard + `,
	CASE WHEN r.id IS NOT NULL THEN pg_notify($6::text, r.id)::text END,
	` + runColumns + `
FROM t LEFT JOIN next ON true LEFT JOIN r ON r.id = next.id`)

	// $1 call. The same columns.
	st.claimedBy = q(`
SELECT r.id, false, NULL::timestamptz, ` + discard + `, NULL::text, ` + runColumns + `
FROM @.stele_runs r WHERE r.claimed_by = $1 AND r.status = 'running'`)

	// $1 clock, $2 how many of each. Those that were begun are in one index, those that wait in another.
	st.depth = q(`
WITH ` + clockOf("$1") + `, r AS (
	(SELECT graph, status, CASE status WHEN 'running' THEN started_at ELSE after_at END AS since
	FROM @.stele_runs WHERE started_at IS NOT NULL AND ended_at IS NULL ORDER BY thread_id LIMIT $2)
	UNION ALL
	(SELECT graph, status, after_at FROM @.stele_runs WHERE started_at IS NULL AND ended_at IS NULL ORDER BY due_at LIMIT $2)
)
SELECT r.graph, r.status, count(*), greatest(extract(epoch FROM min(t.now) - min(r.since)), 0)::float8 FROM r, t
GROUP BY r.graph, r.status ORDER BY r.graph COLLATE "C", r.status COLLATE "C"`)

	// $1 clock, $2 how many of each, as above, or NULL. Those that are pinned are counted first: others may sleep in
	// such numbers that they would not be met.
	st.versions = q(`
WITH ` + clockOf("$1") + `, r AS (
	SELECT graph, version, count(*) AS runs, count(*) FILTER (WHERE pinned) AS pinned FROM (
		(SELECT graph, version, true AS pinned FROM @.stele_runs WHERE pinned AND ended_at IS NULL LIMIT $2::bigint)
		UNION ALL
		(SELECT graph, version, false FROM @.stele_runs WHERE started_at IS NOT NULL AND ended_at IS NULL AND NOT pinned LIMIT $2)
		UNION ALL
		(SELECT graph, version, false FROM @.stele_runs WHERE started_at IS NULL AND ended_at IS NULL AND NOT pinned LIMIT $2)) open
	GROUP BY graph, version
), w AS (
	SELECT v.graph, v.version, count(*) AS workers
	FROM t, @.stele_workers w, unnest(w.graphs, w.versions) v(graph, version) WHERE w.until > t.now GROUP BY v.graph, v.version
)
SELECT graph, version, coalesce(r.runs, 0), coalesce(r.pinned, 0), coalesce(w.workers, 0) FROM r FULL JOIN w USING (graph, version)
ORDER BY graph COLLATE "C", version COLLATE "C"`)

	// $1 worker, $2 graphs, $3 their versions, $4 for how long in microseconds, $5 clock. Who is dead is removed.
	st.serve = q(`
WITH ` + clockOf("$5") + `, dead AS (
	DELETE FROM @.stele_workers WHERE worker = ANY(ARRAY(
		SELECT w.worker FROM @.stele_workers w, t WHERE w.until <= t.now AND w.worker <> $1 FOR UPDATE OF w SKIP LOCKED))
), own AS (
	INSERT INTO @.stele_workers (worker, graphs, versions, until)
	SELECT $1, $2, $3, t.now + $4 * interval '1 microsecond' FROM t
	ON CONFLICT (worker) DO UPDATE SET graphs = EXCLUDED.graphs, versions = EXCLUDED.versions, until = EXCLUDED.until
)
SELECT DISTINCT v.graph, v.version FROM t, @.stele_workers w, unnest(w.graphs, w.versions) v(graph, version)
WHERE w.until > t.now AND w.worker <> $1`)

	// $1 worker.
	st.leave = q(`DELETE FROM @.stele_workers WHERE worker = $1`)

	// $1 id, $2 epoch, $3 error, $4 and $5 the data of the last event, $6 clock, $7 call, $8
	// channel.
	st.giveUp = q(`
WITH ` + clockOf("$6") + `, r AS (
	UPDATE @.stele_runs r SET status = 'error', error = CASE WHEN r.error = '' THEN $3 ELSE r.error END,
		ended_at = t.now, due_at = NULL, pinned = false, waiting = false, events = r.events + 1, changed_by = $7
	FROM t WHERE r.id = $1 AND r.epoch = $2 AND r.ended_at IS NULL AND r.due_at <= t.now AND r.attempt >= r.attempts AND r.cancel = ''
	RETURNING r.*
), ` + lastEvent("$4", "$5") + `
SELECT pg_notify($8::text, topic) FROM r, unnest(ARRAY[r.id, '']) topic`)

	// $1 ids, $2 epochs, $3 lease time in microseconds, $4 clock.
	st.renew = q(`
WITH ` + clockOf("$4") + `
UPDATE @.stele_runs r SET due_at = t.now + $3 * interval '1 microsecond'
FROM t, unnest($1::text[], $2::bigint[]) c(id, epoch)
WHERE r.id = c.id AND r.epoch = c.epoch AND r.status = 'running' AND NOT ` + unknown + ` RETURNING ` + runColumns)

	// What a claim allows begins with $1 id, $2 epoch, and refuses if it finds no row.
	fenced := func(channel string) string {
		return `CASE WHEN r.id IS NULL THEN @.stele_refuse('` + pgdb.RefusedFenced + `', '')::text ELSE pg_notify(` + channel + `::text, r.id)::text END`
	}

	// $3 mark, $4 channel, $5 version.
	st.mark = q(`
WITH r AS (
	UPDATE @.stele_runs SET mark = $3, version = $5 WHERE id = $1 AND epoch = $2 AND status = 'running' RETURNING id
)
SELECT ` + fenced("$4") + ` FROM (SELECT 1) one LEFT JOIN r ON true`)

	// $1 thread, $2 clock, $3 channel. A run that a worker has notes that it was woken.
	st.wake = q(`
WITH ` + clockOf("$2") + `, r AS (
	UPDATE @.stele_runs r SET waiting = true,
		after_at = CASE r.status WHEN 'pending' THEN least(r.after_at, t.now) ELSE r.after_at END,
		due_at = CASE r.status WHEN 'pending' THEN least(r.due_at, t.now) ELSE r.due_at END
	FROM t WHERE r.thread_id = $1 AND r.ended_at IS NULL AND (r.status = 'running' OR r.status = 'pending' AND r.waiting) RETURNING r.id
)
SELECT pg_notify($3::text, topic) FROM r, unnest(ARRAY[r.id, '']) topic`)

	// $3 status, $4 waiting, $5 error, $6 after or NULL, $7 uncounted, $8 and $9 the data of the
	// last event, $10 and $11 that of an interrupted run, $12 clock, $13 call, $14 channel, $15
	// yields, $16 the version to pin it to or '', $17 the delay in microseconds, without $6. What is
	// given back and was to be interrupted has ended. Workers are woken if there is something for them.
	const back = `($3 = 'pending' AND r.cancel <> 'interrupt')`
	// The run is to be rolled back, and its worker went on as if it were not.
	const unaware = `($3 = 'pending' AND r.cancel = 'rollback' AND ($4 OR $15 OR $16 <> ''))`
	st.finish = q(strings.NewReplacer("BACK", back, "UNAWARE", unaware).Replace(`
WITH ` + clockOf("$12") + `, r AS (
	UPDATE @.stele_runs r SET
		status = CASE WHEN $3 = 'pending' AND NOT BACK THEN 'interrupted' ELSE $3 END,
		waiting = $4::bool AND ($3 <> 'pending' OR BACK), error = $5,
		attempt = CASE WHEN $4 AND BACK THEN 0 WHEN $7 THEN greatest(r.attempt - 1, 0) ELSE r.attempt END,
		started_at = CASE WHEN $15::bool AND BACK THEN NULL ELSE r.started_at END,
		after_at = CASE WHEN $4 AND BACK AND r.waiting OR UNAWARE THEN t.now WHEN $3 = 'pending' THEN coalesce($6, t.now + $17 * interval '1 microsecond') ELSE r.after_at END,
		due_at = CASE WHEN $4 AND BACK AND r.waiting OR UNAWARE THEN t.now WHEN BACK THEN coalesce($6, t.now + $17 * interval '1 microsecond') END,
		ended_at = CASE WHEN NOT BACK THEN t.now END,
		version = CASE WHEN $16::text <> '' AND BACK AND r.cancel = '' THEN $16 ELSE r.version END,
		pinned = $16 <> '' AND BACK AND r.cancel = '',
		events = r.events + (NOT BACK)::int,
		changed_by = $13
	FROM t WHERE r.id = $1 AND r.epoch = $2 AND r.status = 'running' RETURNING r.*
), ` + lastEvent("CASE r.status WHEN 'interrupted' THEN $10 ELSE $8 END", "CASE r.status WHEN 'interrupted' THEN $11::bytea ELSE $9::bytea END") + `
SELECT ` + fenced("$14") + `, CASE WHEN r.status = 'pending' OR EXISTS (
	SELECT FROM @.stele_runs o WHERE o.thread_id = r.thread_id AND o.ended_at IS NULL AND o.id <> r.id)
	OR r.parent IS NOT NULL OR EXISTS (SELECT FROM @.stele_runs o WHERE o.parent = r.thread_id AND o.ended_at IS NULL)
	THEN pg_notify($14::text, '')::text END
FROM (SELECT 1) one LEFT JOIN r ON true`))

	// $3 kinds, $4 namespaces as JSON or NULL, $5 kinds of data, $6 data, $7 clock, $8 call, $9
	// channel. The name of the call is in the last row.
	st.append = q(`
WITH ` + clockOf("$7") + `, r AS (
	UPDATE @.stele_runs SET events = events + cardinality($3::text[])
	WHERE id = $1 AND epoch = $2 AND status = 'running' RETURNING id, events, attempt
), stored AS (
	INSERT INTO @.stele_run_events (run_id, seq, attempt, kind, namespace, data_kind, data, at, call)
	SELECT r.id, r.events - cardinality($3::text[]) + e.n, r.attempt, e.kind, e.namespace::json, e.data_kind, e.data, t.now,
		CASE WHEN e.n = cardinality($3::text[]) THEN $8::uuid END
	FROM r, t, unnest($3::text[], $4::text[], $5::text[], $6::bytea[]) WITH ORDINALITY e(kind, namespace, data_kind, data, n)
)
SELECT ` + fenced("$9") + `, r.events FROM (SELECT 1) one LEFT JOIN r ON true`)

	// $1 id, $2 epoch.
	st.holds = q(`SELECT events FROM @.stele_runs WHERE id = $1 AND epoch = $2 AND status = 'running'`)

	st.events = q(`
SELECT seq, attempt, kind, namespace, data_kind, data, at FROM @.stele_run_events
WHERE run_id = $1 AND seq > $2 ORDER BY seq LIMIT $3`)

	// $1 before, $2 how many. A run that is tried again meanwhile is locked or has not ended.
	st.sweep = q(`
WITH gone AS (
	DELETE FROM @.stele_runs WHERE id = ANY(ARRAY(
		SELECT id FROM @.stele_runs r WHERE ended_at < $1 AND (parent IS NULL OR NOT ` + mayAsk("r.parent") + `
			AND NOT EXISTS (SELECT FROM @.stele_runs p WHERE p.thread_id = r.parent AND p.ended_at IS NULL))
		ORDER BY ended_at LIMIT $2 FOR UPDATE SKIP LOCKED))
	RETURNING id
), events AS (
	DELETE FROM @.stele_run_events e USING gone WHERE e.run_id = gone.id
)
SELECT count(*) FROM gone`)

	// $1 id.
	st.remove = q(`
WITH gone AS (
	DELETE FROM @.stele_runs r WHERE id = $1 AND (ended_at IS NOT NULL OR ` + unknown + ` AND coalesce(due_at <= clock_timestamp(), true)) RETURNING id
), events AS (
	DELETE FROM @.stele_run_events e USING gone WHERE e.run_id = gone.id
)
SELECT count(*) FROM gone`)

	st.putSchedule = q(`
INSERT INTO @.stele_schedules (id, cron, spec, next_at) VALUES ($1, $2, $3::json, $4)
ON CONFLICT (id) DO UPDATE SET cron = EXCLUDED.cron, spec = EXCLUDED.spec, next_at = EXCLUDED.next_at`)
	st.schedules = q(`SELECT id, cron, spec, next_at FROM @.stele_schedules ORDER BY id`)
	st.advance = q(`UPDATE @.stele_schedules SET next_at = $3 WHERE id = $1 AND next_at = $2`)
	st.deleteSchedule = q(`DELETE FROM @.stele_schedules WHERE id = $1`)
	return st
}
