package postgres

import (
	"github.com/stele-go/stele/postgres/internal/pgdb"
)

// putFunction and writesFunction are Put and PutWrites on the server. Each is one statement
// to send, and its statements are planned once for a connection, also where no prepared
// statement may have a name. A function that is VOLATILE takes a snapshot for each of its
// statements, so that those behind the lock see what all earlier calls of stele left.
//
// A statement may be refused by stele_refuse, which ends the transaction. The order of the
// refusals is that of the contract: a call that was given up, a lease that is gone, a thread
// that was deleted, a source that is missing, another head, a version that is taken.

const guardOfAll = `
	PERFORM pg_advisory_xact_lock(p_lock);
	IF EXISTS (SELECT FROM @.stele_voided v WHERE v.call = p_call) THEN
		PERFORM @.stele_refuse('` + pgdb.RefusedVoided + `', '');
	END IF;
	IF p_epoch <> 0 AND NOT EXISTS (SELECT FROM @.stele_leases l WHERE l.thread_id = p_thread AND l.epoch = p_epoch) THEN
		PERFORM @.stele_refuse('` + pgdb.RefusedFenced + `', '');
	END IF;
	SELECT d.greatest_id INTO v_deleted FROM @.stele_deleted d WHERE d.thread_id = p_thread AND d.at >= p_since;`

// storeWrites stores pending writes. At an index the first write stays; below zero, on LangGraph's
// special channels, the last. The calls of a checkpoint are recorded from the first special one on.
// Nearly always there is nothing to record; that is found without the statement for it, which costs as
// much as the writes.
const storeWrites = `
	IF cardinality(p_tasks) > 0 THEN
		INSERT INTO @.checkpoint_writes AS w (thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, idx, channel, type, blob)
		SELECT p_thread, p_ns, u.* FROM unnest(p_checkpoints, p_tasks, p_paths, p_indexes, p_write_channels, p_write_kinds, p_write_blobs) u
		ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id, task_id, idx) DO UPDATE SET
			channel = EXCLUDED.channel, type = EXCLUDED.type, blob = EXCLUDED.blob, task_path = EXCLUDED.task_path
		WHERE w.idx < 0;
		IF true = ANY(p_call_special) OR EXISTS (
			SELECT FROM @.stele_calls c WHERE c.thread_id = p_thread AND c.checkpoint_ns = p_ns AND c.checkpoint_id = ANY(p_call_checkpoints))
		THEN
			INSERT INTO @.stele_calls (thread_id, checkpoint_ns, checkpoint_id, task_id, channels)
			SELECT p_thread, p_ns, u.id, u.task, u.channels
			FROM unnest(p_call_checkpoints, p_call_tasks, p_call_channels, p_call_special) WITH ORDINALITY u(id, task, channels, special, n)
			WHERE u.special OR EXISTS (
				SELECT FROM @.stele_calls c WHERE c.thread_id = p_thread AND c.checkpoint_ns = p_ns AND c.checkpoint_id = u.id)
			ORDER BY u.n;
		END IF;
	END IF;`

// writesParameters are those of storeWrites, as newWriteRows makes them.
const writesParameters = `p_checkpoints TEXT[], p_tasks TEXT[], p_paths TEXT[], p_indexes INT[],
	p_write_channels TEXT[], p_write_kinds TEXT[], p_write_blobs BYTEA[],
	p_call_checkpoints TEXT[], p_call_tasks TEXT[], p_call_channels TEXT[], p_call_special BOOL[]`

const touchThread = `
	INSERT INTO @.stele_threads (thread_id, updated_at) VALUES (p_thread, p_now)
	ON CONFLICT (thread_id) DO UPDATE SET updated_at = EXCLUDED.updated_at;`

// callParameters are the parameters of every call: the key of the thread's lock, the name of the call,
// the time since which deletions are remembered, the epoch or 0, and the time.
const callParameters = `p_lock BIGINT, p_call UUID, p_since TIMESTAMPTZ, p_epoch BIGINT, p_now TIMESTAMPTZ,
	p_thread TEXT, p_ns TEXT, p_id TEXT`

const writesFunction = `CREATE OR REPLACE FUNCTION @.stele_put_writes(` + callParameters + `,
	` + writesParameters + `) RETURNS VOID LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_deleted TEXT;
BEGIN` + guardOfAll + `
	IF v_deleted IS NOT NULL AND NOT (
		EXISTS (SELECT FROM @.checkpoints c WHERE c.thread_id = p_thread) AND (p_id > v_deleted COLLATE "C" OR EXISTS (
			SELECT FROM @.checkpoints c WHERE c.thread_id = p_thread AND c.checkpoint_ns = p_ns AND c.checkpoint_id = p_id)))
	THEN
		PERFORM @.stele_refuse('` + refusedWrites + `', p_id);
	END IF;` + storeWrites + `
	IF cardinality(p_tasks) > 0 THEN` + touchThread + `
	END IF;
END $$`

// putFunction: p_parent and p_source, where unchanged values come from, are "" for none;
// p_expect is NULL if any head will do. p_named are the checkpoints that the writes of the
// request hang on.
//
// The channels that got a version: p_channels, p_versions, p_kinds, NULL for no blob,
// p_blobs, and p_minted, whether nobody else can have the version; p_fresh of them have a
// blob, and p_all_minted is p_minted of all. A channel is refused if
// another checkpoint has the same version of it and would read something else afterwards:
// because the blob differs, or because there is none so far, which is seen by looking at all
// checkpoints of the namespace. Where a value stands in the checkpoint's JSON a blob would
// be read before it. One is there only if this checkpoint was put before: the check has
// looked.
//
// The other channels of the checkpoint have their value of before. Blobs need nothing: they
// are found by their versions. What stands in a checkpoint is copied from the source if that
// has the same version, else from the checkpoint that got it last: one whose parent does not
// have it, if there is one. There is none where checkpoints are ancestors of each other.
const putFunction = `CREATE OR REPLACE FUNCTION @.stele_put(` + callParameters + `,
	p_parent TEXT, p_values_from TEXT, p_source TEXT, p_expect TEXT, p_named TEXT[],
	p_channels TEXT[], p_versions TEXT[], p_kinds TEXT[], p_blobs BYTEA[], p_minted BOOL[],
	p_fresh INT, p_all_minted BOOL, p_checkpoint TEXT, p_metadata TEXT, p_note BYTEA,
	` + writesParameters + `) RETURNS VOID LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	v_deleted TEXT;
	v_text TEXT;
	v_checkpoint JSONB := p_checkpoint;
	v_looks BOOL;
	v_rows INT;
	v_versions JSONB;
	v_source_versions JSONB;
	v_source_values JSONB;
	v_inherited JSONB;
	v_others JSONB;
BEGIN` + guardOfAll + `
	IF v_deleted IS NOT NULL THEN
		IF p_parent <> '' AND NOT EXISTS (
			SELECT FROM @.checkpoints c WHERE c.thread_id = p_thread AND c.checkpoint_ns = p_ns AND c.checkpoint_id = p_parent)
		THEN
			PERFORM @.stele_refuse('` + refusedParent + `', p_parent);
		END IF;
		PERFORM @.stele_refuse('` + refusedWrites + `', n.id) FROM unnest(p_named) n(id)
		WHERE n.id <> p_id AND n.id <= v_deleted COLLATE "C" AND NOT EXISTS (
			SELECT FROM @.checkpoints c WHERE c.thread_id = p_thread AND c.checkpoint_ns = p_ns AND c.checkpoint_id = n.id);
	END IF;
	IF p_values_from <> '' THEN -- apart: a condition that reads no table is no statement
		PERFORM @.stele_refuse('` + refusedSource + `', p_values_from) WHERE NOT EXISTS (
			SELECT FROM @.checkpoints c WHERE c.thread_id = p_thread AND c.checkpoint_ns = p_ns AND c.checkpoint_id = p_values_from);
	END IF;
	IF p_expect IS NOT NULL THEN
		SELECT c.checkpoint_id INTO v_text FROM @.checkpoints c WHERE c.thread_id = p_thread AND c.checkpoint_ns = p_ns
		ORDER BY c.checkpoint_id DESC LIMIT 1;
		IF coalesce(v_text, '') <> p_expect THEN
			PERFORM @.stele_refuse('` + refusedConflict + `', coalesce(v_text, ''));
		END IF;
	END IF;

	-- Versions that nobody else can have need no look at other checkpoints, unless a blob is
	-- there all the same. A subquery for each row, not a join, keeps to the index.
	v_looks := NOT p_all_minted;
	IF p_all_minted AND p_fresh > 0 THEN
		INSERT INTO @.checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob)
		SELECT p_thread, p_ns, f.channel, f.version, f.kind, f.blob
		FROM unnest(p_channels, p_versions, p_kinds, p_blobs) f(channel, version, kind, blob) WHERE f.kind IS NOT NULL
		ON CONFLICT DO NOTHING;
		GET DIAGNOSTICS v_rows = ROW_COUNT;
		v_looks := v_rows < p_fresh;
	END IF;
	IF NOT v_looks AND p_fresh < cardinality(p_channels) THEN
		v_looks := EXISTS (SELECT FROM unnest(p_channels, p_versions, p_kinds) f(channel, version, kind) WHERE f.kind IS NULL AND (
			SELECT true FROM @.checkpoint_blobs b
			WHERE b.thread_id = p_thread AND b.checkpoint_ns = p_ns AND b.channel = f.channel AND b.version = f.version LIMIT 1));
	END IF;
	IF v_looks THEN
		PERFORM @.stele_refuse('` + refusedTaken + `', f.channel)
		FROM unnest(p_channels, p_versions, p_kinds, p_blobs, p_minted) f(channel, version, kind, blob, minted)
		LEFT JOIN @.checkpoint_blobs b
			ON b.thread_id = p_thread AND b.checkpoint_ns = p_ns AND b.channel = f.channel AND b.version = f.version AND b.type <> 'empty'
		WHERE CASE WHEN b.channel IS NOT NULL THEN (b.type, b.blob) IS DISTINCT FROM (f.kind, f.blob)
			ELSE f.kind IS NOT NULL AND NOT f.minted END
		AND EXISTS (
			SELECT FROM @.checkpoints c WHERE c.thread_id = p_thread AND c.checkpoint_ns = p_ns AND c.checkpoint_id <> p_id
			AND c.checkpoint -> 'channel_versions' ->> f.channel = f.version);
		INSERT INTO @.checkpoint_blobs AS b (thread_id, checkpoint_ns, channel, version, type, blob)
		SELECT p_thread, p_ns, f.channel, f.version, f.kind, f.blob
		FROM unnest(p_channels, p_versions, p_kinds, p_blobs) f(channel, version, kind, blob) WHERE f.kind IS NOT NULL
		ON CONFLICT (thread_id, checkpoint_ns, channel, version)
		DO UPDATE SET type = EXCLUDED.type, blob = EXCLUDED.blob
		WHERE (b.type, b.blob) IS DISTINCT FROM (EXCLUDED.type, EXCLUDED.blob);
		DELETE FROM @.checkpoint_blobs b USING unnest(p_channels, p_versions, p_kinds) f(channel, version, kind)
		WHERE f.kind IS NULL AND b.thread_id = p_thread AND b.checkpoint_ns = p_ns AND b.channel = f.channel AND b.version = f.version;
	END IF;

	v_versions := (v_checkpoint -> 'channel_versions') - coalesce(p_channels, '{}');
	IF v_versions <> '{}' THEN
		SELECT c.checkpoint -> 'channel_versions', c.checkpoint -> 'channel_values' INTO v_source_versions, v_source_values
		FROM @.checkpoints c WHERE c.thread_id = p_thread AND c.checkpoint_ns = p_ns AND c.checkpoint_id = p_source;
		IF v_source_values - coalesce(p_channels, '{}') <> '{}' THEN
			SELECT jsonb_object_agg(s.key, s.value) INTO v_inherited FROM jsonb_each(v_source_values) s
			WHERE v_source_versions -> s.key = v_versions -> s.key;
		END IF;
		IF NOT coalesce(v_source_versions, '{}') @> v_versions THEN
			SELECT jsonb_object_agg(u.key, l.value) INTO v_others
			FROM jsonb_each(v_versions) u
			CROSS JOIN LATERAL (
				SELECT c.checkpoint -> 'channel_values' -> u.key AS value
				FROM @.checkpoints c LEFT JOIN @.stele_checkpoints s USING (thread_id, checkpoint_ns, checkpoint_id)
				WHERE c.thread_id = p_thread AND c.checkpoint_ns = p_ns AND c.checkpoint -> 'channel_versions' -> u.key = u.value
				ORDER BY EXISTS (
					SELECT FROM @.checkpoints p
					WHERE p.thread_id = p_thread AND p.checkpoint_ns = p_ns AND p.checkpoint_id = c.parent_checkpoint_id
					AND p.checkpoint -> 'channel_versions' -> u.key = u.value), s.seq DESC NULLS LAST, c.checkpoint_id DESC LIMIT 1
			) l
			WHERE (v_source_versions -> u.key = u.value) IS NOT TRUE AND l.value IS NOT NULL;
		END IF;
		IF v_inherited IS NOT NULL OR v_others IS NOT NULL THEN
			v_checkpoint := jsonb_set(v_checkpoint, '{channel_values}',
				coalesce(v_inherited, '{}') || coalesce(v_others, '{}') || (v_checkpoint -> 'channel_values'));
		END IF;
	END IF;
	INSERT INTO @.checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint, metadata)
	VALUES (p_thread, p_ns, p_id, nullif(p_parent, ''), v_checkpoint, p_metadata::jsonb)
	ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id) DO UPDATE SET
		parent_checkpoint_id = EXCLUDED.parent_checkpoint_id, checkpoint = EXCLUDED.checkpoint, metadata = EXCLUDED.metadata;
	INSERT INTO @.stele_checkpoints (thread_id, checkpoint_ns, checkpoint_id, note, call) VALUES (p_thread, p_ns, p_id, p_note, p_call)
	ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id) DO UPDATE SET note = EXCLUDED.note, call = EXCLUDED.call, seq = DEFAULT;` +
	storeWrites + touchThread + `
END $$`
