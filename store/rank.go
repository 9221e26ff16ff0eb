package store

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// ownersAtOnce is how many items a goroutine takes at a time. Fewer are not worth another
// goroutine.
const ownersAtOnce = 2048

// nearest implements space: every vector is compared.
func (s *diskSpace) nearest(ctx context.Context, sc *scorer, accept func(*entry) (bool, error), top *best[hit]) error {
	if err := s.load(); err != nil {
		return err
	}
	table, err := s.v.d.vectorsOf(ctx, s.v.from.Read, s.t)
	if err != nil {
		return err
	}
	var mu sync.Mutex // guards top and err
	parallel(len(table.owners), ownersAtOnce, func(next func() (from, to int, ok bool)) {
		r := ranking{s: s, sc: sc, table: table, accept: accept, top: best[hit]{n: top.n, before: top.before}}
		var e error
		for from, to, ok := next(); ok && e == nil; from, to, ok = next() {
			e = r.rank(ctx, from, to)
		}
		mu.Lock()
		defer mu.Unlock()
		if e != nil {
			err = e
		}
		for _, h := range r.top.list {
			top.offer(h)
		}
	})
	return err
}

// ranking is the share of one goroutine in a search.
type ranking struct {
	s      *diskSpace
	sc     *scorer
	table  *vectorTable
	accept func(*entry) (bool, error)
	top    best[hit]
}

// rank offers the items from and up to to, exclusive.
func (r *ranking) rank(ctx context.Context, from, to int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for i := from; i < to; i++ {
		if o := &r.table.owners[i]; o.n > 0 {
			if err := r.offer(o); err != nil {
				return err
			}
		}
	}
	return nil
}

// offer offers one item. It computes the score first, because that rules most items out
// before their entries are decoded.
func (r *ranking) offer(o *owner) error {
	dims := r.sc.dims
	score := r.sc.best(r.table.rows[o.row*dims : (o.row+int(o.n))*dims])
	if len(r.top.list) == r.top.n && score < r.top.list[0].score {
		return nil
	}
	h := hit{score: score, scored: true}
	if err := entryOf(r.s.t, o.item, &h.entry); err != nil {
		return err
	}
	if !r.top.wants(h) {
		return nil
	}
	ok, err := r.accept(&h.entry)
	if ok && err == nil {
		r.top.offer(h)
	}
	return err
}

// parallel divides [0, n) into ranges and calls work on several goroutines, one of which is
// the caller's. Each work calls next for its next range until ok is false.
func parallel(n, atOnce int, work func(next func() (from, to int, ok bool))) {
	var taken atomic.Int64
	next := func() (from, to int, ok bool) {
		to = int(taken.Add(int64(atOnce)))
		from = to - atOnce
		return from, min(to, n), from < n
	}
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n/atOnce) - 1 {
		wg.Go(func() { work(next) })
	}
	work(next)
	wg.Wait()
}
