package engine

import (
	"runtime"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/delta"
	"github.com/stele-go/stele/index"
)

// bytes are those of the blocks that are kept.
func (r *recent) bytes() (n int) {
	for _, g := range []generation{r.now, r.then} {
		for _, parts := range g.blocks {
			for _, p := range parts {
				n += len(p.bytes)
			}
		}
	}
	return n
}

// TestRecentBlocksInTurn: a call that goes through many blocks in turn, a value of each,
// decodes none for each value, be they more than it may keep; and it keeps no more.
func TestRecentBlocksInTurn(t *testing.T) {
	const size, value = 1 << 20, 1 << 10
	block := make([]byte, size)
	for i := range block {
		block[i] = byte(i >> 10)
	}
	for _, blocks := range []int{1, 7, 16, 24, 30} {
		r, decoded := new(recent), 0
		for step := 0; step < size; step += value {
			for n := range blocks {
				// Two series share a block, and the call goes through both, one backwards.
				at := step / 2 / value * value
				if step/value%2 == 1 {
					at = size - value - at
				}
				loc := index.Loc{File: 3, Off: uint64(n) * size, Stored: 100, Inner: uint32(at), Len: value}
				b, ok := r.value(loc)
				if !ok {
					decoded++
					r.keep(loc, block)
					if b, ok = r.value(loc); !ok {
						t.Fatalf("block %d at %d was decoded, and is not kept", n, at)
					}
				}
				if len(b) != value || b[0] != byte(at>>10) || b[value-1] != byte(at>>10) {
					t.Fatalf("block %d at %d: not the value there", n, at)
				}
			}
			if n := r.bytes(); n > 2*recentBytes {
				t.Fatalf("%d blocks in turn: %d bytes are kept", blocks, n)
			}
		}
		most := blocks // once each, while all have room
		if blocks*size > recentBytes {
			most *= 2 + 2*size/partBytes
		}
		t.Logf("%d blocks of %d values in turn: %d decoded", blocks, size/value, decoded)
		if decoded > most {
			t.Errorf("%d blocks of %d values in turn: %d decoded, more than %d", blocks, size/value, decoded, most)
		}
	}
}

// TestRecentAtManyPlaces: a call that stands at more places of a block than it may keep
// parts of keeps no more for that.
func TestRecentAtManyPlaces(t *testing.T) {
	const size, value, places = recentLargest, 100, 1000
	r, before := new(recent), int(heapNow())
	block := make([]byte, size)
	for step := range 5 {
		for place := range places {
			loc := index.Loc{File: 3, Stored: 100, Inner: uint32(place*(size/places) + step*value), Len: value}
			if _, ok := r.value(loc); !ok {
				r.keep(loc, block)
			}
		}
		if n, held := r.bytes(), int(heapNow())-before; n > 2*recentBytes || held > 2*recentBytes+size+1<<20 {
			t.Fatalf("%d bytes are kept, in %d", n, held)
		}
	}
	runtime.KeepAlive(block)
}

// TestRecentHoldsNoLargerValues: small versions that were made of large ones, and are asked
// for again and again, hold no more memory than a call may keep.
func TestRecentHoldsNoLargerValues(t *testing.T) {
	const series, size, small = 100, 1 << 20, 3 << 10
	r := new(recent)
	before := int(heapNow())
	for round := range 4 {
		for i := range series {
			ref := func(version uint16) index.Ref { return index.Ref{LSN: 1 + base.LSN(i), Ord: version} }
			if round > 0 {
				if v := r.view(ref(1)); v == nil || len(v.Bytes()) != small {
					t.Fatalf("round %d: version %d is not kept", round, i)
				}
				continue
			}
			large := []byte(noise(i, size))
			target := large[size/2 : size/2+small]
			p, err := delta.Decode(delta.Between(delta.OnePiece(large), delta.OnePiece(target), valueSum(target), small/2))
			must(t, err)
			root := delta.Whole(large)
			v, err := p.On(root)
			must(t, err)
			r.keepView(ref(0), root, 0)
			r.keepView(ref(1), v, p.Size())
			_ = r.view(ref(1))
			for k := range i { // as a call that comes by them all
				_ = r.view(index.Ref{LSN: 1 + base.LSN(k), Ord: 1})
			}
		}
	}
	if held := int(heapNow()) - before; held > 2*recentBytes+1<<20 {
		t.Errorf("%d versions of %d bytes hold %d", series, small, held)
	}
	runtime.KeepAlive(r)
}
