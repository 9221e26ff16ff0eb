package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/stele-go/stele/store"

	"github.com/stele-go/stele/postgres/internal/pgdb"
)

// appendItem makes an Append in one statement. The row of the last place is locked to the end of the transaction,
// so places are in the order of commits. Its time is the server's, and never goes back.
const appendItem = `
WITH mark AS (
	INSERT INTO @.store (prefix, key, value, created_at, updated_at)
	SELECT $1, $2, '{}', $3::timestamptz, $3::timestamptz WHERE $2 <> ''
	ON CONFLICT (prefix, key) DO NOTHING RETURNING key
), last AS (
	INSERT INTO @.store AS s (prefix, key, value, created_at, updated_at)
	SELECT $1, $4, '{}', t, t FROM clock_timestamp() t WHERE $2 = '' OR EXISTS (SELECT FROM mark)
	ON CONFLICT (prefix, key) DO UPDATE SET updated_at = greatest(EXCLUDED.updated_at, s.updated_at + interval '1 microsecond')
	RETURNING updated_at
), item AS (
	INSERT INTO @.store (prefix, key, value, created_at, updated_at)
	SELECT $5, lpad((extract(epoch FROM updated_at) * 1000000)::bigint::text, 20, '0'), $6::text::jsonb, $3::timestamptz, $3::timestamptz FROM last
	RETURNING prefix, key, updated_at
)
INSERT INTO @.stele_items (prefix, key, updated_at, kind, value)
SELECT prefix, key, updated_at, $7::text, $8::bytea FROM item WHERE $7::text IS NOT NULL
ON CONFLICT (prefix, key) DO UPDATE SET updated_at = EXCLUDED.updated_at, ttl = NULL, kind = EXCLUDED.kind, value = EXCLUDED.value`

// Append implements store.Appender, with the clock of the server.
func (s *Store) Append(ctx context.Context, ns store.Namespace, topic, once string, value map[string]any) error {
	puts, err := store.AppendPuts(ns, topic, once, value)
	if err != nil {
		return err
	}
	mark := ""
	for _, op := range puts[1:] {
		if err := checkPut(op.Namespace, op.Key); err != nil {
			return err
		}
	}
	if len(puts) > 2 {
		mark = puts[2].Key
	}
	if err := checkPut(puts[0].Namespace, ""); err != nil {
		return err
	}
	c, _, err := s.change(&puts[0])
	if err != nil {
		return err
	}
	var kind *string
	var data []byte
	if e := c.value.exact; e != nil {
		kind, data = &e.Kind, append([]byte{}, e.Data...) // not NULL, even if it is empty
	}
	now := s.db.Now()
	return s.db.Write(ctx, pgdb.Write{
		Queue: func(b *pgx.Batch, call pgdb.Call) {
			b.Queue(s.sql.call, [16]byte(call), now)
			b.Queue(pgdb.Qualify(s.db.Schema, appendItem), prefixOf(ns), mark, now, store.AppendLast, c.prefix, c.value.json, kind, data)
		},
		Settle: s.settle,
	})
}
