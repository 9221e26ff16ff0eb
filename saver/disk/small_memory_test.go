package disk_test

import (
	"fmt"
	"testing"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/serde"
)

// putAlike stores n checkpoints of channels whose values resemble each other from one
// version to the next, with a write each.
func putAlike(t *testing.T, s *disk.Saver, thread string, n, channels int) {
	t.Helper()
	cfg := saver.Config{ThreadID: thread}
	for i := range n {
		v := saver.StringVersion(fmt.Sprintf("%08d", i))
		values, versions := map[string]saver.Value{}, map[string]saver.Version{}
		for c := range channels {
			name := fmt.Sprint("c", c)
			versions[name] = v
			values[name] = saver.ValueTyped(serde.Typed{Kind: serde.KindBytes, Data: fmt.Appendf(nil, "%0*d of %s", 30+700*(c%2), i, name)})
		}
		next, err := s.Put(t.Context(), cfg, saver.Checkpoint{V: 4, ID: fmt.Sprintf("%08d", i), TS: "2026-01-01T00:00:00+00:00", Versions: versions, Values: values},
			saver.Metadata{"source": "loop", "step": i}, versions)
		if err == nil {
			err = s.PutWrites(t.Context(), next, []saver.Write{{Channel: "c0", Value: values["c0"]}}, "task", "")
		}
		if err != nil {
			t.Fatal(err)
		}
		cfg = next
	}
}

// readAll reads every value of a tuple.
func readAll(t *testing.T, tup *saver.Tuple) {
	t.Helper()
	for name, v := range tup.Checkpoint.Values {
		if _, err := v.Typed(); err != nil {
			t.Fatalf("channel %s: %v", name, err)
		}
	}
	for _, w := range tup.PendingWrites {
		if _, err := w.Value.Typed(); err != nil {
			t.Fatalf("write to %s: %v", w.Channel, err)
		}
	}
}

// TestSmallMemoryReadsOnce: with little or no memory for caches, a call reads no more
// than three times the bytes that it reads with the default as the first after Open: what
// it has read and decoded it does not read again for each value.
func TestSmallMemoryReadsOnce(t *testing.T) {
	const threads, n, channels = 3, 200, 8
	calls := map[string]func(s *disk.Saver){
		"List": func(s *disk.Saver) {
			for tup, err := range s.List(t.Context(), saver.Query{}) {
				if err != nil {
					t.Fatal(err)
				}
				readAll(t, tup)
			}
		},
		"List, and values later": func(s *disk.Saver) {
			var all []*saver.Tuple
			for tup, err := range s.List(t.Context(), saver.Query{ThreadID: "t0"}) {
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, tup)
			}
			for _, tup := range all {
				readAll(t, tup)
			}
		},
		"GetTuple": func(s *disk.Saver) {
			tup, err := s.GetTuple(t.Context(), saver.Config{ThreadID: "t0", CheckpointID: fmt.Sprintf("%08d", n/3)})
			if err != nil {
				t.Fatal(err)
			}
			readAll(t, tup)
		},
		"Compact": func(s *disk.Saver) {
			if err := s.Compact(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
		"Erase": func(s *disk.Saver) {
			if err := s.Erase(t.Context(), "t1"); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, call := range calls {
		cost := func(opts disk.Options) (bytes int, misses uint64) {
			fsys := &readFS{FS: vfs.NewMem(vfs.MemOptions{})}
			sim := disk.Simulation{FS: fsys, Inline: true}
			opts.ManualWork, opts.CompactRate = true, -1
			s := openFor(t, "store", disk.Options{ManualWork: true}, sim)
			for i := range threads {
				putAlike(t, s, fmt.Sprint("t", i), n/2, channels)
			}
			if err := s.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			putAlike(t, s, "t9", n/2, channels)
			if err := s.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = openFor(t, "store", opts, sim)
			fsys.take()
			call(s)
			for _, r := range fsys.take() {
				bytes += r.n
			}
			return bytes, s.Metrics().CacheMisses
		}
		bytes, misses := cost(disk.Options{})
		for small, opts := range map[string]disk.Options{"no cache": {CacheBytes: -1}, "a cache of 1 MiB": {CacheBytes: 1 << 20},
			"no memory": {MemoryBudget: -1}, "1 MiB of memory": {MemoryBudget: 1 << 20}} {
			b, m := cost(opts)
			t.Logf("%s with %s: %d bytes, %d not in a cache; %d and %d by default", name, small, b, m, bytes, misses)
			if b > 3*bytes || m > 3*misses {
				t.Errorf("%s with %s: %d bytes read, %d not in a cache; %d and %d by default", name, small, b, m, bytes, misses)
			}
		}
	}
}
