package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/saver/layout"
)

// vectorTable holds the vectors of a namespace as one view sees it, in one contiguous
// slice, so that a search reads memory from end to end. It is immutable.
//
// Tables of one namespace share rows. Three rules make that safe: a row is never
// rewritten; only the holder of durable.mu appends, to the newest list of rows; and a
// table refers to rows below the length it was made with.
type vectorTable struct {
	birth, lsn base.LSN  // of the partition it was made from
	owners     []owner   // in the order of keys
	rows       []float32 // vectors, ready to be compared
	used       int       // rows that owners refer to
	searched   uint64    // number of the last search that used it
}

// bytes is the memory that the table holds.
func (s *vectorTable) bytes() int64 {
	const perFloat, perOwner = 4, 24
	return int64(cap(s.rows))*perFloat + int64(len(s.owners))*perOwner
}

// owner is an item and its rows.
type owner struct {
	item *index.Entry
	row  int   // its first row
	n    int32 // its number of rows; 0: no vectors of the index's dimension
}

func vectorRef(it *index.Entry) index.Ref {
	if it.Slots.Len() < 2 {
		return index.Ref{}
	}
	return it.Slots.At(1).Ref
}

// vectorsOf returns the table of a partition as a view sees it. It reads only the vectors
// that the kept table, made for another view, does not have.
func (d *durable) vectorsOf(ctx context.Context, read reading, t *index.Partition) (*vectorTable, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.searches++
	kept := d.tables[t.ID]
	if kept != nil && kept.birth == t.Birth && kept.lsn == t.LSN {
		kept.searched = d.searches
		return kept, nil
	}
	from := kept
	if kept == nil || kept.birth != t.Birth {
		from = &vectorTable{}
	}
	next, err := d.rebuildVectors(ctx, read, from, t)
	if err != nil {
		return nil, err
	}
	switch {
	case kept == nil || t.LSN > kept.lsn:
		if len(next.rows) > 2*next.used*d.index.Dims+1<<16 {
			next.compact(d.index.Dims)
		}
		next.searched = d.searches
		d.tables[t.ID] = next
		d.evict(t.ID)
	case from == kept: // the view is older than the kept table, which gets the rows that were appended
		k := *kept
		k.rows = next.rows
		d.tables[t.ID] = &k
	}
	return next, nil
}

// rebuildVectors makes the table of t. It merges t with cur, a table for another view, and
// reads the vectors that cur lacks. The caller holds mu.
func (d *durable) rebuildVectors(ctx context.Context, read reading, cur *vectorTable, t *index.Partition) (*vectorTable, error) {
	next := &vectorTable{birth: t.Birth, lsn: t.LSN, rows: cur.rows, owners: make([]owner, 0, len(cur.owners)+16)}
	old := cur.owners
	var err error
	t.Ascend("", func(it *index.Entry) bool {
		for len(old) > 0 && strings.Compare(old[0].item.Key, it.Key) < 0 {
			old = old[1:]
		}
		o := owner{item: it}
		ref := vectorRef(it)
		switch {
		case ref.Empty():
		case len(old) > 0 && old[0].item.Key == it.Key && vectorRef(old[0].item) == ref:
			o.row, o.n = old[0].row, old[0].n
		default:
			if len(next.owners)%checkEvery == 0 && ctx.Err() != nil {
				err = ctx.Err()
				return false
			}
			o.row = len(next.rows) / d.index.Dims
			if o.n, err = d.loadVectors(ctx, read, next, t.Family, it); err != nil {
				return false
			}
		}
		next.used += int(o.n)
		next.owners = append(next.owners, o)
		return true
	})
	return next, err
}

// loadVectors reads the vectors of an item and appends them to the rows of s.
func (d *durable) loadVectors(ctx context.Context, read reading, s *vectorTable, fam *index.Family, it *index.Entry) (n int32, err error) {
	defer func() {
		if err != nil {
			n, err = 0, fmt.Errorf("vectors of store item %q: %w", it.Key[1:], err)
		}
	}()
	b, err := read(ctx, fam, vectorRef(it))
	if err != nil {
		return 0, err
	}
	typed, err := layout.UnpackTyped(b)
	if err != nil {
		return 0, err
	}
	if isEncrypted(typed.Kind) {
		var plain []byte
		if err := d.codec.DecodeInto(typed, &plain); err != nil {
			return 0, err
		}
		typed.Data = plain
	}
	from := len(s.rows)
	rows, count, err := decodeVectors(s.rows, typed.Data, d.index.Dims)
	if err != nil {
		return 0, err
	}
	s.rows = rows
	prepareVectors(d.index.Metric, d.index.Dims, rows[from:])
	return int32(count), nil
}

// compact copies the rows that have owners, so that the others can be freed.
func (s *vectorTable) compact(dims int) {
	own := make([]float32, 0, (s.used+s.used/8)*dims)
	for i := range s.owners {
		o := &s.owners[i]
		from, to := o.row, o.row+int(o.n)
		o.row = len(own) / dims
		own = append(own, s.rows[from*dims:to*dims]...)
	}
	s.rows = own
}

// evict drops the tables that were searched longest ago, until the rest is within the
// budget or only keep is left. The caller holds mu.
func (d *durable) evict(keep string) {
	total := int64(0)
	for _, s := range d.tables {
		total += s.bytes()
	}
	for total > d.budget && len(d.tables) > 1 {
		oldest := ""
		for id, s := range d.tables {
			if id != keep && (oldest == "" || s.searched < d.tables[oldest].searched) {
				oldest = id
			}
		}
		total -= d.tables[oldest].bytes()
		delete(d.tables, oldest)
	}
}
