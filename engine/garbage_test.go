package engine

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/base/vfs/faultfs"
	"github.com/stele-go/stele/snapshot"
)

// What a compaction would free is told before, about right, and freed: entries
// deleted, whole partitions deleted, and nothing of a copy that is left.
func TestDeadBytes(t *testing.T) {
	e := mustOpen(t, quietOptions(vfs.NewMem(vfs.MemOptions{})))
	rng := rand.New(rand.NewPCG(1, 2))
	random := func() string {
		b := make([]byte, 2000)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return string(b)
	}
	for _, id := range []string{"some", "all", "copied"} {
		for i := range 40 {
			putVersion(t, e, id, versionKey(i), random())
		}
	}
	must(t, e.Commit(t.Context(), []string{"copied", "copy"}, func(tx *Tx) error { return tx.Copy("copied", "copy") }))
	must(t, e.Flush(t.Context()))
	if n := e.Stats().DeadBytes; n != 0 {
		t.Errorf("%d bytes are dead before anything is deleted", n)
	}
	full := e.Stats().SegmentBytes
	must(t, e.Commit(t.Context(), []string{"some", "all", "copied"}, func(tx *Tx) error {
		for i := range 20 {
			if err := tx.Delete("some", versionKey(i)); err != nil {
				return err
			}
		}
		if err := tx.Drop("copied", nil); err != nil {
			return err
		}
		return tx.Drop("all", nil)
	}))
	must(t, e.Flush(t.Context()))
	told, before := e.Stats().DeadBytes, e.Stats().SegmentBytes
	if want := full / 2; told < want*9/10 || told > want*11/10 {
		t.Errorf("%d of %d bytes are said to be dead, want about %d", told, full, want)
	}
	must(t, e.Compact(t.Context()))
	if freed := before - e.Stats().SegmentBytes; freed < told*9/10 || freed > told*11/10 {
		t.Errorf("%d bytes were freed, %d were told", freed, told)
	}
	if n := e.Stats().DeadBytes; n != 0 {
		t.Errorf("%d bytes are dead after the compaction", n)
	}
	must(t, e.Close())
}

// A flush that fails counts nothing: its deletions are in the log alone, and a compaction would
// find nothing to leave out, and forget the count. The next flush counts them.
func TestDeadBytesOfAFlushThatFails(t *testing.T) {
	inj := faultfs.NewInjector()
	o := quietOptions(faultfs.New(vfs.NewMem(vfs.MemOptions{}), inj))
	o.NoPatches = true
	e := mustOpen(t, o)
	for _, id := range []string{"all", "some", "kept"} {
		for i := range 20 {
			putVersion(t, e, id, versionKey(i), strings.Repeat(id, 500))
		}
	}
	must(t, e.Flush(t.Context()))
	dead := func() int {
		n := 0
		for _, d := range e.garbage.inSegments(e.state().Segments) {
			n += int(d)
		}
		return n
	}
	must(t, e.Commit(t.Context(), []string{"all", "some"}, func(tx *Tx) error {
		for i := range 10 {
			if err := tx.Delete("some", versionKey(i)); err != nil {
				return err
			}
		}
		return tx.Drop("all", nil)
	}))
	inj.Set(faultfs.Rule{Op: faultfs.OpCreate, Sticky: true, Err: syscall.ENOSPC})
	if e.Flush(t.Context()) == nil {
		t.Fatal("a flush without room succeeds")
	}
	if n := dead(); n != 0 {
		t.Errorf("%d bytes are dead that the log alone deletes", n)
	}
	inj.Set()
	must(t, e.Compact(t.Context())) // which flushes
	if n := e.Stats().SegmentBytes; dead() != 0 || n == 0 {
		t.Errorf("%d bytes are dead of %d after a compaction", dead(), n)
	}
	must(t, e.Commit(t.Context(), []string{"kept"}, func(tx *Tx) error { return tx.Drop("kept", nil) }))
	inj.Set(faultfs.Rule{Op: faultfs.OpCreate, Sticky: true, Err: syscall.ENOSPC})
	if e.Flush(t.Context()) == nil {
		t.Fatal("a flush without room succeeds")
	}
	inj.Set()
	must(t, e.Flush(t.Context()))
	if dead() == 0 {
		t.Error("what was dropped before a flush that failed is never counted")
	}
	must(t, e.Close())
}

// What is dropped beside a flush, behind its cut, is counted by the next one.
func TestDeadBytesDroppedBesideAFlush(t *testing.T) {
	e := mustOpen(t, quietOptions(vfs.NewMem(vfs.MemOptions{})))
	for i := range 20 {
		putVersion(t, e, "t", versionKey(i), strings.Repeat("value", 500))
	}
	must(t, e.Flush(t.Context()))
	v, err := e.View()
	must(t, err)
	must(t, e.Commit(t.Context(), []string{"t"}, func(tx *Tx) error { return tx.Drop("t", nil) }))
	must(t, e.garbage.countDropped(v)) // as a flush does whose cut is at v
	e.garbage.settle(true)
	v.Release()
	if n := e.Stats().DeadBytes; n != 0 {
		t.Errorf("%d bytes are dead that a view at the cut shows", n)
	}
	must(t, e.Flush(t.Context()))
	if e.Stats().DeadBytes == 0 {
		t.Error("what was dropped behind the cut of a flush is never counted")
	}
	must(t, e.Close())
}

// What is dead is known to who opens the store next: after a flush, and of partitions
// deleted after it, also where the process was killed. What is counted again does not
// count twice.
func TestDeadBytesAreKept(t *testing.T) {
	ctx := t.Context()
	for _, killed := range []bool{false, true} {
		o := quietOptions(vfs.NewMem(vfs.MemOptions{}))
		o.NoPatches = true
		e := mustOpen(t, o)
		reopen := func() {
			t.Helper()
			if killed {
				o.FS = vfs.NewMemFrom(o.FS.(*vfs.Mem).Image(), vfs.MemOptions{})
			}
			must(t, e.Close()) // a killed one goes on with files of its own
			e = mustOpen(t, o)
		}
		for _, id := range []string{"pruned", "dropped", "late", "kept"} {
			for i := range 20 {
				putVersion(t, e, id, versionKey(i), strings.Repeat(id, 500))
			}
		}
		must(t, e.Flush(ctx))
		remove := func(id string, from, to int) {
			t.Helper()
			must(t, e.Commit(ctx, []string{id}, func(tx *Tx) error {
				for i := from; i < to; i++ {
					if err := tx.Delete(id, versionKey(i)); err != nil {
						return err
					}
				}
				return nil
			}))
		}
		drop := func(id string) {
			t.Helper()
			must(t, e.Commit(ctx, []string{id}, func(tx *Tx) error { return tx.Drop(id, nil) }))
		}
		raw := func(id string, revisions int) int64 { return int64(revisions * 500 * len(id)) }
		want := func(dropped, unused int64) {
			t.Helper()
			var got snapshot.SegmentDead
			for _, d := range e.garbage.sums(e.state().Segments, e.garbage.fams) {
				got.Dropped, got.Unused = got.Dropped+d.Dropped, got.Unused+d.Unused
			}
			// Of a family that lives, its blocks and directory count, not its values.
			if got.Dropped != dropped || got.Unused < unused/2 || got.Unused > unused*2 || (unused == 0) != (got.Unused == 0) {
				t.Errorf("killed %v: %d bytes dropped, %d unused, want %d and %d", killed, got.Dropped, got.Unused, dropped, unused)
			}
		}
		remove("pruned", 0, 5)
		drop("dropped")
		must(t, e.Flush(ctx))
		want(raw("dropped", 20), raw("pruned", 5))
		drop("late")
		reopen()
		must(t, e.Flush(ctx))
		want(raw("dropped", 20)+raw("late", 20), raw("pruned", 5))
		remove("pruned", 5, 8)
		must(t, e.Flush(ctx))
		want(raw("dropped", 20)+raw("late", 20), raw("pruned", 8))
		reopen()
		want(raw("dropped", 20)+raw("late", 20), raw("pruned", 8))
		if e.Stats().DeadBytes == 0 {
			t.Error("Stats does not tell what is dead")
		}
		must(t, e.Compact(ctx))
		want(0, 0)
		reopen()
		want(0, 0)
		must(t, e.Close())
	}
}

// A segment most of which is of partitions that were deleted before the store was opened
// is compacted by itself all the same: whoever restarts often gets the space back, too.
func TestDeadBeforeOpen(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	e := mustOpen(t, quietOptions(mem))
	for i := range 40 {
		putVersion(t, e, fmt.Sprint("t", i), versionKey(0), noise(i, 50_000))
	}
	must(t, e.Flush(t.Context()))
	for i := range 30 {
		must(t, e.Commit(t.Context(), []string{fmt.Sprint("t", i)}, func(tx *Tx) error { return tx.Drop(fmt.Sprint("t", i), nil) }))
	}
	must(t, e.Close())
	e = mustOpen(t, quietOptions(mem))
	before := e.Stats().SegmentBytes
	putVersion(t, e, "other", versionKey(0), noise(99, 100))
	must(t, e.Flush(t.Context()))
	did, err := e.CompactStep(t.Context())
	if must(t, err); !did || e.Stats().SegmentBytes > before/3 {
		t.Errorf("compacted %v: %d of %d bytes are left", did, e.Stats().SegmentBytes, before)
	}
	if did, err = e.CompactStep(t.Context()); did || err != nil {
		t.Errorf("again: %v, %v", did, err)
	}
	must(t, e.Close())
}

// TestDeadBytesInAnyOrder: what is dead is told about right, whatever flushes, images and compactions came between, or ran
// beside, the deletions. On a full disk nothing else tells which segment to rewrite.
func TestDeadBytesInAnyOrder(t *testing.T) {
	seed, n := uint64(rand.Int64N(1e9)), 60
	if s := os.Getenv("STELE_SEED"); s != "" {
		given, err := strconv.ParseUint(s, 10, 64)
		must(t, err)
		seed, n = given, 1
	}
	t.Logf("STELE_SEED=%d", seed)
	for range n {
		rng := rand.New(rand.NewPCG(seed, 0))
		seed++
		o := quietOptions(vfs.NewMem(vfs.MemOptions{}))
		o.NoPatches, o.SegmentSize = true, 40<<10
		var beside func()
		o.Events.Compacting = func(metrics.CompactProgress) {
			if f := beside; f != nil && rng.IntN(3) == 0 {
				f()
			}
		}
		e := mustOpen(t, o)
		entries := map[string][]string{}
		made := 0
		change := func() {
			id := fmt.Sprintf("p%d", rng.IntN(8))
			keys := entries[id]
			switch k := rng.IntN(10); {
			case k < 5 || len(keys) == 0:
				b := make([]byte, 2000)
				for i := range b {
					b[i] = byte(rng.Uint32())
				}
				made++
				putVersion(t, e, id, versionKey(made), string(b))
				entries[id] = append(keys, versionKey(made))
			case k < 8:
				i := rng.IntN(len(keys))
				must(t, e.Commit(t.Context(), []string{id}, func(tx *Tx) error { return tx.Delete(id, keys[i]) }))
				entries[id] = slices.Delete(keys, i, i+1)
			default:
				must(t, e.Commit(t.Context(), []string{id}, func(tx *Tx) error { return tx.Drop(id, nil) }))
				delete(entries, id)
			}
		}
		write := func() {
			switch rng.IntN(4) {
			case 0:
				must(t, e.WriteImage(t.Context()))
			case 1:
				e.images.mu.Lock()
				defer e.images.mu.Unlock()
				must(t, e.images.Write(true))
			default:
				must(t, e.Flush(t.Context()))
			}
		}
		beside = func() {
			for range rng.IntN(4) {
				change()
			}
			write()
		}
		for range 60 {
			switch k := rng.IntN(12); {
			case k < 9:
				change()
			case k < 11:
				write()
			default:
				_, err := e.CompactStep(t.Context())
				must(t, err)
			}
		}
		if rng.IntN(2) == 0 {
			must(t, e.Compact(t.Context()))
		}
		ids := slices.Sorted(maps.Keys(entries))
		rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		for _, id := range ids {
			if rng.IntN(2) == 0 {
				must(t, e.Commit(t.Context(), []string{id}, func(tx *Tx) error { return tx.Drop(id, nil) }))
				delete(entries, id)
			}
		}
		beside = nil
		write()
		if rng.IntN(2) == 0 { // killed
			fs := vfs.NewMemFrom(o.FS.(*vfs.Mem).Image(), vfs.MemOptions{})
			must(t, e.Close())
			o.FS = fs
			e = mustOpen(t, o)
		}
		must(t, e.Flush(t.Context()))
		told, before := e.Stats().DeadBytes, e.Stats().SegmentBytes
		must(t, e.Compact(t.Context()))
		freed := before - e.Stats().SegmentBytes
		if off := max(told-freed, freed-told); off > 4<<10+before/10 {
			t.Errorf("STELE_SEED=%d: %d bytes of %d were freed, %d were told", seed-1, freed, before, told)
		}
		must(t, e.Close())
	}
}
