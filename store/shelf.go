package store

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/saver"
)

// shelf is the vectors of a namespace at one moment, one after the other, so that
// a search reads memory from end to end. It is immutable.
//
// Shelves of one namespace share rows: (1) a row is never rewritten, (2) only the
// holder of disk.mu appends, to the newest list of rows, and (3) a shelf refers
// to rows below the length it was made with.
type shelf struct {
	birth, lsn base.LSN // of the thread it was made from
	owners     []owner  // in the order of keys
	rows       []float32
	used       int64 // rows that owners refer to, in floats
	searched   uint64
}

// owner is an item and its rows.
type owner struct {
	item *index.Item
	row  int   // where they begin, in floats
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
func (d *disk) shelfOf(ctx context.Context, t *index.Thread) (*shelf, error) {
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
	next, err := d.restock(ctx, from, t)
	if err != nil {
		return nil, err
	}
	switch {
	case kept == nil || t.LSN > kept.lsn:
		if int64(len(next.rows)) > 2*next.used+1<<16 {
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
func (d *disk) restock(ctx context.Context, cur *shelf, t *index.Thread) (*shelf, error) {
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
			o.row = len(next.rows)
			if o.n, err = d.stock(ctx, next, t.Family, it); err != nil {
				return false
			}
		}
		next.used += int64(o.n) * int64(d.index.Dims)
		next.owners = append(next.owners, o)
		return true
	})
	return next, err
}

// stock appends the vectors of an item.
func (d *disk) stock(ctx context.Context, s *shelf, fam *index.Family, it *index.Item) (int32, error) {
	b, err := d.e.ReadValue(ctx, fam, vectorRef(it))
	if err != nil {
		return 0, fmt.Errorf("vectors of store item %q: %w", it.Key[1:], err)
	}
	typed, err := saver.UnpackTyped(b)
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
	rows := make([]float32, 0, s.used+s.used/8)
	for i := range s.owners {
		o := &s.owners[i]
		at := len(rows)
		rows = append(rows, s.rows[o.row:o.row+int(o.n)*dims]...)
		o.row = at
	}
	s.rows = rows
}

// evict forgets the shelves longest not searched while all are over the budget.
// The caller holds mu.
func (d *disk) evict(keep string) {
	const perOwner = 24
	total := int64(0)
	for _, s := range d.shelves {
		total += int64(cap(s.rows))*4 + int64(len(s.owners))*perOwner
	}
	for total > d.budget && len(d.shelves) > 1 {
		oldest := ""
		for id, s := range d.shelves {
			if id != keep && (oldest == "" || s.searched < d.shelves[oldest].searched) {
				oldest = id
			}
		}
		s := d.shelves[oldest]
		total -= int64(cap(s.rows))*4 + int64(len(s.owners))*perOwner
		delete(d.shelves, oldest)
	}
}

// leastOwners is how many items are worth a goroutine of their own.
const leastOwners = 4096

// nearest implements space: every vector is compared.
func (s *diskSpace) nearest(ctx context.Context, sc *scorer, accept func(*entry) (bool, error), top *best[hit]) error {
	if err := s.load(); err != nil {
		return err
	}
	sh, err := s.v.d.shelfOf(ctx, s.t)
	if err != nil {
		return err
	}
	var mu sync.Mutex // guards top and err
	parallel(len(sh.owners), leastOwners, func(from, to int) {
		own := best[hit]{n: top.n, before: top.before}
		e := s.rank(ctx, sc, sh, from, to, accept, &own)
		mu.Lock()
		defer mu.Unlock()
		if e != nil {
			err = e
		}
		for _, h := range own.list {
			top.offer(h)
		}
	})
	return err
}

// rank offers the items of one part of a shelf.
func (s *diskSpace) rank(ctx context.Context, sc *scorer, sh *shelf, from, to int, accept func(*entry) (bool, error), top *best[hit]) error {
	worst := float32(0)
	for i := from; i < to; i++ {
		if (i-from)%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		o := &sh.owners[i]
		if o.n == 0 {
			continue
		}
		score := sc.best(sh.rows[o.row : o.row+int(o.n)*sc.dims])
		if len(top.list) == top.n && score < worst {
			continue
		}
		h := hit{score: score, scored: true}
		if err := entryOf(s.t, o.item, &h.entry); err != nil {
			return err
		}
		if !top.wants(h) {
			continue
		}
		ok, err := accept(&h.entry)
		if err != nil {
			return err
		}
		if ok {
			top.offer(h)
			worst = top.list[0].score
		}
	}
	return nil
}
