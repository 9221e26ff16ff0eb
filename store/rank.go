package store

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

const (
	// ownersAtOnce is how many items a processor takes at a time, and what is
	// worth a goroutine.
	ownersAtOnce = 2048
	// rowsAtOnce is how many sketches are compared before their items are looked
	// at.
	rowsAtOnce = 64
)

// nearest implements space: every vector is compared, by its sketch or exactly.
func (s *diskSpace) nearest(ctx context.Context, sc *scorer, accept func(*entry) (bool, error), top *best[hit]) error {
	if err := s.load(); err != nil {
		return err
	}
	sh, err := s.v.d.shelfOf(ctx, s.v.from.Read, s.t)
	if err != nil {
		return err
	}
	var p *probe
	if len(sh.rows.sketches) > 0 && top.n <= len(sh.owners)/16 {
		p = newProbe(sc)
	}
	var mu sync.Mutex // guards top and err
	parallel(len(sh.owners), ownersAtOnce, func(next func() (from, to int, ok bool)) {
		r := ranking{s: s, sc: sc, sh: sh, probe: p, accept: accept, top: best[hit]{n: top.n, before: top.before}}
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

// ranking is the part of a search that one goroutine does.
type ranking struct {
	s      *diskSpace
	sc     *scorer
	sh     *shelf
	probe  *probe // nil: sketches are of no use
	accept func(*entry) (bool, error)
	top    best[hit]

	seen, exact int // rows compared, and those compared exactly
	products    [rowsAtOnce]int32
}

// rank offers the items of one part of the shelf.
func (r *ranking) rank(ctx context.Context, from, to int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for i := from; i < to; {
		end, first, n := r.run(i, to)
		if p := r.probe; p != nil && n <= rowsAtOnce {
			stride := len(p.codes)
			codeProducts(p.codes, r.sh.rows.codes[first*stride:(first+n)*stride], r.products[:])
		}
		for ; i < end; i++ {
			if err := r.offer(&r.sh.owners[i], first, n); err != nil {
				return err
			}
		}
		if r.seen += n; r.exact > 4*rowsAtOnce && 2*r.exact > r.seen {
			r.probe = nil // the vectors are too much alike
		}
	}
	return nil
}

// run is the items from i on whose rows lie one after the other, at most
// rowsAtOnce unless the first alone has more: the end, the first row and how many.
func (r *ranking) run(i, to int) (end, first, n int) {
	for end = i; end < to; end++ {
		o := &r.sh.owners[end]
		switch {
		case o.n == 0:
		case n == 0:
			first, n = o.row, int(o.n)
		case o.row != first+n || n+int(o.n) > rowsAtOnce:
			return end, first, n
		default:
			n += int(o.n)
		}
		if n >= rowsAtOnce {
			return end + 1, first, n
		}
	}
	return end, first, n
}

// offer offers one item of a run, unless its sketches say that it is too far.
func (r *ranking) offer(o *owner, first, n int) error {
	if o.n == 0 {
		return nil
	}
	full := len(r.top.list) == r.top.n
	if full && r.probe != nil && n <= rowsAtOnce && !r.near(o, first) {
		return nil
	}
	r.exact += int(o.n)
	score := r.sc.best(r.sh.rows.floats[o.row*r.sc.dims : (o.row+int(o.n))*r.sc.dims])
	if full && score < r.top.list[0].score {
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

// near reports whether one of an item's vectors may be as near as the farthest
// that is kept.
func (r *ranking) near(o *owner, first int) bool {
	worst := r.top.list[0].score
	for k := range int(o.n) {
		if !(r.probe.bound(r.products[o.row+k-first], &r.sh.rows.sketches[o.row+k]) < worst) {
			return true
		}
	}
	return false
}

// parallel divides n steps between the processors, the caller's among them. Each
// work calls next until it is not ok; the ranges are together [0, n).
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
