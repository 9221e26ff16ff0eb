package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

// countedFS counts the bytes that are read.
type countedFS struct {
	vfs.FS
	read atomic.Int64
}

type countedFile struct {
	vfs.File
	fs *countedFS
}

func (f *countedFS) Open(name string) (vfs.File, error) {
	file, err := f.FS.Open(name)
	return countedFile{file, f}, err
}

func (f countedFile) ReadAt(b []byte, off int64) (int, error) {
	f.fs.read.Add(int64(len(b)))
	return f.File.ReadAt(b, off)
}

// TestSmallMemoryReadsOnce: with little or no memory for caches, a call that reads many
// items reads no more than three times the bytes that it reads with the default as the
// first after Open: what it has read and decoded it does not read again for each item.
func TestSmallMemoryReadsOnce(t *testing.T) {
	const n = 600
	embed := func(_ context.Context, texts []string) ([][]float32, error) {
		out := make([][]float32, len(texts))
		for i := range out {
			out[i] = []float32{float32(i%7) + 1, float32(i % 11), float32(i % 13), 1}
		}
		return out, nil
	}
	o := store.Options{Index: &store.Index{Dims: 4, Embed: embed}}
	for name, q := range map[string]store.Query{
		"Search":               {Limit: store.NoLimit},
		"Search with a filter": {Limit: store.NoLimit, Filter: map[string]any{"text": map[string]any{"$ne": "another"}}},
		"Search by vector":     {Limit: store.NoLimit, Vector: []float32{1, 2, 3, 4}},
	} {
		for _, scan := range []bool{false, true} {
			cost := func(so disk.Options) (bytes int64, misses uint64) {
				fsys := &countedFS{FS: vfs.NewMem(vfs.MemOptions{})}
				open := func(so disk.Options) (*disk.Saver, *store.Local) {
					so.ManualWork = true
					d, err := disk.Open("store", so.In(disk.Simulation{FS: fsys, Inline: true}))
					if err != nil {
						t.Fatal(err)
					}
					s, err := store.On(d, o)
					if err != nil {
						t.Fatal(err)
					}
					return d, s
				}
				d, s := open(disk.Options{})
				rng := rand.New(rand.NewPCG(1, 2))
				var ops []store.Op
				for i := range n {
					value := map[string]any{"text": fmt.Sprintf("%0300x", rng.Uint64())}
					ops = append(ops, store.PutOp{Namespace: store.Namespace{"users", fmt.Sprint(i % 3)}, Key: fmt.Sprint(i), Value: value})
				}
				if _, err := s.Batch(t.Context(), ops...); err != nil {
					t.Fatal(err)
				}
				if err := d.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
				_ = s.Close()
				if err := d.Close(); err != nil {
					t.Fatal(err)
				}
				d, s = open(so)
				defer func() { _ = d.Close() }()
				defer func() { _ = s.Close() }()
				before := fsys.read.Load()
				found := 0
				if scan {
					for _, err := range s.Scan(t.Context(), q) {
						if err != nil {
							t.Fatal(err)
						}
						found++
					}
				} else if all, err := s.Search(t.Context(), q); err != nil {
					t.Fatal(err)
				} else {
					found = len(all)
				}
				if found != n {
					t.Fatalf("%s: %d of %d items", name, found, n)
				}
				return fsys.read.Load() - before, d.Metrics().CacheMisses
			}
			bytes, misses := cost(disk.Options{})
			for small, so := range map[string]disk.Options{"no cache": {CacheBytes: -1}, "no memory": {MemoryBudget: -1}, "1 MiB of memory": {MemoryBudget: 1 << 20}} {
				b, m := cost(so)
				t.Logf("%s (scan %t) with %s: %d bytes, %d not in a cache; %d and %d by default", name, scan, small, b, m, bytes, misses)
				if b > 3*bytes || m > 3*misses {
					t.Errorf("%s (scan %t) with %s: %d bytes read, %d not in a cache; %d and %d by default", name, scan, small, b, m, bytes, misses)
				}
			}
		}
	}
}
