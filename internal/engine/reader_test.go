package engine

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/internal/vfs"
)

// Reading all versions of a line with a Reader applies each patch once, newest
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
		th, err := e.Thread("t")
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
		together := applied(e.Reader(th.Family).Read)
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
	th, err := e.Thread("t")
	must(t, err)
	r := e.Reader(th.Family)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for k := range 3 * n {
				i := (k*(2*g+3) + g) % n
				if b, err := r.Read(t.Context(), refs[i]); err != nil || string(b) != chat(i+5) {
					t.Errorf("version %d: %d bytes, %v", i, len(b), err)
				}
			}
		})
	}
	must(t, e.Flush(t.Context()))
	must(t, e.Compact(t.Context()))
	wg.Wait()
	size := 0
	for _, kept := range []map[index.Ref]int{sizes(r.now), sizes(r.then)} {
		for _, s := range kept {
			size += s
		}
	}
	if most := 2*readerKeeps + 64*len(chat(n+5)); size > most {
		t.Errorf("keeps %d bytes, more than %d", size, most)
	}
	must(t, e.Close())
}

func sizes[V interface{ Size() int }](views map[index.Ref]V) map[index.Ref]int {
	out := map[index.Ref]int{}
	for r, v := range views {
		out[r] = v.Size()
	}
	return out
}

// What a Reader cannot read is what ReadValue cannot.
func TestReaderRefuses(t *testing.T) {
	e := mustOpen(t, Options{FS: vfs.NewMem(vfs.MemOptions{}), ManualWork: true})
	ref := putVersion(t, e, "t", "k", "value")
	th, err := e.Thread("t")
	must(t, err)
	r := e.Reader(th.Family)
	for _, bad := range []index.Ref{{}, {LSN: ref.LSN, Ord: ref.Ord + 7}, {LSN: base.MaxLSN, Ord: 1}} {
		_, want := e.ReadValue(t.Context(), th.Family, bad)
		if _, err := r.Read(t.Context(), bad); err == nil || err.Error() != want.Error() {
			t.Errorf("%v: %v, want %v", bad, err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Read(ctx, ref); err != context.Canceled {
		t.Errorf("cancelled: %v", err)
	}
	must(t, e.Close())
	if _, err := r.Read(t.Context(), ref); !errors.Is(err, base.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}
