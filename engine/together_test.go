package engine

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/index"
)

func cachedOptions(fsys vfs.FS) Options {
	o := quietOptions(fsys)
	o.CacheBytes = 16 << 20
	return o
}

// putSlots makes an entry with values of so many bytes.
func putSlots(e *Engine, id, key string, sizes ...int) error {
	slots := make([]SlotIn, len(sizes))
	for i, n := range sizes {
		v, err := NewValue([]byte(noise(i, n)))
		if err != nil {
			return err
		}
		slots[i] = SlotIn{Name: fmt.Sprintf("s%02d", i), Value: &v}
	}
	return e.Commit(context.Background(), []string{id}, func(tx *Tx) error { return tx.Put(id, key, index.FlagHead, slots) })
}

// compactedEntry is the newest entry of a cold partition in a compacted store.
func compactedEntry(t *testing.T, o Options, sizes ...int) (*Engine, *index.Partition, []index.Ref) {
	t.Helper()
	e := mustOpen(t, o)
	mustAll(t, putSlots(e, "t", "k", sizes...), e.Flush(t.Context()), e.Compact(t.Context()), e.Close())
	e = mustOpen(t, o)
	t.Cleanup(func() { _ = e.Close() })
	th, first, err := e.PartitionFirst("t")
	mustAll(t, err)
	if !first {
		t.Error("the first look did not load the thread")
	}
	if _, again, err := e.PartitionFirst("t"); again || err != nil {
		t.Errorf("the second look loaded it again (%v)", err)
	}
	var refs []index.Ref
	for _, s := range th.Last("").Slots.All() {
		refs = append(refs, s.Ref)
	}
	return e, th, refs
}

// TestReadsTogether: values of one block come as ReadValue gives them, owned by the
// caller, and the block enters the cache only where it is to be kept.
func TestReadsTogether(t *testing.T) {
	for _, sizes := range [][]int{{300}, {10, 0, 700, 900}, {togetherLen - 10, 9}} {
		for _, keep := range []bool{false, true} {
			e, th, refs := compactedEntry(t, cachedOptions(vfs.NewMem(vfs.MemOptions{})), sizes...)
			got := e.ReadTogether(t.Context(), th.Family, refs, keep)
			if len(got) != len(refs) {
				t.Fatalf("values of %v bytes: %d of %d", sizes, len(got), len(refs))
			}
			if e.Together(th.Family, refs[0]) == keep {
				t.Errorf("keep is %t, and the block is in the cache: %t", keep, !keep)
			}
			for i := range got {
				if string(got[i]) != noise(i, sizes[i]) {
					t.Fatalf("value %d of %v: %d bytes, not those that were put", i, sizes, len(got[i]))
				}
				clear(append(got[i], "beyond"...))
				clear(got[i])
			}
			for i := range got {
				if b, err := e.ReadValue(t.Context(), th.Family, refs[i]); err != nil || string(b) != noise(i, sizes[i]) {
					t.Errorf("value %d was changed by who got it first (%v)", i, err)
				}
			}
		}
	}
}

// TestReadsTogetherOrNot: what is large, in the log, elsewhere or damaged is left to
// ReadValue.
func TestReadsTogetherOrNot(t *testing.T) {
	ctx := t.Context()
	o := cachedOptions(vfs.NewMem(vfs.MemOptions{}))
	for i, ok := range []bool{true, false} { // in a small block
		large := mustOpen(t, o)
		id := fmt.Sprint(i)
		mustAll(t, putOne(large, id, "k", strings.Repeat("x", togetherLen+i)), large.Flush(ctx), large.Compact(ctx), large.Close())
		large = mustOpen(t, o)
		th, _, err := large.PartitionFirst(id)
		mustAll(t, err)
		if got := large.ReadTogether(ctx, th.Family, []index.Ref{th.Last("").Slots.At(0).Ref}, false); (got != nil) != ok {
			t.Errorf("%d bytes that nobody asked for: read %t", togetherLen+i, !ok)
		}
		mustAll(t, large.Close())
	}
	e, th, refs := compactedEntry(t, cachedOptions(vfs.NewMem(vfs.MemOptions{})), 100, 100)
	mustAll(t, putSlots(e, "t", "l", 50))
	now, err := e.Partition("t")
	mustAll(t, err)
	fresh := now.Get("l").Slots.At(0).Ref
	if e.ReadTogether(ctx, now.Family, []index.Ref{fresh, refs[0]}, false) != nil {
		t.Error("a value of the log was read with others")
	}
	got := e.ReadTogether(ctx, now.Family, []index.Ref{refs[0], fresh, {LSN: 1 << 40}, refs[1]}, false)
	if len(got) != 4 || len(got[0]) != 100 || got[1] != nil || got[2] != nil || len(got[3]) != 100 {
		t.Errorf("of a block, the log, nowhere and the block: %d values", len(got))
	}
	done, cancel := context.WithCancel(ctx)
	cancel()
	if e.ReadTogether(done, th.Family, refs, false) != nil || e.ReadTogether(ctx, th.Family, nil, false) != nil {
		t.Error("a cancelled read, or one of nothing, read something")
	}
}

// TestReadsTogetherDamaged: a damaged block gives nothing, and ReadValue says so.
func TestReadsTogetherDamaged(t *testing.T) {
	dir := t.TempDir()
	o := cachedOptions(vfs.OS{})
	e, err := Open(dir, o)
	mustAll(t, err)
	mustAll(t, putSlots(e, "t", "k", 400, 400), e.Flush(t.Context()), e.Compact(t.Context()), e.Close())
	e, err = Open(dir, o)
	mustAll(t, err)
	defer func() { _ = e.Close() }()
	th, _, err := e.PartitionFirst("t")
	mustAll(t, err)
	ref := th.Last("").Slots.At(0).Ref
	loc, _ := th.Family.Loc(ref)
	name := e.Files.path(base.SegmentFile, loc.File)
	b, err := os.ReadFile(name)
	mustAll(t, err)
	b[loc.Off+100] ^= 1
	mustAll(t, os.WriteFile(name, b, 0o600))
	for _, keep := range []bool{false, true} {
		if e.ReadTogether(t.Context(), th.Family, []index.Ref{ref}, keep) != nil {
			t.Error("a damaged block was read")
		}
	}
	if _, err := e.ReadValue(t.Context(), th.Family, ref); err == nil {
		t.Error("a damaged block was read")
	}
}

// TestReadsTogetherInLog: values of one commit come from the log at once, as ReadValue gives
// them, each owned by the caller.
func TestReadsTogetherInLog(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	e, err := Open(dir, cachedOptions(vfs.OS{}))
	mustAll(t, err)
	defer func() { _ = e.Close() }()
	sizes := []int{300, 0, 700, togetherLen, 5}
	mustAll(t, putSlots(e, "t", "k", sizes...), putSlots(e, "t", "l", 40, 50))
	th, err := e.Partition("t")
	mustAll(t, err)
	var refs []index.Ref
	for _, s := range th.Get("k").Slots.All() {
		refs = append(refs, s.Ref)
	}
	read := func() [][]byte { return e.ReadTogether(ctx, th.Family, refs, false) }
	got := read()
	if len(got) != len(refs) {
		t.Fatalf("%d of %d values", len(got), len(refs))
	}
	for i, b := range got {
		switch far := i > 2; {
		case far && b != nil:
			t.Errorf("value %d was read, which is far from the first", i)
		case !far && string(b) != noise(i, sizes[i]):
			t.Errorf("value %d: %d bytes, not those that were put", i, len(b))
		}
		clear(append(b, "beyond"...))
	}
	for i, b := range read() {
		if i <= 2 && string(b) != noise(i, sizes[i]) {
			t.Errorf("value %d was changed by who got it first", i)
		}
	}
	other := th.Get("l").Slots.At(1).Ref
	if got := e.ReadTogether(ctx, th.Family, []index.Ref{refs[4], other, refs[0], {LSN: 1 << 40}}, false); len(got) != 4 || len(got[0]) != 5 || len(got[1]) != 50 || got[2] != nil || got[3] != nil {
		t.Errorf("of the log, a later commit, an earlier value and nowhere: %d values", len(got))
	}
	if e.ReadTogether(ctx, th.Family, []index.Ref{refs[2], refs[3]}, false) != nil {
		t.Error("a single value of the log was read")
	}

	loc, _ := th.Family.Loc(refs[2])
	name := e.Files.path(base.LogFile, loc.File)
	b, err := os.ReadFile(name)
	mustAll(t, err)
	b[loc.Off+100] ^= 1
	mustAll(t, os.WriteFile(name, b, 0o600))
	if got := read(); len(got) != len(refs) || got[0] == nil || got[2] != nil {
		t.Error("a damaged value was read, or an intact one was not")
	}
}
