package disk

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/saver"
)

// listedThread is a store with thread t, of n checkpoints in each of some namespaces. Half of the ids are in
// several of them.
func listedThread(t *testing.T, n int, namespaces ...string) (*Saver, []saver.Config) {
	t.Helper()
	s, err := Open("store", Options{ManualWork: true, Simulation: Simulation{FS: vfs.NewMem(vfs.MemOptions{}), Inline: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	rng := rand.New(rand.NewPCG(1, 2))
	var all []saver.Config
	for _, ns := range namespaces {
		for _, id := range rng.Perm(2 * n)[:n] {
			at, err := s.Put(t.Context(), saver.Config{ThreadID: "t", Namespace: ns}, saver.Checkpoint{V: 4, ID: fmt.Sprintf("%08d", id)}, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, at)
		}
	}
	slices.SortFunc(all, saver.Config.CompareListing)
	return s, all
}

// TestListOfThread: a listing of a thread without a namespace merges its namespaces in the order of a listing.
func TestListOfThread(t *testing.T) {
	s, all := listedThread(t, 40, "", "a", "a:1", "a|b", "b\x00c", "z\xff")
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	middle := all[len(all)/2].CheckpointID
	for _, q := range []saver.Query{{}, {Before: middle}, {CheckpointID: middle}, {CheckpointID: middle, Before: middle}, {Before: all[len(all)-1].CheckpointID}, {Limit: 7}, {Before: middle, Limit: 100}} {
		want := slices.DeleteFunc(slices.Clone(all), func(at saver.Config) bool {
			return q.Before != "" && at.CheckpointID >= q.Before || q.CheckpointID != "" && at.CheckpointID != q.CheckpointID
		})
		if q.Limit > 0 {
			want = want[:q.Limit]
		}
		for _, thread := range []string{"t", ""} {
			q.ThreadID = thread
			var got []saver.Config
			for tup, err := range s.List(t.Context(), q) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, tup.Config)
			}
			if !slices.EqualFunc(got, want, func(a, b saver.Config) bool { return a.CompareListing(b) == 0 }) {
				t.Errorf("%+v: %d are listed, in this order: %v, not %v", q, len(got), got, want)
			}
		}
	}
}

// TestListOfThreadReadsFew: the first checkpoints of a thread, and those below one, take a few looks for each namespace,
// however long the thread.
func TestListOfThreadReadsFew(t *testing.T) {
	for _, namespaces := range [][]string{{""}, {"", "a", "b"}} {
		s, all := listedThread(t, 2000, namespaces...)
		middle := all[len(all)/2].CheckpointID
		queries := []saver.Query{{ThreadID: "t", Limit: 1}, {ThreadID: "t", Limit: 10}, {ThreadID: "t", Before: middle, Limit: 1}, {Limit: 1}, {Limit: 10}}
		for range s.List(t.Context(), saver.Query{Limit: 1}) { // the first one over all threads reads them all
		}
		for _, q := range queries {
			before, listed := index.Visited.Load(), 0
			for _, err := range s.List(t.Context(), q) {
				if listed++; err != nil {
					t.Fatal(err)
				}
			}
			if n := index.Visited.Load() - before; listed != q.Limit || n > 40 {
				t.Errorf("%d namespaces: %+v lists %d, and looks at %d entries", len(namespaces), q, listed, n)
			}
		}
	}
}
