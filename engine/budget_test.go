package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stele-go/stele/base/vfs"
)

// TestBudgetHoldsAllCaches: loaded partitions, blocks and last values together stay within
// MemoryBudget, with the shares that it has by default, while far more than that is
// written, read back from log and segments, and compacted.
func TestBudgetHoldsAllCaches(t *testing.T) {
	const budget, partitions, rounds = 1 << 20, 400, 6
	o := quietOptions(vfs.NewMem(vfs.MemOptions{}))
	o.MemoryBudget, o.CacheBytes, o.VersionBytes, o.Hot = budget, 0, 0, lastHot
	e := mustOpen(t, o)
	most := map[string]int64{}
	within := func(when string) {
		t.Helper()
		loaded, _, _ := e.Index.Memory()
		blocks, last := e.cache.bytes(), e.Stats().VersionBytes
		if loaded+blocks+last > budget+budget/50 { // eviction comes a moment after a load
			t.Fatalf("%s: %d bytes of threads, %d of blocks, %d of last values; the budget is %d", when, loaded, blocks, last, budget)
		}
		for name, n := range map[string]int64{"threads": loaded, "blocks": blocks, "last values": last} {
			most[name] = max(most[name], n)
		}
	}
	list := make([]string, partitions)
	for round := range rounds {
		for i := range list {
			list[i] += noise(round*partitions+i, 1500)
			putVersion(t, e, fmt.Sprintf("t%03d", i), versionKey(round), list[i])
			if i%50 == 0 {
				must(t, e.WriteImage(t.Context())) // what is newer than the image is beside the budget
				within("put")
			}
		}
		if round%2 == 1 {
			must(t, e.Flush(t.Context()))
			must(t, e.Compact(t.Context()))
			within("compaction")
		}
		rng := rand.New(rand.NewPCG(uint64(round), 7))
		for range 300 {
			i, n := rng.IntN(partitions), rng.IntN(round+1)
			got, err := read(e, fmt.Sprintf("t%03d", i), versionKey(n))
			if must(t, err); got != list[i][:1500*(n+1)] {
				t.Fatalf("version %d of thread %d: %d bytes", n, i, len(got))
			}
		}
		must(t, e.WriteImage(t.Context()))
		within("reading")
	}
	t.Logf("at most %v of %d", most, budget)
	if most["blocks"] < budget/32 || most["last values"] < budget/12 || most["threads"] < budget/2 {
		t.Errorf("the caches were never full: %v", most)
	}
	must(t, e.Close())
}
