package pgstore

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"

	"github.com/stele-go/stele/postgres/internal/pgdb"
)

// itemChange is a PutOp, checked and serialized.
type itemChange struct {
	prefix, key string
	remove      bool
	value       storedValue
	ttl         int64 // µs; 0: for ever
	fields      []string
	vectors     [][]float32 // of the fields
	restored    *store.Item // whose times it keeps; nil: it is put now
}

// prepare checks, serializes and embeds puts, so that every refusal comes before anything is
// sent. Of several puts under one key the last counts. The changes are in the order of their
// rows.
func (s *Store) prepare(ctx context.Context, puts []store.PutOp) ([]itemChange, error) {
	type address struct{ prefix, key string }
	last := make(map[address]*store.PutOp, len(puts))
	for i := range puts {
		op := &puts[i]
		if err := store.CheckAddress(op.Namespace, op.Key); err != nil {
			return nil, err
		}
		if op.Value == nil && (!findable(op.Namespace) || !pgdb.Storable(op.Key)) {
			continue // there can be no such item
		}
		if op.Value != nil {
			if err := checkPut(op.Namespace, op.Key); err != nil {
				return nil, err
			}
		}
		last[address{prefixOf(op.Namespace), op.Key}] = op
	}
	changes := make([]itemChange, 0, len(last))
	size := 0
	var texts []string
	for i := range puts {
		op := &puts[i]
		at := address{prefixOf(op.Namespace), op.Key}
		if last[at] != op {
			if op.Value != nil { // refused as if it counted
				if _, err := encodeValue(s.codec, op.Key, op.Value); err != nil {
					return nil, err
				}
			}
			continue
		}
		c, found, err := s.change(op)
		if err != nil {
			return nil, err
		}
		if size += c.value.size; size > base.MaxCall {
			return nil, fmt.Errorf("the call has more than %d bytes of values: %w", base.MaxCall, saver.ErrTooLarge)
		}
		changes, texts = append(changes, c), append(texts, found...)
	}
	if len(texts) > 0 {
		vectors, err := s.opts.Index.Vectors(ctx, texts)
		if err != nil {
			return nil, err
		}
		for i := range changes {
			n := len(changes[i].fields)
			changes[i].vectors, vectors = vectors[:n:n], vectors[n:]
			if err := s.sql.checkVectors(changes[i].vectors); err != nil {
				return nil, fmt.Errorf("key %q: %w", changes[i].key, err)
			}
		}
	}
	slices.SortFunc(changes, func(a, b itemChange) int { return cmp.Or(cmp.Compare(a.prefix, b.prefix), cmp.Compare(a.key, b.key)) })
	return changes, nil
}

// change serializes one put. texts are those to embed, one for each of the change's fields.
func (s *Store) change(op *store.PutOp) (c itemChange, texts []string, err error) {
	c = itemChange{prefix: prefixOf(op.Namespace), key: op.Key, remove: op.Value == nil}
	if c.remove {
		return c, nil, nil
	}
	if c.value, err = encodeValue(s.codec, op.Key, op.Value); err != nil {
		return c, nil, err
	}
	switch {
	case op.TTL > 0:
		c.ttl = max(op.TTL.Microseconds(), 1)
	case op.TTL == 0:
		c.ttl = s.opts.TTL.Microseconds()
	}
	if s.opts.Index == nil || op.NoIndex {
		return c, nil, nil
	}
	paths := op.IndexFields
	if paths == nil {
		paths = s.opts.Index.Fields
	}
	if paths == nil {
		paths = []string{"$"}
	}
	named := map[string]bool{}
	for _, path := range paths {
		at := store.TextAtPath(op.Value, path)
		for i, text := range at {
			name := path
			if len(at) > 1 {
				name += "." + strconv.Itoa(i)
			}
			if err := pgdb.CheckText("index field", name); err != nil {
				return c, nil, err
			}
			if named[name] {
				continue // the path was given twice
			}
			named[name] = true
			c.fields, texts = append(c.fields, name), append(texts, text)
		}
	}
	if len(texts) > store.MaxVectors {
		return c, nil, fmt.Errorf("key %q: %d texts to index, the limit is %d: %w", op.Key, len(texts), store.MaxVectors, saver.ErrTooLarge)
	}
	return c, texts, nil
}

// itemRows are changes, column by column, as the statements take them.
type itemRows struct {
	locks                        []int64
	removedPrefixes, removedKeys []string
	putPrefixes, putKeys, values []string
	expires                      []zeronull.Timestamptz
	minutes                      []zeronull.Int4
	created, updated             []time.Time // nil: now. Items are put or restored by a call, not both

	// Of the puts with a row of stele's beside them.
	besidePrefixes, besideKeys []string
	ttls                       []zeronull.Int8
	kinds                      []*string
	exact                      [][]byte

	vectorPrefixes, vectorKeys, fields []string
	texts                              []string // of the vectors, for pgvector,
	bytes                              [][]byte // or for stele's table
}

func newItemRows(schema string, changes []itemChange, now time.Time, pgvector bool) *itemRows {
	r := &itemRows{locks: changeLocks(schema, changes)}
	for i := range changes {
		c := &changes[i]
		if c.remove {
			r.removedPrefixes, r.removedKeys = append(r.removedPrefixes, c.prefix), append(r.removedKeys, c.key)
			continue
		}
		r.put(c, now)
		for k, v := range c.vectors {
			r.vectorPrefixes, r.vectorKeys = append(r.vectorPrefixes, c.prefix), append(r.vectorKeys, c.key)
			r.fields = append(r.fields, c.fields[k])
			if pgvector {
				r.texts = append(r.texts, vectorText(v))
			} else {
				r.bytes = append(r.bytes, encodeVector(v))
			}
		}
	}
	return r
}

// lockGroups bounds the locks that a transaction takes: the server has room for a few
// thousand.
const lockGroups = 256

// changeLocks are the keys of the advisory locks that a transaction of several changes takes
// first, in one order, so that no two of them wait for each other. Each is for a group of
// items. A single change waits for nobody while another waits for it.
func changeLocks(schema string, changes []itemChange) (keys []int64) {
	if len(changes) < 2 {
		return nil
	}
	for i := range changes {
		group := uint64(pgdb.LockKey(schema, changes[i].prefix+"\x00"+changes[i].key)) % lockGroups
		keys = append(keys, pgdb.LockKey(schema, "\x00items\x00"+strconv.FormatUint(group, 10)))
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func (r *itemRows) put(c *itemChange, now time.Time) {
	var expires time.Time
	if at := store.Expiry(now.UnixMicro(), c.ttl); at != 0 {
		expires = time.UnixMicro(at)
	}
	if it := c.restored; it != nil {
		r.created, r.updated, expires = append(r.created, it.CreatedAt), append(r.updated, it.UpdatedAt), it.ExpiresAt
	}
	minutes := zeronull.Int4(min((c.ttl+minute-1)/minute, math.MaxInt32)) // rounded up
	r.putPrefixes, r.putKeys, r.values = append(r.putPrefixes, c.prefix), append(r.putKeys, c.key), append(r.values, c.value.json)
	r.expires, r.minutes = append(r.expires, zeronull.Timestamptz(expires)), append(r.minutes, minutes)
	var ttl zeronull.Int8
	if c.ttl%minute != 0 {
		ttl = zeronull.Int8(c.ttl)
	}
	if ttl == 0 && c.value.exact == nil {
		return
	}
	var kind *string
	var data []byte
	if e := c.value.exact; e != nil {
		kind, data = &e.Kind, append([]byte{}, e.Data...) // not NULL, even if it is empty
	}
	r.besidePrefixes, r.besideKeys = append(r.besidePrefixes, c.prefix), append(r.besideKeys, c.key)
	r.ttls, r.kinds, r.exact = append(r.ttls, ttl), append(r.kinds, kind), append(r.exact, data)
}

// minute is the unit of LangGraph's column, in µs.
const minute = int64(time.Minute / time.Microsecond)

// vectorText is a vector as pgvector reads it.
func vectorText(v []float32) string {
	b := append(make([]byte, 0, 12*len(v)+2), '[')
	for i, x := range v {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendFloat(b, float64(x), 'g', -1, 32)
	}
	return string(append(b, ']'))
}

// commit makes all changes in one transaction, and one round trip.
//
// A transaction leaves the name of its call in stele_item_calls. So a call whose answer was lost can be
// settled, without a lock: settling it inserts the same name. That waits for the transaction, if it is
// still under way, and shows whether it was committed. If it was not, it never will be, as its own
// insert fails from then on.
func (s *Store) commit(ctx context.Context, changes []itemChange) error {
	now := s.db.Now()
	rows := newItemRows(s.db.Schema, changes, now, s.sql.column.dims > 0)
	return s.db.Write(ctx, pgdb.Write{
		Queue:  func(b *pgx.Batch, c pgdb.Call) { s.sql.queueCommit(b, c, now, rows, s.puts.Add(1)) },
		Settle: s.settle,
	})
}

// unchanged fails, with a division by zero, unless an item is still the one that was read; it stays so to the end of the transaction.
// A schema that has only a store, such as LangGraph's, lacks stele_refuse.
const unchanged = `
SELECT 1 / count(*) FROM (SELECT FROM @.store WHERE prefix = $1 AND key = $2 AND updated_at = $3 FOR UPDATE) AS s`

const codeDivision = "22012"

// PutOver makes puts in one transaction, if the item that was read is still the one under its key; ok is false if it is not, and
// nothing was put. See store.Local.PutOver.
func (s *Store) PutOver(ctx context.Context, was *store.Item, puts ...store.PutOp) (ok bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if was == nil {
		was = &store.Item{} // under a key that nothing has
	}
	changes, err := s.prepare(ctx, puts)
	if err != nil {
		return false, err
	}
	now := s.db.Now()
	rows := newItemRows(s.db.Schema, changes, now, s.sql.column.dims > 0)
	err = s.db.Write(ctx, pgdb.Write{
		Queue: func(b *pgx.Batch, c pgdb.Call) {
			if len(rows.locks) > 0 { // before the lock of the row, as those who put without a condition
				b.Queue(s.sql.lock, rows.locks)
			}
			b.Queue(pgdb.Qualify(s.db.Schema, unchanged), prefixOf(was.Namespace), was.Key, was.UpdatedAt)
			s.sql.queueCommit(b, c, now, rows, s.puts.Add(1))
		},
		Settle: s.settle,
	})
	if pgdb.HasCode(err, codeDivision) {
		return false, nil
	}
	return err == nil, err
}

func (s *Store) settle(b *pgx.Batch, c pgdb.Call, applied *bool) {
	b.Queue(s.sql.settle, [16]byte(c), s.db.Now()).QueryRow(pgdb.Row(applied))
}

// Restore implements store.Restorer.
func (s *Store) Restore(ctx context.Context, items ...store.Item) error {
	if err := ctx.Err(); err != nil || len(items) == 0 {
		return err
	}
	puts, err := store.RestorePuts(items)
	if err != nil {
		return err
	}
	changes, err := s.prepare(ctx, puts)
	if err != nil {
		return err
	}
	type address struct{ prefix, key string }
	at := make(map[address]*store.Item, len(items))
	for i := range items {
		at[address{prefixOf(items[i].Namespace), items[i].Key}] = &items[i]
	}
	for i := range changes {
		c := &changes[i]
		c.restored = at[address{c.prefix, c.key}]
		c.ttl = c.restored.TTL.Microseconds()
	}
	return s.commit(ctx, changes)
}

// Sync settles the calls of unknown outcome: a write that cannot be read after it returned nil will
// never appear. Other calls that returned without an error are durable already.
func (s *Store) Sync(ctx context.Context) error { return s.db.Sync(ctx) }

// Sweep implements store.Sweeper. It also removes names of calls that nobody waits for any
// more.
func (s *Store) Sweep(ctx context.Context) (int, error) {
	removed := 0
	for {
		n := 0
		// Removing expired items twice does no harm: they do not come back.
		err := s.db.Repeat(ctx, "", func(b *pgx.Batch) {
			now := s.db.Now()
			b.Queue(s.sql.sweep, now).Exec(func(tag pgconn.CommandTag) error {
				n = int(tag.RowsAffected())
				return nil
			})
			b.Queue(s.sql.forget, now.Add(-pgdb.VoidedFor))
		})
		if err != nil {
			return removed, err
		}
		if removed += n; n < sweepBatch {
			return removed, nil
		}
	}
}

// sweepBatch is the number of items that one transaction of a sweep removes.
const sweepBatch = 1000
