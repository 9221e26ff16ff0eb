package store_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

// TestSearchFindsTheNearest searches enough vectors for several goroutines, on disk and
// in memory, where each item is compared in turn. The vectors are spread, in clusters,
// or all alike, and some change in between.
func TestSearchFindsTheNearest(t *testing.T) {
	ctx, ns := context.Background(), store.Namespace{"a"}
	const dims, items = 43, 8000 // dims is no multiple of the step of dot
	for name, noise := range map[string]float32{"spread": 100, "clusters": 0.05, "alike": 1e-4, "equal": 0} {
		for _, metric := range []store.Metric{store.Cosine, store.Dot, store.L2} {
			t.Run(fmt.Sprint(name, " ", metric), func(t *testing.T) {
				near := func(cluster int, seed uint64) []float32 {
					rng := rand.New(rand.NewPCG(1, seed))
					v := make([]float32, dims)
					for i := range v {
						v[i] = float32(math.Sin(float64(cluster*i))) + noise*(rng.Float32()-0.5)
					}
					return v
				}
				embed := func(_ context.Context, texts []string) ([][]float32, error) {
					out := make([][]float32, len(texts))
					for i, text := range texts {
						var cluster int
						var seed uint64
						if _, err := fmt.Sscan(text, &cluster, &seed); err != nil {
							return nil, err
						}
						out[i] = near(cluster, seed)
					}
					return out, nil
				}
				now := time.Unix(1_700_000_000, 0)
				o := store.Options{Clock: func() time.Time { return now }, Index: &store.Index{Dims: dims, Embed: embed, Fields: []string{"t[*]"}, Metric: metric}}
				onMemory, err := store.NewMemory(o)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = onMemory.Close() }()
				stores := []*store.Local{onMemory, onDisk(t, o, "", disk.Options{Sync: disk.SyncNever})}
				rng := rand.New(rand.NewPCG(1, 2))
				put := func(n int) {
					now = now.Add(time.Second)
					var ops []store.Op
					for range n {
						texts := make([]any, rng.IntN(3))
						if rng.IntN(1000) == 0 {
							texts = make([]any, 128)
						}
						for i := range texts {
							texts[i] = fmt.Sprint(1+rng.IntN(7), " ", rng.Uint64())
						}
						ops = append(ops, store.PutOp{Namespace: ns, Key: fmt.Sprint(rng.IntN(items)), Value: map[string]any{"t": texts, "n": rng.IntN(3)}})
					}
					for _, s := range stores {
						if _, err := s.Batch(ctx, ops...); err != nil {
							t.Fatal(err)
						}
					}
				}
				put(items)
				for range 6 {
					put(50)
					q := store.Query{Vector: near(1+rng.IntN(7), rng.Uint64()), Limit: 1 + rng.IntN(40)}
					if rng.IntN(2) == 0 {
						q.Filter = map[string]any{"n": 1}
					}
					var found [2][]store.Found
					for i, s := range stores {
						if found[i], err = s.Search(ctx, q); err != nil {
							t.Fatal(err)
						}
					}
					if !reflect.DeepEqual(found[0], found[1]) {
						t.Fatalf("in memory\n%v\non disk\n%v", found[0], found[1])
					}
				}
			})
		}
	}
}
