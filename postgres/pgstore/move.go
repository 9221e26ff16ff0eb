package pgstore

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/stele-go/stele/store"

	"github.com/stele-go/stele/postgres/internal/pgdb"
)

// moveItems is how many items one transaction of a move has.
const moveItems = 500

// Parts of the statements of a move: of $1, the prefix that items are moved from, to $2, at $3. A row of
// an item comes with those that are stele's, and so does the row in its place.
const (
	moving = `@.store s` + itemBeside
	// inTheWay is true of an item that cannot be moved: below $2 there is one with its key and another value.
	inTheWay = `(s.expires_at IS NULL OR s.expires_at > $3::timestamptz) AND EXISTS (
	SELECT FROM @.store t LEFT JOIN @.stele_items y ON y.prefix = t.prefix AND y.key = t.key AND y.updated_at = t.updated_at
	WHERE t.prefix = $2 AND t.key = s.key AND (t.expires_at IS NULL OR t.expires_at > $3::timestamptz)
		AND (t.value::text, y.kind, y.value) IS DISTINCT FROM (s.value::text, x.kind, x.value))`
)

// move returns the statement that moves the items of the keys $4. All its parts see the table as it was
// before; the rows beside an item follow the item.
func (st *statements) move() string {
	vectors := `prefix, key, field_name, embedding, updated_at`
	if st.column.dims > 0 {
		vectors += `, created_at`
	}
	selected := vectors[len("prefix"):]
	return pgdb.Qualify(st.schema, `
WITH due AS (SELECT s.prefix, s.key FROM `+moving+` WHERE s.prefix = $1 AND s.key = ANY($4::text[]) AND NOT (`+inTheWay+`)),
moved AS (
	INSERT INTO @.store (prefix, key, value, created_at, updated_at, expires_at, ttl_minutes)
	SELECT $2, s.key, s.value, s.created_at, s.updated_at, s.expires_at, s.ttl_minutes
	FROM @.store s JOIN due USING (prefix, key)
	ON CONFLICT DO NOTHING RETURNING key
), beside AS (
	INSERT INTO @.stele_items (prefix, key, updated_at, ttl, kind, value)
	SELECT $2, key, updated_at, ttl, kind, value FROM @.stele_items JOIN moved USING (key) WHERE prefix = $1
), vectors AS (
	INSERT INTO `+st.vectorTable()+` (`+vectors+`)
	SELECT $2`+selected+` FROM `+st.vectorTable()+` JOIN moved USING (key) WHERE prefix = $1
)
DELETE FROM @.store s USING due WHERE s.prefix = due.prefix AND s.key = due.key`)
}

// Move implements store.Mover. Values that JSON does not hold are compared byte by byte.
func (s *Store) Move(ctx context.Context, from, to store.Namespace, dry bool) (rep store.MoveReport, err error) {
	for _, ns := range []store.Namespace{from, to} {
		if err := store.CheckAddress(ns, ""); err != nil {
			return rep, err
		}
	}
	if err := store.CheckNamespace(to); err != nil {
		return rep, err
	}
	if err := checkPut(to, ""); err != nil {
		return rep, err
	}
	if slices.Equal(from, to) {
		return rep, &store.InvalidError{Field: "to", Reason: "it is the namespace itself"}
	}
	if !findable(from) {
		return rep, nil // there can be no item
	}
	a, b := prefixOf(from), prefixOf(to)
	most := int64(moveItems)
	if dry {
		most = 1 << 62
	}
	var after *string
	for {
		due, err := s.movingKeys(ctx, a, b, `NOT (`+inTheWay+`) AND ($4::text IS NULL OR s.key > $4)`, after, most)
		if err != nil {
			return rep, err
		}
		if len(due) == 0 {
			rep.Left, err = s.movingKeys(ctx, a, b, inTheWay+` AND $4::text IS NULL`, nil, 1<<62)
			slices.Sort(rep.Left)
			return rep, err
		}
		rep.Moved, after = rep.Moved+len(due), &due[len(due)-1]
		if dry {
			continue
		}
		stayed, err := s.moveKeys(ctx, a, b, due)
		if rep.Moved -= stayed; err != nil {
			rep.Moved -= len(due)
			return rep, err
		}
	}
}

// movingKeys returns up to limit keys that fulfil a condition, in the order of the primary key.
func (s *Store) movingKeys(ctx context.Context, from, to, condition string, after *string, limit int64) (keys []string, err error) {
	sql := s.db.Qualify(`SELECT s.key FROM ` + moving + ` WHERE s.prefix = $1 AND ` + condition + ` ORDER BY s.key LIMIT $5::bigint`)
	err = s.repeatable(ctx, func(b *pgx.Batch) {
		b.Queue(sql, from, to, s.db.Now(), after, limit).Query(func(rows pgx.Rows) (err error) {
			keys, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		})
	})
	return keys, err
}

// moveKeys moves items in one transaction; other calls that write several items wait for it. stayed is
// how many did not move because items were put at their new places meanwhile.
func (s *Store) moveKeys(ctx context.Context, from, to string, keys []string) (stayed int, err error) {
	var changes []itemChange
	for _, key := range keys {
		changes = append(changes, itemChange{prefix: from, key: key}, itemChange{prefix: to, key: key})
	}
	err = s.repeatable(ctx, func(b *pgx.Batch) {
		now := s.db.Now()
		b.Queue(s.sql.lock, changeLocks(s.sql.schema, changes))
		b.Queue(s.db.Qualify(`DELETE FROM @.store WHERE prefix = $1 AND key = ANY($2::text[]) AND expires_at <= $3::timestamptz`), to, keys, now)
		b.Queue(s.sql.move(), from, to, now, keys)
		b.Queue(s.db.Qualify(`SELECT count(*) FROM @.store WHERE prefix = $1 AND key = ANY($2::text[])`), from, keys).
			QueryRow(func(row pgx.Row) error { return row.Scan(&stayed) })
	})
	return stayed, err
}

// repeatable makes a transaction that may be made twice. All of it sees one snapshot. If a row that it
// changes was changed since, it fails and is made again: a put of one item takes no lock, and could be
// lost between the statement's read and its delete.
func (s *Store) repeatable(ctx context.Context, queue func(*pgx.Batch)) error {
	return s.db.Repeat(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ", queue)
}
