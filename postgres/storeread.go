package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/store"
)

// question is one read of a call. It is asked until it has its answer: begin, then queue
// and more until more is false. All asking of one begin sees one moment, if it is ranked.
type question interface {
	// begin forgets what came in.
	begin()
	// queue asks. What comes in replaces what the last asking brought.
	queue(b *pgx.Batch)
	// more takes what came in, and reports whether to ask again.
	more() (bool, error)
	// ranked reports whether later asking depends on what came in before, so that it must
	// see the same moment.
	ranked() bool
	// end hands the answer over. It returns the rows that were read, to be renewed.
	end(now int64) []*itemRow
}

// answer answers questions from one snapshot: in one round trip, if none is ranked and no
// filter passes less than was expected.
func (s *Store) answer(ctx context.Context, asked []question) error {
	if len(asked) == 0 {
		return nil
	}
	var err error
	if slices.ContainsFunc(asked, question.ranked) {
		err = s.db.snapshot(ctx, func(tx pgx.Tx) error {
			return askAll(asked, func(queue func(*pgx.Batch)) error {
				b := &pgx.Batch{}
				queue(b)
				return tx.SendBatch(ctx, b).Close()
			})
		})
	} else {
		err = s.askAnew(ctx, asked)
	}
	if err != nil {
		return s.callError(ctx, s.translate(err))
	}
	now := s.db.now().UnixMicro()
	var due []*itemRow
	for _, q := range asked {
		due = append(due, q.end(now)...)
	}
	s.renew(ctx, due)
	return nil
}

// askAll asks until all is answered.
func askAll(asked []question, send func(queue func(*pgx.Batch)) error) error {
	for _, q := range asked {
		q.begin()
	}
	for len(asked) > 0 {
		err := send(func(b *pgx.Batch) {
			for _, q := range asked {
				q.queue(b)
			}
		})
		if err != nil {
			return err
		}
		var left []question
		for _, q := range asked {
			again, err := q.more()
			if err != nil {
				return err
			}
			if again {
				left = append(left, q)
			}
		}
		asked = left
	}
	return nil
}

// askAnew asks everything in one round trip, each time anew, until nothing is missing: so no
// snapshot is kept from one to the next.
func (s *Store) askAnew(ctx context.Context, asked []question) error {
	for _, q := range asked {
		q.begin()
	}
	for again := true; again; {
		err := s.db.read(ctx, func(b *pgx.Batch) {
			for _, q := range asked {
				q.queue(b)
			}
		})
		if err != nil {
			return err
		}
		again = false
		for _, q := range asked {
			more, err := q.more()
			if err != nil {
				return err
			}
			again = again || more
		}
	}
	return nil
}

// itemRow is a row of itemColumns, and the distance to a query.
type itemRow struct {
	prefix, key               string
	json                      []byte
	created, updated, expires *time.Time
	minutes                   *int32
	ttl                       *int64
	kind                      *string
	exact                     []byte
	distance                  *float64

	value map[string]any
	score *float64 // of a ranking
}

func (r *itemRow) scan(rows pgx.Rows) error {
	return rows.Scan(&r.prefix, &r.key, &r.json, &r.created, &r.updated, &r.expires, &r.minutes, &r.ttl, &r.kind, &r.exact, &r.distance)
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
func (r *itemRow) life() int64 {
	switch {
	case r.ttl != nil:
		return *r.ttl
	case r.minutes != nil:
		return int64(*r.minutes) * minute
	}
	return 0
}

// renew sets the expiry that the row gets by being read at now; false if it stays.
func (r *itemRow) renew(now int64) bool {
	if r.expires == nil {
		return false
	}
	next, due := store.Renewal(now, r.expires.UnixMicro(), r.life())
	if due {
		at := time.UnixMicro(next)
		r.expires = &at
	}
	return due
}

func (r *itemRow) item() *store.Item {
	utc := func(t *time.Time) time.Time {
		if t == nil {
			return time.Time{}
		}
		return t.UTC()
	}
	it := &store.Item{Namespace: namespaceOf(r.prefix), Key: r.key, Value: r.value, CreatedAt: utc(r.created), UpdatedAt: utc(r.updated), ExpiresAt: utc(r.expires)}
	if r.expires != nil {
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
	var updated, expires []*time.Time
	for _, r := range due {
		prefixes, keys = append(prefixes, r.prefix), append(keys, r.key)
		updated, expires = append(updated, r.updated), append(expires, r.expires)
	}
	err := s.db.again(ctx, func() (bool, error) {
		err := s.db.sendBatch(ctx, func(b *pgx.Batch) { b.Queue(s.sql.renew, prefixes, keys, updated, expires, s.db.now()) })
		return err != nil && passing(err), s.translate(err)
	})
	if err != nil {
		s.opts.Logger.Warn("renew items that were read", "error", err)
	}
}

// due are the rows that being read renews.
func (s *Store) due(rows []*itemRow, off bool, now int64) (due []*itemRow) {
	if off || s.opts.KeepLife {
		return nil
	}
	for _, r := range rows {
		if r.renew(now) {
			due = append(due, r)
		}
	}
	return due
}

// getting is a GetOp.
type getting struct {
	s    *Store
	op   store.GetOp
	none bool // there can be no such item
	row  *itemRow
	out  *store.Result
}

func (s *Store) newGet(op store.GetOp, out *store.Result) (question, error) {
	if err := store.CheckAddress(op.Namespace, op.Key); err != nil {
		return nil, err
	}
	return &getting{s: s, op: op, out: out, none: !findable(op.Namespace) || !storable(op.Key)}, nil
}

func (g *getting) begin() {}

func (g *getting) queue(b *pgx.Batch) {
	g.row = nil
	if g.none {
		return
	}
	b.Queue(g.s.sql.one, prefixOf(g.op.Namespace), g.op.Key, g.s.opts.ShowExpired, g.s.db.now()).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			g.row = &itemRow{}
			if err := g.row.scan(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}

func (g *getting) more() (bool, error) {
	if g.row == nil {
		return false, nil
	}
	return false, g.row.decode(g.s.codec)
}

func (g *getting) ranked() bool { return false }

func (g *getting) end(now int64) []*itemRow {
	if g.row == nil {
		return nil
	}
	due := g.s.due([]*itemRow{g.row}, g.op.NoRefresh, now)
	g.out.Item = g.row.item()
	return due
}
