package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/internal/layout"
)

// shelf is the vectors of a namespace at one moment, one after the other, so that
// a search reads memory from end to end. It is immutable.
//
// Shelves of one namespace share rows: (1) a row is never rewritten, (2) only the
// holder of durable.mu appends, to the newest list of rows, and (3) a shelf refers
// to rows below the length it was made with.
type shelf struct {
	birth, lsn base.LSN  // of the thread it was made from
	owners     []owner   // in the order of keys
	rows       []float32 // vectors, ready to be compared
	used       int       // rows that owners refer to
	searched   uint64
}

// bytes is the memory that the shelf holds.
func (s *shelf) bytes() int64 {
	const perFloat, perOwner = 4, 24
	return int64(cap(s.rows))*perFloat + int64(len(s.owners))*perOwner
}

// owner is an item and its rows.
type owner struct {
	item *index.Item
	row  int   // the first
	n    int32 // how many; 0: it has no vectors of the index's dimension
}

func vectorRef(it *index.Item) index.Ref {
	if len(it.Slots) < 2 {
		return index.Ref{}
	}
	return it.Slots[1].Ref
}

// shelfOf is the shelf of a thread as a view sees it. What is on the shelf of
// another moment is taken from there.
func (d *durable) shelfOf(ctx context.Context, read reading, t *index.Partition) (*shelf, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.searches++
	kept := d.shelves[t.ID]
	if kept != nil && kept.birth == t.Birth && kept.lsn == t.LSN {
		kept.searched = d.searches
		return kept, nil
	}
	from := kept
	if kept == nil || kept.birth != t.Birth {
		from = &shelf{}
	}
	next, err := d.restock(ctx, read, from, t)
	if err != nil {
		return nil, err
	}
	switch {
	case kept == nil || t.LSN > kept.lsn:
		if len(next.rows) > 2*next.used*d.index.Dims+1<<16 {
			next.compact(d.index.Dims)
		}
		next.searched = d.searches
		d.shelves[t.ID] = next
		d.evict(t.ID)
	case from == kept: // a view of an earlier moment: rows were appended behind those of the shelf
		k := *kept
		k.rows = next.rows
		d.shelves[t.ID] = &k
	}
	return next, nil
}

// restock walks the thread and a shelf of another moment side by side. The caller
// holds mu.
func (d *durable) restock(ctx context.Context, read reading, cur *shelf, t *index.Partition) (*shelf, error) {
	next := &shelf{birth: t.Birth, lsn: t.LSN, rows: cur.rows, owners: make([]owner, 0, len(cur.owners)+16)}
	old := cur.owners
	var err error
	t.Ascend("", func(it *index.Item) bool {
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
			if o.n, err = d.stock(ctx, read, next, t.Family, it); err != nil {
				return false
			}
		}
		next.used += int(o.n)
		next.owners = append(next.owners, o)
		return true
	})
	return next, err
}

// stock appends the vectors of an item.
func (d *durable) stock(ctx context.Context, read reading, s *shelf, fam *index.Family, it *index.Item) (int32, error) {
	b, err := read(ctx, fam, vectorRef(it))
	if err != nil {
		return 0, fmt.Errorf("vectors of store item %q: %w", it.Key[1:], err)
	}
	typed, err := layout.UnpackTyped(b)
	if err != nil {
		return 0, fmt.Errorf("vectors of store item %q: %w", it.Key[1:], err)
	}
	if isEncrypted(typed.Kind) {
		var plain []byte
		if err := d.codec.DecodeInto(typed, &plain); err != nil {
			return 0, fmt.Errorf("vectors of store item %q: %w", it.Key[1:], err)
		}
		typed.Data = plain
	}
	from := len(s.rows)
	rows, n, err := decodeVectors(s.rows, typed.Data, d.index.Dims)
	if err != nil {
		return 0, fmt.Errorf("vectors of store item %q: %w", it.Key[1:], err)
	}
	s.rows = rows
	prepareVectors(d.index.Metric, d.index.Dims, rows[from:])
	return int32(n), nil
}

// compact gives the shelf rows of its own, without those nobody owns.
func (s *shelf) compact(dims int) {
	own := make([]float32, 0, (s.used+s.used/8)*dims)
	for i := range s.owners {
		o := &s.owners[i]
		from, to := o.row, o.row+int(o.n)
		o.row = len(own) / dims
		own = append(own, s.rows[from*dims:to*dims]...)
	}
	s.rows = own
}

// evict forgets the shelves longest not searched while all are over the budget.
// The caller holds mu.
func (d *durable) evict(keep string) {
	total := int64(0)
	for _, s := range d.shelves {
		total += s.bytes()
	}
	for total > d.budget && len(d.shelves) > 1 {
		oldest := ""
		for id, s := range d.shelves {
			if id != keep && (oldest == "" || s.searched < d.shelves[oldest].searched) {
				oldest = id
			}
		}
		total -= d.shelves[oldest].bytes()
		delete(d.shelves, oldest)
	}
}
