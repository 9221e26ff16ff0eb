package engine

import (
	"errors"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// whole checks that a cache holds what it says, and not more than it may.
func (c *blockCache) whole(t *rapid.T) {
	for i := range c.shards {
		s := &c.shards[i]
		n := 0
		for _, p := range []*cachePart{&s.young, &s.old} {
			size := int64(0)
			for el := p.order.Front(); el != nil; el = el.Next() {
				e := el.Value.(*cacheEntry)
				if size += e.size(); s.items[e.key] != el || e.old != (p == &s.old) {
					t.Fatalf("entry %v is not where it says", e.key)
				}
				n++
			}
			if size != p.size || size > p.max {
				t.Fatalf("%d bytes, counted as %d of %d", size, p.size, p.max)
			}
		}
		if n != len(s.items) {
			t.Fatalf("%d entries of %d", n, len(s.items))
		}
	}
}

func TestBlockCacheBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newBlockCache(rapid.Int64Range(-1, 64<<10).Draw(t, "bytes"))
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			k := blockKey{off: uint64(rapid.IntRange(0, 60).Draw(t, "block"))}
			want := 100 * (int(k.off) + 1)
			if b, ok := c.get(k); ok {
				if len(b) != want {
					t.Fatalf("block %d has %d bytes", k.off, len(b))
				}
				continue
			}
			c.add(k, make([]byte, want))
			if _, ok := c.get(k); ok != (int64(want)+cacheEntrySize <= c.largest()) {
				t.Fatalf("a block of %d bytes is kept: %v, the largest may have %d", want, ok, c.largest())
			}
			c.whole(t)
		}
	})
}

// What is read again and again stays, however much is read once, and that takes no
// more than its part.
func TestBlockCacheScan(t *testing.T) {
	const size, hot, cold = 1000, 100, 10_000
	c := newBlockCache(1 << 20)
	read := func(i int) (hit bool) {
		k := blockKey{off: uint64(i) * 4096}
		for range 5 { // a value after the other
			if _, ok := c.get(k); ok {
				hit = true
				continue
			}
			c.add(k, make([]byte, size))
			if hit {
				t.Fatalf("block %d was forgotten between two values", i)
			}
		}
		return hit
	}
	for i := range cold {
		read(hot + i)
	}
	if n := c.bytes(); n > 1<<20*youngShare/8 {
		t.Errorf("blocks read once take %d bytes", n)
	}
	for range 5 {
		for i := range hot {
			read(i)
		}
	}
	for i := range cold {
		read(hot + i)
	}
	before := c.misses.Load()
	for i := range hot {
		read(i)
	}
	if n := c.misses.Load() - before; n > 0 {
		t.Errorf("%d of %d blocks that are read often were put out by a scan", n, hot)
	}
}

// TestFlightFails lets those who wait for a read that fails read for themselves.
func TestFlightFails(t *testing.T) {
	f := newFlights()
	key, begun, let := blockKey{file: 1, off: 2}, make(chan struct{}), make(chan struct{})
	failed := errors.New("failed")
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _, err := f.read(key, func() ([]byte, error) { close(begun); <-let; return nil, failed })
		if !errors.Is(err, failed) {
			t.Errorf("the first reader got %v", err)
		}
	})
	<-begun
	wg.Go(func() {
		b, shared, err := f.read(key, func() ([]byte, error) { return []byte("x"), nil })
		if string(b) != "x" || shared || err != nil {
			t.Errorf("the second reader got %q, %t, %v", b, shared, err)
		}
	})
	close(let)
	wg.Wait()
	if len(f.m) != 0 {
		t.Errorf("%d reads are still in progress", len(f.m))
	}
}
