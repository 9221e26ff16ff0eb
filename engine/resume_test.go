package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/base/vfs"
)

const resumePartitions = 24

// interruptedStore is a store whose compaction was ended after half of its families,
// with what each partition must hold. The first entry of every partition is deleted.
//
// It returns the segments the compaction had made, and how many families they hold.
func interruptedStore(t *testing.T) (mem *vfs.Mem, o Options, made []base.FileNum, families int) {
	t.Helper()
	mem = vfs.NewMem(vfs.MemOptions{})
	o = quietOptions(mem)
	o.Hot, o.CompactFanout, o.NoPatches = lastHot, 2, true
	e := mustOpen(t, o)
	for round := range 2 {
		for i := range resumePartitions {
			id := fmt.Sprintf("t%02d", i)
			if round == 1 {
				must(t, e.Commit(t.Context(), []string{id}, func(tx *Tx) error { return tx.Delete(id, versionKey(0)) }))
			}
			putVersion(t, e, id, versionKey(round), noise(2*i+round, 700))
		}
		must(t, e.Flush(t.Context()))
	}
	must(t, e.Close())
	ctx, stop := context.WithCancel(t.Context())
	o.Events.Compacting = func(p metrics.CompactProgress) {
		if p.Families == resumePartitions/2 {
			stop()
		}
	}
	o.SegmentSize = 4 << 10
	e = mustOpen(t, o)
	if err := e.Compact(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("the compaction ended with %v", err)
	}
	for _, s := range e.state().Segments[2:] {
		made, families = append(made, s.Num), families+int(s.Families)
	}
	if len(made) == 0 || families < resumePartitions/4 {
		t.Fatalf("%d families moved after half of a compaction", families)
	}
	checkResumed(t, e)
	must(t, e.Close())
	o.Events.Compacting = nil
	return mem, o, made, families
}

// checkResumed looks for one entry in every partition, and verifies the store.
func checkResumed(t *testing.T, e *Engine) {
	t.Helper()
	for i := range resumePartitions {
		th, err := e.Partition(fmt.Sprintf("t%02d", i))
		must(t, err)
		if th == nil || th.Get(versionKey(0)) != nil || th.Get(versionKey(1)) == nil {
			t.Fatalf("thread %d has not its second entry alone", i)
		}
		if b, err := e.ReadValue(t.Context(), th.Family, th.Get(versionKey(1)).Slots.At(0).Ref); err != nil || len(b) != 700 {
			t.Fatalf("thread %d: %d bytes, %v", i, len(b), err)
		}
	}
}

// TestCompactionGoesOn: what an interrupted compaction has finished stays, and the next
// one does the rest.
func TestCompactionGoesOn(t *testing.T) {
	for _, how := range []string{"step", "all"} {
		t.Run(how, func(t *testing.T) {
			_, o, made, families := interruptedStore(t)
			var info metrics.CompactInfo
			o.Events.Compacted = func(i metrics.CompactInfo) { info = i }
			e := mustOpen(t, o)
			checkResumed(t, e)
			if how == "step" {
				did, err := e.CompactStep(t.Context())
				if must(t, err); !did {
					t.Error("nothing was left to do")
				}
			} else {
				must(t, e.Compact(t.Context()))
			}
			if info.Families != resumePartitions-families {
				t.Errorf("%d families were written to end a compaction that had written %d of %d", info.Families, families, resumePartitions)
			}
			var left []base.FileNum
			for _, s := range e.state().Segments {
				left = append(left, s.Num)
			}
			for _, n := range made {
				if !slices.Contains(left, n) {
					t.Errorf("segment %d, finished before the interruption, is gone from %v", n, left)
				}
			}
			for _, n := range info.Inputs {
				if slices.Contains(left, base.FileNum(n)) || slices.Contains(made, base.FileNum(n)) {
					t.Errorf("input %d: made before %v, left %v", n, made, left)
				}
			}
			if did, err := e.CompactStep(t.Context()); did || err != nil {
				t.Errorf("another step did something: %v, %v", did, err)
			}
			checkResumed(t, e)
			must(t, e.Close())
			must(t, mustOpen(t, o).Close())
		})
	}
}

// TestInterruptedCompactionAndLostIndex: an index made anew from segments some of which
// hold what others have moved is the one there was, and the compaction that follows
// loses nothing and revives nothing.
func TestInterruptedCompactionAndLostIndex(t *testing.T) {
	for _, when := range []string{"before", "after"} {
		t.Run(when, func(t *testing.T) {
			mem, o, _, _ := interruptedStore(t)
			e := mustOpen(t, o)
			if when == "after" {
				_, err := e.CompactStep(t.Context())
				must(t, err)
			}
			images := e.state().ImageNums()
			must(t, e.Close())
			for _, n := range images {
				must(t, mem.Remove(e.Files.path(base.ImageFile, n)))
			}
			e = mustOpen(t, o)
			if !e.Report().IndexRebuilt {
				t.Error("the index was not made anew")
			}
			checkResumed(t, e)
			for range 3 {
				_, err := e.CompactStep(t.Context())
				must(t, err)
				checkResumed(t, e)
			}
			must(t, e.Compact(t.Context()))
			checkResumed(t, e)
			must(t, e.Close())
		})
	}
}

// TestCompactLeavesOutWhatIsSettled: compacting twice writes nothing the second time,
// and what changed alone after a change.
func TestCompactLeavesOutWhatIsSettled(t *testing.T) {
	_, o, _, _ := interruptedStore(t)
	var infos []metrics.CompactInfo
	o.Events.Compacted = func(i metrics.CompactInfo) { infos = append(infos, i) }
	e := mustOpen(t, o)
	must(t, e.Compact(t.Context()))
	large := 0
	for _, s := range e.state().Segments {
		if s.Size >= o.SegmentSize {
			large++
		}
	}
	before := len(e.state().Segments)
	must(t, e.Compact(t.Context()))
	if n := len(infos); n > 1 && len(infos[n-1].Inputs) > before-large {
		t.Errorf("%d of %d segments were written again, though %d are large and nothing changed", len(infos[n-1].Inputs), before, large)
	}
	infos = nil
	must(t, e.Commit(t.Context(), []string{"t00"}, func(tx *Tx) error { return tx.Drop("t00", nil) }))
	must(t, e.Compact(t.Context()))
	if len(infos) != 1 || len(infos[0].Inputs) > 2+before-large {
		t.Errorf("to be rid of one thread: %+v", infos)
	}
	if th, err := e.Partition("t00"); th != nil || err != nil {
		t.Errorf("a deleted thread is %v, %v", th, err)
	}
	must(t, e.Close())
}

// noise is text that neither compresses nor resembles another.
func noise(seed, n int) string {
	r := rand.New(rand.NewPCG(uint64(seed), 9))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return string(b)
}
