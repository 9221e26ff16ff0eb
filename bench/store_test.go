package bench

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

// storeItems are the items that are searched, storeDims their vectors' dimension.
var (
	storeItems = size("BENCH_STORE_ITEMS", 100_000)
	storeDims  = size("BENCH_STORE_DIMS", 384)
)

// memoryItem is the n-th item: about 1 KB, with fields to filter by.
func memoryItem(d *Data, n int) map[string]any {
	return map[string]any{"text": d.Text(900), "kind": [...]string{"fact", "plan", "event"}[n%3], "age": n % 1000, "score": float64(n%97) / 97}
}

func openItems(b testing.TB, dir string, so disk.Options, o store.Options) (*disk.Saver, *store.Local) {
	b.Helper()
	d := openStore(b, dir, so)
	s, err := store.On(d, o)
	must(b, err)
	return d, s
}

var itemSpace = store.Namespace{"users", "ann", "facts"}

// fillItems stores n items, in batches.
func fillItems(b testing.TB, s store.Store, n int) {
	b.Helper()
	d := NewData(11)
	var ops []store.Op
	for i := range n {
		ops = append(ops, store.PutOp{Namespace: itemSpace, Key: fmt.Sprintf("item-%07d", i), Value: memoryItem(d, i)})
		if len(ops) == 1000 || i == n-1 {
			_, err := s.Batch(context.Background(), ops...)
			must(b, err)
			ops = ops[:0]
		}
	}
}

var filledItems = sync.OnceValue(func() func(b testing.TB) string { // after TestMain made the directory
	return once("items", func(b testing.TB, dir string) {
		d, s := openItems(b, dir, disk.Options{Sync: disk.SyncNever}, store.Options{})
		fillItems(b, s, storeItems)
		must(b, d.Close())
	})
})

var compactItems = sync.OnceValue(func() func(b testing.TB) string {
	return once("items-compacted", func(b testing.TB, dir string) { copyStore(b, filledItems()(b), dir); compact(b, dir) })
})

// BenchmarkStorePut puts items of 1 KB into namespaces of their writers.
func BenchmarkStorePut(b *testing.B) {
	for _, writers := range []int{1, 64} {
		b.Run(fmt.Sprintf("durable/writers=%d", writers), func(b *testing.B) {
			d, s := openItems(b, b.TempDir(), disk.Options{}, store.Options{})
			defer func() { must(b, d.Close()) }()
			values := make([]map[string]any, 64)
			data := NewData(12)
			for i := range values {
				values[i] = memoryItem(data, i)
			}
			b.ReportAllocs()
			cpu := startCPU()
			var wg sync.WaitGroup
			var next atomic.Int64
			b.ResetTimer()
			for w := range writers {
				wg.Go(func() {
					ns := store.Namespace{"users", fmt.Sprint(w)}
					for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
						if err := s.Put(context.Background(), ns, fmt.Sprint("k", n%10_000), values[n%64]); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			cpu.report(b, b.N)
		})
	}
}

// BenchmarkStoreGet reads random items of 1 KB, as written and compacted.
func BenchmarkStoreGet(b *testing.B) {
	for name, dir := range map[string]func(testing.TB) string{"written": filledItems(), "compacted": compactItems()} {
		b.Run(name, func(b *testing.B) {
			d, s := openItems(b, dir(b), disk.Options{ReadOnly: true}, store.Options{})
			defer func() { must(b, d.Close()) }()
			rng := rand.New(rand.NewPCG(1, 2))
			var took latencies
			get := func() {
				_, err := s.Get(context.Background(), itemSpace, fmt.Sprintf("item-%07d", rng.IntN(storeItems)))
				must(b, err)
			}
			get() // loads the namespace
			b.ReportAllocs()
			cpu := startCPU()
			b.ResetTimer()
			for range b.N {
				start := time.Now()
				get()
				took.since(start)
			}
			b.StopTimer()
			cpu.report(b, b.N)
			took.report(b, "get")
		})
	}
}

// BenchmarkStoreSearch searches all items with one filter.
func BenchmarkStoreSearch(b *testing.B) {
	for name, q := range map[string]store.Query{
		"number":   {Prefix: itemSpace, Filter: map[string]any{"age": map[string]any{"$gte": 990}}},
		"text":     {Prefix: itemSpace, Filter: map[string]any{"kind": "plan"}},
		"nothing":  {Prefix: itemSpace, Filter: map[string]any{"kind": "none"}},
		"unfilter": {Prefix: itemSpace},
	} {
		b.Run(name, func(b *testing.B) {
			d, s := openItems(b, filledItems()(b), disk.Options{ReadOnly: true}, store.Options{})
			defer func() { must(b, d.Close()) }()
			search := func() {
				_, err := s.Search(context.Background(), q)
				must(b, err)
			}
			start := time.Now()
			search()
			b.ReportMetric(float64(time.Since(start).Microseconds())/1e3, "first-ms")
			cpu := startCPU()
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				search()
			}
			b.StopTimer()
			cpu.report(b, b.N)
		})
	}
}

// BenchmarkStoreVector finds the ten nearest of all vectors, and compares with the
// time it takes to read as many bytes of memory from end to end.
func BenchmarkStoreVector(b *testing.B) {
	rng := rand.New(rand.NewPCG(3, 4))
	vector := func() []float32 {
		v := make([]float32, storeDims)
		for i := range v {
			v[i] = rng.Float32() - 0.5
		}
		return v
	}
	for _, metric := range []store.Metric{store.Cosine, store.Dot, store.L2} {
		b.Run(string(metric), func(b *testing.B) {
			embed := func(_ context.Context, texts []string) ([][]float32, error) {
				out := make([][]float32, len(texts))
				for i := range out {
					out[i] = vector()
				}
				return out, nil
			}
			d, s := openItems(b, b.TempDir(), disk.Options{Sync: disk.SyncNever}, store.Options{Index: &store.Index{Dims: storeDims, Embed: embed, Fields: []string{"kind"}, Metric: metric}})
			defer func() { must(b, d.Close()) }()
			fillItems(b, s, storeItems)
			search := func() {
				found, err := s.Search(context.Background(), store.Query{Prefix: itemSpace, Vector: vector()})
				must(b, err)
				if len(found) != 10 {
					b.Fatalf("%d found", len(found))
				}
			}
			search() // fills the shelf
			floor := newFloor(4 * storeItems * storeDims)
			var ours, theirs latencies
			var spent cpuSum
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N { // in turn, so that both see the same machine
				cpu, start := startCPU(), time.Now()
				search()
				ours.since(start)
				b.StopTimer()
				spent.since(cpu)
				theirs = append(theirs, floor.read())
				b.StartTimer()
			}
			b.StopTimer()
			slices.Sort(ours)
			slices.Sort(theirs)
			mine, least := ours[len(ours)/2], theirs[len(theirs)/2]
			spent.report(b, b.N)
			b.ReportMetric(float64(mine.Nanoseconds())/1e6, "search-ms")
			b.ReportMetric(float64(least.Nanoseconds())/1e6, "floor-ms")
			b.ReportMetric(float64(mine.Nanoseconds())/float64(least.Nanoseconds()), "×floor")
		})
	}
}

// floor is how long all processors together take to read as much memory as a search
// does: looking for a byte that is not there.
type floor []byte

func newFloor(n int) floor { return bytes.Repeat([]byte{1}, n) }

func (f floor) read() time.Duration {
	start := time.Now()
	var wg sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		wg.Go(func() {
			if bytes.IndexByte(f[w*len(f)/workers:(w+1)*len(f)/workers], 0) >= 0 {
				panic("unreachable")
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}
