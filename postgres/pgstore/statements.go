package pgstore

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stele-go/stele/store"

	"github.com/stele-go/stele/postgres/internal/pgdb"
)

// statements are the texts that the calls of a Store send.
type statements struct {
	schema    string
	column    vectorColumn // of LangGraph's table of vectors; dims is 0 if stele's is used
	extension string       // the schema of pgvector, quoted

	call, settle, sweep, forget string
	lock, remove, put, restore  string
	unbeside, beside            string
	unvector, vectors           string
	renew                       string
	one, addressed              string
}

// itemColumns read an item s, and stele's row x beside it, if that is of the same put.
const (
	itemColumns = `s.prefix, s.key, CASE WHEN x.value IS NULL THEN s.value END, s.created_at, s.updated_at, s.expires_at, s.ttl_minutes, x.ttl, x.kind, x.value`
	itemBeside  = ` LEFT JOIN @.stele_items x ON x.prefix = s.prefix AND x.key = s.key AND x.updated_at = s.updated_at`
	newestFirst = `s.updated_at DESC NULLS LAST, ` + byKey
	byKey       = `string_to_array(s.prefix, '.') COLLATE "C", s.key COLLATE "C"`
)

func newStatements(f *schemaState) *statements {
	q := func(sql string) string { return pgdb.Qualify(f.Schema, sql) }
	st := &statements{schema: f.Schema, column: f.column, extension: pgdb.Quoted(f.extension.schema)}
	st.call = q(`INSERT INTO @.stele_item_calls (call, at) VALUES ($1, $2)`)
	st.settle = q(`
INSERT INTO @.stele_item_calls AS c (call, at, given_up) VALUES ($1, $2, true)
ON CONFLICT (call) DO UPDATE SET at = EXCLUDED.at RETURNING NOT c.given_up`)
	st.forget = q(`
DELETE FROM @.stele_item_calls WHERE call IN (
	SELECT call FROM @.stele_item_calls WHERE at < $1 LIMIT 1000 FOR UPDATE SKIP LOCKED)`)
	st.sweep = q(`
DELETE FROM @.store WHERE (prefix, key) IN (
	SELECT prefix, key FROM @.store WHERE expires_at <= $1 LIMIT ` + strconv.Itoa(sweepBatch) + ` FOR UPDATE SKIP LOCKED)`)

	// The function scan gives the keys one by one, in their order.
	st.lock = `SELECT pg_advisory_xact_lock(k) FROM unnest($1::bigint[]) k`
	st.remove = q(`
DELETE FROM @.store s USING unnest($1::text[], $2::text[]) u(prefix, key) WHERE s.prefix = u.prefix AND s.key = u.key`)
	st.put = q(`
INSERT INTO @.store AS s (prefix, key, value, created_at, updated_at, expires_at, ttl_minutes)
SELECT u.prefix, u.key, u.value::jsonb, $6::timestamptz, $6::timestamptz, u.expires, u.minutes
FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::int[]) WITH ORDINALITY u(prefix, key, value, expires, minutes, n)
ORDER BY u.n
ON CONFLICT (prefix, key) DO UPDATE SET value = EXCLUDED.value, updated_at = EXCLUDED.updated_at,
	created_at = CASE WHEN s.expires_at <= EXCLUDED.updated_at THEN EXCLUDED.created_at ELSE coalesce(s.created_at, EXCLUDED.created_at) END,
	expires_at = EXCLUDED.expires_at, ttl_minutes = EXCLUDED.ttl_minutes`)
	// What st.put does, with the times that each item has.
	st.restore = q(`
INSERT INTO @.store AS s (prefix, key, value, created_at, updated_at, expires_at, ttl_minutes)
SELECT u.prefix, u.key, u.value::jsonb, u.created, u.updated, u.expires, u.minutes
FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::int[], $6::timestamptz[], $7::timestamptz[])
	WITH ORDINALITY u(prefix, key, value, expires, minutes, created, updated, n)
ORDER BY u.n
ON CONFLICT (prefix, key) DO UPDATE SET value = EXCLUDED.value, created_at = EXCLUDED.created_at, updated_at = EXCLUDED.updated_at,
	expires_at = EXCLUDED.expires_at, ttl_minutes = EXCLUDED.ttl_minutes`)
	st.unbeside = q(`
DELETE FROM @.stele_items s USING unnest($1::text[], $2::text[]) u(prefix, key) WHERE s.prefix = u.prefix AND s.key = u.key`)
	st.beside = q(`
INSERT INTO @.stele_items (prefix, key, updated_at, ttl, kind, value)
SELECT s.prefix, s.key, s.updated_at, u.ttl, u.kind, u.value
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::bytea[]) u(prefix, key, ttl, kind, value)
JOIN @.store s ON s.prefix = u.prefix AND s.key = u.key`)
	st.unvector = q(`
DELETE FROM ` + st.vectorTable() + ` s USING unnest($1::text[], $2::text[]) u(prefix, key) WHERE s.prefix = u.prefix AND s.key = u.key`)
	if st.column.dims > 0 {
		st.vectors = q(`
INSERT INTO @.store_vectors (prefix, key, field_name, embedding, created_at, updated_at)
SELECT s.prefix, s.key, u.field, u.embedding::` + st.vectorType() + `, s.updated_at, s.updated_at
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) u(prefix, key, field, embedding)
JOIN @.store s ON s.prefix = u.prefix AND s.key = u.key`)
	} else {
		st.vectors = q(`
INSERT INTO @.stele_vectors (prefix, key, field_name, embedding, updated_at)
SELECT s.prefix, s.key, u.field, u.embedding, s.updated_at
FROM unnest($1::text[], $2::text[], $3::text[], $4::bytea[]) u(prefix, key, field, embedding)
JOIN @.store s ON s.prefix = u.prefix AND s.key = u.key`)
	}

	// An item that was replaced since it was read is left alone, and so is one that somebody
	// is replacing, removing or renewing: a read does not wait for that. $5 is now.
	st.renew = q(`
WITH due AS (
	SELECT s.prefix, s.key, u.expires
	FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::timestamptz[]) u(prefix, key, updated, expires)
	JOIN @.store s ON s.prefix = u.prefix AND s.key = u.key AND s.updated_at = u.updated
	WHERE s.expires_at > $5 AND s.expires_at < u.expires
	FOR UPDATE OF s SKIP LOCKED
)
UPDATE @.store s SET expires_at = due.expires FROM due WHERE s.prefix = due.prefix AND s.key = due.key`)

	st.one = q(`SELECT ` + itemColumns + `, NULL::float8 FROM @.store s` + itemBeside +
		` WHERE s.prefix = $1 AND s.key = $2 AND ($3::bool OR s.expires_at IS NULL OR s.expires_at > $4::timestamptz)`)
	st.addressed = q(`
SELECT ` + itemColumns + `, NULL::float8
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY u(prefix, key, n) JOIN @.store s ON s.prefix = u.prefix AND s.key = u.key` + itemBeside + `
ORDER BY u.n`)
	return st
}

func (st *statements) vectorTable() string {
	if st.column.dims > 0 {
		return "@.store_vectors"
	}
	return "@.stele_vectors"
}

// vectorType is the type of LangGraph's column of vectors.
func (st *statements) vectorType() string { return st.extension + "." + st.column.typeName() }

// maxHalf is the largest number that two bytes hold.
const maxHalf = 65504

// checkVectors refuses vectors that the column cannot hold.
func (st *statements) checkVectors(vectors [][]float32) error {
	if !st.column.half {
		return nil
	}
	for _, v := range vectors {
		for i, x := range v {
			if math.Abs(float64(x)) > maxHalf {
				return &store.VectorError{Reason: fmt.Sprintf("component %d is %g, and the column holds up to %d", i, x, maxHalf)}
			}
		}
	}
	return nil
}

// forgetEvery is after how many transactions one also removes old names of calls.
const forgetEvery = 256

// queueCommit adds the statements of one commit, the n-th of a Store.
func (st *statements) queueCommit(b *pgx.Batch, c pgdb.Call, now time.Time, r *itemRows, n uint64) {
	b.Queue(st.call, [16]byte(c), now)
	if n%forgetEvery == 0 {
		b.Queue(st.forget, now.Add(-pgdb.VoidedFor))
	}
	if len(r.locks) > 0 {
		b.Queue(st.lock, r.locks)
	}
	if len(r.removedKeys) > 0 {
		b.Queue(st.remove, r.removedPrefixes, r.removedKeys)
	}
	if len(r.putKeys) == 0 {
		return
	}
	if r.created == nil {
		b.Queue(st.put, r.putPrefixes, r.putKeys, r.values, r.expires, r.minutes, now)
	} else {
		b.Queue(st.restore, r.putPrefixes, r.putKeys, r.values, r.expires, r.minutes, r.created, r.updated)
	}
	b.Queue(st.unbeside, r.putPrefixes, r.putKeys)
	if len(r.besideKeys) > 0 {
		b.Queue(st.beside, r.besidePrefixes, r.besideKeys, r.ttls, r.kinds, r.exact)
	}
	b.Queue(st.unvector, r.putPrefixes, r.putKeys)
	if len(r.texts) > 0 {
		b.Queue(st.vectors, r.vectorPrefixes, r.vectorKeys, r.fields, r.texts)
	}
	if len(r.bytes) > 0 {
		b.Queue(st.vectors, r.vectorPrefixes, r.vectorKeys, r.fields, r.bytes)
	}
}
