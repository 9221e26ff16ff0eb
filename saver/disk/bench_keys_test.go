package disk_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// BenchmarkEncryption compares stores with and without encryption: commits that are
// not synced, so that the processor is what counts, and reads that miss the cache.
func BenchmarkEncryption(b *testing.B) {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(1, 2))
	value := make([]byte, 16<<10)
	for i := range value {
		value[i] = byte('a' + rng.IntN(20))
	}
	for _, name := range []string{"plain", "encrypted"} {
		opts := disk.Options{Sync: disk.SyncNever, ManualWork: true, CacheBytes: 1 << 20, NoPatches: true, DiskReserve: -1}
		if name == "encrypted" {
			opts.Keys = testKeys(b, "2026")
		}
		s, err := disk.Open(b.TempDir(), opts)
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		put := func() {
			n++
			v := saver.IntVersion(int64(n))
			rng.Shuffle(64, func(i, j int) { value[i], value[j] = value[j], value[i] })
			_, err := s.Put(ctx, saver.Config{ThreadID: fmt.Sprint("t", n%100)}, saver.Checkpoint{V: 4, ID: fmt.Sprintf("%09d", n),
				Versions: map[string]saver.Version{"c": v}, Values: map[string]saver.Value{"c": saver.ValueOf(value)}}, nil, map[string]saver.Version{"c": v})
			if err != nil {
				b.Fatal(err)
			}
		}
		get := func(b *testing.B) {
			b.SetBytes(int64(len(value)))
			for i := 0; b.Loop(); i++ {
				tup, err := s.GetTuple(ctx, saver.Config{ThreadID: fmt.Sprint("t", i%100)})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := tup.Checkpoint.Values["c"].Typed(); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.Run("put/"+name, func(b *testing.B) {
			b.SetBytes(int64(len(value)))
			for b.Loop() {
				put()
			}
		})
		for n < 200 { // and as many already, where put was not measured
			put()
		}
		b.Run("get from log/"+name, get)
		if err := s.Compact(ctx); err != nil {
			b.Fatal(err)
		}
		b.Run("get from segment/"+name, get)
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
