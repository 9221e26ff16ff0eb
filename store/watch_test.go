package store_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

func made[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestWatch: who follows a Watch knows the items of a namespace, and which put stored each, at any
// time: also if most are removed, flushed, or all are, and the namespace begins again.
func TestWatch(t *testing.T) {
	if made(store.NewMemory(store.Options{})).Watch(store.Namespace{"a"}) != nil {
		t.Error("a store in memory is watched")
	}
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 1))
		d := made(disk.Open("store", disk.Options{ManualWork: true, MemoryBudget: 64 << 10, Simulation: disk.Simulation{FS: vfs.NewMem(vfs.MemOptions{}), Inline: true}}))
		s := made(store.On(d, store.Options{}))
		ns := store.Namespace{"a", "b"}
		w := s.Watch(ns)
		known, threads := map[string]uint64{}, 0
		all := 0
		for round := range 60 {
			for range 1 + rng.IntN(80) {
				key := fmt.Sprint(rng.IntN(300))
				switch {
				case round%20 >= 12: // most go
					must(t, s.Delete(t.Context(), ns, key))
				case rng.IntN(20) == 0:
					must(t, s.Put(t.Context(), store.Namespace{"a"}, key, map[string]any{"n": 1}))
				default:
					must(t, s.Put(t.Context(), ns, key, map[string]any{"n": round}))
				}
			}
			switch rng.IntN(5) {
			case 0:
				must(t, d.Flush(t.Context()))
			case 1:
				for key := range 300 {
					must(t, s.Delete(t.Context(), ns, fmt.Sprint(key)))
				}
				if rng.IntN(2) == 0 {
					must(t, s.Put(t.Context(), ns, "again", map[string]any{"n": round}))
				}
			case 2:
				_, err := d.Put(t.Context(), saver.Config{ThreadID: "t"}, saver.Checkpoint{V: 4, ID: fmt.Sprintf("%04d", round)}, nil, nil)
				must(t, err)
				threads++
			}
			n := made(w.Next())
			if n.All {
				all++
				clear(known)
			}
			for key, put := range n.Keys {
				if known[key] = put; put == 0 {
					delete(known, key)
				}
			}
			if threads -= len(n.Threads); threads != 0 {
				t.Fatalf("seed %d round %d: threads %q", seed, round, n.Threads)
			}
			items := map[string]bool{}
			for f, err := range s.Scan(t.Context(), store.Query{Prefix: ns, ByKey: true}) {
				must(t, err)
				items[f.Key] = true
			}
			if got, want := slices.Sorted(maps.Keys(known)), slices.Sorted(maps.Keys(items)); !slices.Equal(got, want) {
				t.Fatalf("seed %d round %d: knows %q, has %q", seed, round, got, want)
			}
		}
		if all == 0 || all > 30 {
			t.Errorf("seed %d: all items were told of %d times of 60", seed, all)
		}
		w.Close()
		must(t, s.Close())
		must(t, d.Close())
	}
}
