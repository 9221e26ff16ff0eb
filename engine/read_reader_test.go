package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/index"
)

// Reading all versions of a series with a Reader applies each patch once, newest
// first as a listing does, from the log and from a segment; alone each version
// costs its chain.
func TestReaderAppliesEachPatchOnce(t *testing.T) {
	const n = 150
	mem := vfs.NewMem(vfs.MemOptions{})
	e := mustOpen(t, Options{FS: mem, ManualWork: true, Hot: lastHot})
	var refs []index.Ref
	for i := range n {
		refs = append(refs, putVersion(t, e, "t", versionKey(i), chat(i+5)))
	}
	for _, in := range []string{"log", "segment"} {
		if in == "segment" {
			must(t, e.Flush(t.Context()))
		}
		th, err := e.Partition("t")
		must(t, err)
		patched := 0
		for _, r := range refs {
			if loc, ok := th.Family.Loc(r); ok && loc.Patched() {
				patched++
			}
		}
		applied := func(read func(context.Context, index.Ref) ([]byte, error)) int {
			before := e.resolved.Load()
			for i := len(refs) - 1; i >= 0; i-- {
				if b, err := read(t.Context(), refs[i]); err != nil || string(b) != chat(i+5) {
					t.Fatalf("%s: version %d: %d bytes, %v", in, i, len(b), err)
				}
			}
			return int(e.resolved.Load() - before)
		}
		reader := e.Reader()
		together := applied(func(ctx context.Context, r index.Ref) ([]byte, error) { return reader.Read(ctx, th.Family, r) })
		alone := applied(func(ctx context.Context, r index.Ref) ([]byte, error) { return e.ReadValue(ctx, th.Family, r) })
		t.Logf("%s: %d of %d are patches; %d applied, %d one by one", in, patched, n, together, alone)
		if patched < n/2 || together > patched || alone < 2*together {
			t.Errorf("%s: %d patches, %d applied; %d one by one", in, patched, together, alone)
		}
	}
	must(t, e.Close())
}

// A Reader may be used by many at once, while what it reads moves; what it keeps
// stays small, in any order.
func TestReaderBesideFlush(t *testing.T) {
	const n = 80
	e := mustOpen(t, Options{FS: vfs.NewMem(vfs.MemOptions{}), ManualWork: true, Hot: lastHot})
	var refs []index.Ref
	for i := range n {
		refs = append(refs, putVersion(t, e, "t", versionKey(i), chat(i+5)))
	}
	th, err := e.Partition("t")
	must(t, err)
	r := e.Reader()
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for k := range 3 * n {
				i := (k*(2*g+3) + g) % n
				if b, err := r.Read(t.Context(), th.Family, refs[i]); err != nil || string(b) != chat(i+5) {
					t.Errorf("version %d: %d bytes, %v", i, len(b), err)
				}
			}
		})
	}
	must(t, e.Flush(t.Context()))
	must(t, e.Compact(t.Context()))
	wg.Wait()
	if size, most := r.Size(), 2*recentBytes; size > most {
		t.Errorf("keeps %d bytes, more than %d", size, most)
	}
	must(t, e.Close())
}

// What a Reader cannot read is what ReadValue cannot.
func TestReaderRefuses(t *testing.T) {
	e := mustOpen(t, Options{FS: vfs.NewMem(vfs.MemOptions{}), ManualWork: true})
	ref := putVersion(t, e, "t", "k", "value")
	th, err := e.Partition("t")
	must(t, err)
	r := e.Reader()
	for _, bad := range []index.Ref{{}, {LSN: ref.LSN, Ord: ref.Ord + 7}, {LSN: base.MaxLSN, Ord: 1}} {
		_, want := e.ReadValue(t.Context(), th.Family, bad)
		if _, err := r.Read(t.Context(), th.Family, bad); err == nil || err.Error() != want.Error() {
			t.Errorf("%v: %v, want %v", bad, err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Read(ctx, th.Family, ref); err != context.Canceled {
		t.Errorf("cancelled: %v", err)
	}
	must(t, e.Close())
	if _, err := r.Read(t.Context(), th.Family, ref); !errors.Is(err, fault.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// An empty value lies where the next one begins, and neither is taken for the other.
func TestReaderTellsEmptyValuesApart(t *testing.T) {
	e := mustOpen(t, Options{FS: vfs.NewMem(vfs.MemOptions{}), ManualWork: true})
	sizes := []int{10, 0, 300, 0, 0, 20}
	must(t, putSlots(e, "t", "k", sizes...))
	for _, in := range []string{"log", "segment"} {
		th, err := e.Partition("t")
		must(t, err)
		r := e.Reader()
		for range 2 {
			for i, s := range th.Get("k").Slots.All() {
				if b, err := r.Read(t.Context(), th.Family, s.Ref); err != nil || string(b) != noise(i, sizes[i]) {
					t.Errorf("%s: value %d has %d bytes, not %d (%v)", in, i, len(b), sizes[i], err)
				}
			}
		}
		must(t, e.Flush(t.Context()))
	}
	must(t, e.Close())
}

// TestReaderHoldsLittle: what a Reader keeps is bounded while a call reads far more, and
// after the call only that of the last one is kept, which the store holds.
func TestReaderHoldsLittle(t *testing.T) {
	const n, size = 640, 64 << 10
	o := quietOptions(vfs.NewMem(vfs.MemOptions{}))
	o.CacheBytes, o.Hot, o.NoPatches = -1, lastHot, true
	e := mustOpen(t, o)
	var refs []index.Ref
	for i := range n {
		refs = append(refs, putVersion(t, e, "t", versionKey(i), fmt.Sprintf("%0*d", size, i)))
	}
	must(t, e.Flush(t.Context()))
	th, err := e.Partition("t")
	must(t, err)
	e.Reader().End() // what the flush read is kept no longer
	before := int(heapNow())
	var readers []*Reader
	for range 3 {
		r := e.Reader()
		for i := len(refs) - 1; i >= 0; i-- {
			if b, err := r.ReadShared(t.Context(), th.Family, refs[i]); err != nil || len(b) != size {
				t.Fatalf("value %d: %d bytes, %v", i, len(b), err)
			}
		}
		if held := int(heapNow()) - before; held < recentBytes/2 || held > 4*recentBytes+1<<20 {
			t.Errorf("%d bytes are kept during a call and after one, of %d", held, n*size)
		}
		r.End()
		readers = append(readers, r)
	}
	if held := int(heapNow()) - before; held > 2*recentBytes+1<<20 {
		t.Errorf("%d bytes are kept after three calls", held)
	}
	for _, r := range readers { // which may go on
		if b, err := r.Read(t.Context(), th.Family, refs[0]); err != nil || len(b) != size {
			t.Errorf("after the call: %d bytes, %v", len(b), err)
		}
	}
	must(t, e.Close())
}
