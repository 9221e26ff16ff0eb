package pgstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/store"

	"github.com/stele-go/stele/postgres/internal/pgdb"
)

// batchRead is one read of a call, made in one or more rounds: begin, then queue and more until more is
// false. If it is ranked, all rounds of one begin see one snapshot.
type batchRead interface {
	// begin drops all results.
	begin()
	// queue queues the queries of the next round. Their results replace those of the last round.
	queue(b *pgx.Batch)
	// more takes the results of a round, and reports whether another one is needed.
	more() (bool, error)
	// ranked reports whether later rounds depend on the results of earlier ones, so that all must see
	// one snapshot.
	ranked() bool
	// end hands the answer over. It returns the rows that were read, to be renewed.
	end(now int64) []*itemRow
}

// answer performs reads from one snapshot: in one round trip, if none is ranked and no filter passes
// less than was expected.
func (s *Store) answer(ctx context.Context, asked []batchRead) error {
	if len(asked) == 0 {
		return nil
	}
	var err error
	if slices.ContainsFunc(asked, batchRead.ranked) {
		err = s.db.Snapshot(ctx, func(tx pgx.Tx) error {
			return askAll(asked, false, func(queue func(*pgx.Batch)) error {
				b := &pgx.Batch{}
				queue(b)
				return tx.SendBatch(ctx, b).Close()
			})
		})
	} else { // in one round trip, each time anew, so that no snapshot is kept from one to the next
		err = askAll(asked, true, func(queue func(*pgx.Batch)) error { return s.db.Read(ctx, queue) })
	}
	if err != nil {
		return err
	}
	now := s.db.Now().UnixMicro()
	var due []*itemRow
	for _, q := range asked {
		due = append(due, q.end(now)...)
	}
	s.renew(ctx, due)
	return nil
}

// askAll sends rounds until all reads are complete: each time those that are not, or, with anew, all
// from the beginning.
func askAll(asked []batchRead, anew bool, send func(queue func(*pgx.Batch)) error) error {
	for _, r := range asked {
		r.begin()
	}
	for left := asked; len(left) > 0; {
		err := send(func(b *pgx.Batch) {
			for _, r := range left {
				r.queue(b)
			}
		})
		if err != nil {
			return err
		}
		var again []batchRead
		for _, r := range left {
			more, err := r.more()
			if err != nil {
				return err
			}
			if more {
				again = append(again, r)
			}
		}
		if left = again; anew && len(again) > 0 {
			left = asked
		}
	}
	return nil
}

// itemRow is a row of itemColumns, and the distance to a query.
type itemRow struct {
	prefix, key               string
	json                      []byte
	created, updated, expires time.Time // zero: NULL
	minutes                   zeronull.Int4
	ttl                       zeronull.Int8 // µs
	kind                      *string
	exact                     []byte
	distance                  *float64

	value map[string]any
	score *float64 // of a ranking
}

// eachItem is a function of a batch that gives each row to f.
func eachItem(f func(r *itemRow)) func(pgx.Rows) error {
	var r itemRow
	at := func(t *time.Time) any { return (*zeronull.Timestamptz)(t) }
	return pgdb.Each(func() error {
		one := r
		f(&one)
		return nil
	}, &r.prefix, &r.key, &r.json, at(&r.created), at(&r.updated), at(&r.expires), &r.minutes, &r.ttl, &r.kind, &r.exact, &r.distance)
}

// decode reads the value.
func (r *itemRow) decode(codec serde.Serializer) (err error) {
	if r.kind != nil {
		r.value, err = decodeExact(codec, serde.Typed{Kind: *r.kind, Data: r.exact})
	} else {
		r.value, err = decodeValue(r.json)
	}
	if err != nil {
		return fmt.Errorf("key %q in namespace %q: %w", r.key, namespaceOf(r.prefix), err)
	}
	return nil
}

// life is the TTL in µs; 0 if it is not known.
func (r *itemRow) life() int64 { return cmp.Or(int64(r.ttl), int64(r.minutes)*minute) }

// renew sets the expiry that the row gets by being read at now; false if it stays.
func (r *itemRow) renew(now int64) bool {
	if r.expires.IsZero() {
		return false
	}
	next, due := store.Renewal(now, r.expires.UnixMicro(), r.life())
	if due {
		r.expires = time.UnixMicro(next)
	}
	return due
}

func (r *itemRow) item() *store.Item {
	it := &store.Item{Namespace: namespaceOf(r.prefix), Key: r.key, Value: r.value,
		CreatedAt: r.created.UTC(), UpdatedAt: r.updated.UTC(), ExpiresAt: r.expires.UTC()}
	if !r.expires.IsZero() {
		it.TTL = time.Duration(r.life()) * time.Microsecond
	}
	return it
}

// renew stores the expiry that rows have now. A failure is not an error of the read, because
// the server may be read-only.
func (s *Store) renew(ctx context.Context, due []*itemRow) {
	if len(due) == 0 {
		return
	}
	var prefixes, keys []string
	var updated, expires []time.Time
	for _, r := range due {
		prefixes, keys = append(prefixes, r.prefix), append(keys, r.key)
		updated, expires = append(updated, r.updated), append(expires, r.expires)
	}
	err := s.db.Again(ctx, func() (bool, error) {
		err := s.db.SendBatch(ctx, func(b *pgx.Batch) { b.Queue(s.sql.renew, prefixes, keys, updated, expires, s.db.Now()) })
		return pgdb.Passing(err), s.db.Translate(err)
	})
	if err != nil {
		s.opts.Logger.Warn("renew items that were read", "error", err)
	}
}

// due are the rows that being read renews.
func (s *Store) due(rows []*itemRow, off bool, now int64) (due []*itemRow) {
	if off || s.opts.NoRefreshOnRead {
		return nil
	}
	for _, r := range rows {
		if r.renew(now) {
			due = append(due, r)
		}
	}
	return due
}

// getRead is a GetOp.
type getRead struct {
	s    *Store
	op   store.GetOp
	none bool // there can be no such item
	row  *itemRow
	out  *store.Result
}

func (s *Store) newGet(op store.GetOp, out *store.Result) (batchRead, error) {
	if err := store.CheckAddress(op.Namespace, op.Key); err != nil {
		return nil, err
	}
	return &getRead{s: s, op: op, out: out, none: !findable(op.Namespace) || !pgdb.Storable(op.Key)}, nil
}

func (g *getRead) begin() {}

func (g *getRead) queue(b *pgx.Batch) {
	g.row = nil
	if g.none {
		return
	}
	b.Queue(g.s.sql.one, prefixOf(g.op.Namespace), g.op.Key, g.s.opts.ShowExpired, g.s.db.Now()).Query(eachItem(func(r *itemRow) { g.row = r }))
}

func (g *getRead) more() (bool, error) {
	if g.row == nil {
		return false, nil
	}
	return false, g.row.decode(g.s.codec)
}

func (g *getRead) ranked() bool { return false }

func (g *getRead) end(now int64) []*itemRow {
	if g.row == nil {
		return nil
	}
	due := g.s.due([]*itemRow{g.row}, g.op.NoRefresh, now)
	g.out.Item = g.row.item()
	return due
}
