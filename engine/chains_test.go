package engine

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/index"
)

// TestChainsAreBounded: whatever happens to a series, no version that can be read now is
// more than MaxChain patches from one stored whole: versions that grow, jump back and
// are replaced, bases that are deleted, copies that go on, flushes, images, compactions
// and restarts between any two of them.
func TestChainsAreBounded(t *testing.T) {
	seed := rand.Uint64()
	if s := os.Getenv("STELE_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		must(t, err)
		seed = n
	}
	t.Logf("repeat with STELE_SEED=%d go test ./engine -run '^TestChainsAreBounded$'", seed)
	for _, run := range []int{1, 7, 0, maxPatchRun} {
		rng := rand.New(rand.NewPCG(seed, uint64(run)))
		o := quietOptions(vfs.NewMem(vfs.MemOptions{}))
		o.PatchMin, o.PatchRun, o.Hot, o.VersionBytes = 64, run, lastHot, 4<<20
		e := mustOpen(t, o)
		values, longest := map[string][]string{"a": nil, "b": nil}, 0
		depth := func(id, key string) {
			th, err := e.Partition(id)
			must(t, err)
			it := th.Get(key)
			if it == nil {
				return
			}
			chain, _, ok := th.Family.Chain(it.Slots.At(0).Ref, nil)
			if longest = max(longest, len(chain)-1); !ok || len(chain)-1 > index.MaxChain {
				t.Fatalf("seed %d, %d patches in a row: entry %s of %s has a chain of %d", seed, run, key, id, len(chain)-1)
			}
		}
		list := map[string]string{"a": noise(1, 300), "b": noise(2, 300)}
		for n := range 400 {
			id := []string{"a", "a", "a", "b"}[rng.IntN(4)]
			switch list[id] += noise(n, 20); {
			case rng.IntN(30) == 0:
				list[id] = list[id][:len(list[id])/2]
			case rng.IntN(80) == 0:
				list[id] = noise(n, 300)
			}
			putVersion(t, e, id, versionKey(n), list[id])
			values[id] = append(values[id], versionKey(n))
			depth(id, versionKey(n))
			chainsMove(t, &e, o, rng, values[id], id)
			if rng.IntN(100) == 0 {
				for id, keys := range values {
					for _, key := range keys {
						depth(id, key)
					}
				}
			}
		}
		t.Logf("%d patches in a row: chains of up to %d", run, longest)
		if longest < min(run, 20) {
			t.Errorf("%d patches in a row: chains of up to %d alone", run, longest)
		}
		must(t, e.Close())
	}
}

// chainsMove does something that moves values, or takes some away, now and then.
func chainsMove(t *testing.T, e **Engine, o Options, rng *rand.Rand, keys []string, id string) {
	t.Helper()
	switch rng.IntN(120) {
	case 0:
		must(t, (*e).Flush(t.Context()))
	case 1:
		must(t, (*e).Compact(t.Context()))
	case 2:
		must(t, (*e).WriteImage(t.Context()))
	case 3:
		must(t, (*e).Close())
		*e = mustOpen(t, o)
	case 4:
		gone := keys[rng.IntN(len(keys)):]
		must(t, (*e).Commit(t.Context(), []string{id}, func(tx *Tx) error { return tx.Delete(id, gone[:min(len(gone), 9)]...) }))
	case 5:
		to := fmt.Sprint("copy of ", id, len(keys))
		must(t, (*e).Commit(t.Context(), []string{id, to}, func(tx *Tx) error { return tx.Copy(id, to) }))
	}
}
