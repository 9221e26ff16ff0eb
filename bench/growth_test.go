package bench

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

// grown is a store of many small things, to see what a call costs as they become more.
type grown struct {
	n     int
	disk  *disk.Saver
	items *store.Local
	queue *runs.Local
	last  string // the id of the last run
}

func thread(i int) string { return fmt.Sprintf("thread-%08d", i) }

func (g *grown) put(threadID string, i int) error {
	v := map[string]saver.Version{"a": saver.IntVersion(int64(i + 1))}
	cp := saver.Checkpoint{V: 4, ID: fmt.Sprintf("%08d", i), Versions: v, Values: map[string]saver.Value{"a": saver.ValueOf(i)}}
	_, err := g.disk.Put(context.Background(), saver.Config{ThreadID: threadID}, cp, saver.Metadata{"run_id": fmt.Sprint(i / 100)}, v)
	return err
}

// consume goes through a listing.
func consume[T any](all iter.Seq2[T, error]) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

// What a row is measured on.
var (
	manyThreads = func(g *grown, i int) error { return g.put(thread(i), i) }
	oneThread   = func(g *grown, i int) error { return g.put("long", i) }
	manyItems   = func(g *grown, i int) error {
		return g.items.Put(context.Background(), store.Namespace{"ns"}, thread(i), map[string]any{"n": i})
	}
	manyUsers = func(g *grown, i int) error {
		return g.items.Put(context.Background(), store.Namespace{"users", thread(i)}, "food", map[string]any{"n": i})
	}
	endedRuns = func(g *grown, i int) error {
		if err := waitingRuns(g, i); err != nil {
			return err
		}
		return g.execute(context.Background())
	}
	waitingRuns = func(g *grown, i int) error {
		r, err := g.queue.Submit(context.Background(), runs.Request{Spec: runs.Spec{Graph: "g", ThreadID: thread(i)}})
		g.last = r.ID
		return err
	}
)

// execute claims a run and ends it.
func (g *grown) execute(ctx context.Context) error {
	c, _, err := g.queue.Claim(ctx, "w", []string{"g"})
	if err != nil {
		return err
	}
	return g.queue.Finish(ctx, *c, runs.Outcome{Status: runs.Success})
}

// growthRows are calls, what they go over, and what is wanted: at most so many milliseconds of CPU at
// the largest size, or CPU that grows at most with so high a power of the size.
var growthRows = []struct {
	name string
	fill func(*grown, int) error
	once bool // the call cannot be repeated
	ms   float64
	pow  float64
	call func(context.Context, *grown) error
}{
	{"put/threads", manyThreads, false, 1, 0, func(_ context.Context, g *grown) error { g.n++; return g.put(thread(g.n), g.n) }},
	{"get/threads", manyThreads, false, 1, 0, func(ctx context.Context, g *grown) error {
		_, err := g.disk.GetTuple(ctx, saver.Config{ThreadID: thread(g.n / 2)})
		return err
	}},
	{"list-100/threads", manyThreads, false, 10, 0, func(ctx context.Context, g *grown) error { return consume(g.disk.List(ctx, saver.Query{Limit: 100})) }},
	{"threads-100/threads", manyThreads, false, 10, 0, func(ctx context.Context, g *grown) error {
		return consume(g.disk.Threads(ctx, saver.ThreadQuery{Limit: 100}))
	}},
	{"threads/threads", manyThreads, false, 0, 1.1, func(ctx context.Context, g *grown) error { return consume(g.disk.Threads(ctx, saver.ThreadQuery{})) }},
	{"retain/threads", manyThreads, true, 0, 1.1, func(ctx context.Context, g *grown) error {
		_, err := g.disk.Retain(ctx, saver.RetentionPolicy{KeepLast: 1}, false)
		return err
	}},
	{"compact/threads", manyThreads, true, 0, 1.1, func(ctx context.Context, g *grown) error { return g.disk.Compact(ctx) }},
	{"put/thread", oneThread, false, 1, 0, func(_ context.Context, g *grown) error { g.n++; return g.put("long", g.n) }},
	{"get/thread", oneThread, false, 1, 0, func(ctx context.Context, g *grown) error {
		_, err := g.disk.GetTuple(ctx, saver.Config{ThreadID: "long"})
		return err
	}},
	{"list-100/thread", oneThread, false, 10, 0, func(ctx context.Context, g *grown) error {
		root := ""
		return consume(g.disk.List(ctx, saver.Query{ThreadID: "long", Namespace: &root, Limit: 100}))
	}},
	{"list-10-any-namespace/thread", oneThread, false, 1, 0, func(ctx context.Context, g *grown) error {
		return consume(g.disk.List(ctx, saver.Query{ThreadID: "long", Limit: 10}))
	}},
	{"copy/thread", oneThread, true, 0, 1.1, func(ctx context.Context, g *grown) error { return g.disk.CopyThread(ctx, "long", "copy") }},
	{"retain/thread", oneThread, true, 0, 1.1, func(ctx context.Context, g *grown) error {
		_, err := g.disk.Retain(ctx, saver.RetentionPolicy{KeepLast: 10}, false)
		return err
	}},
	{"prune/thread", oneThread, true, 0, 1.1, func(ctx context.Context, g *grown) error {
		_, err := g.disk.Prune(ctx, []string{"long"}, saver.KeepLatest)
		return err
	}},
	{"delete/thread", oneThread, true, 0, 1.1, func(ctx context.Context, g *grown) error { return g.disk.DeleteThread(ctx, "long") }},
	{"item/items", manyItems, false, 1, 0, func(ctx context.Context, g *grown) error {
		_, err := g.items.Get(ctx, store.Namespace{"ns"}, thread(g.n/2))
		return err
	}},
	{"search-10/items", manyItems, false, 0, 1.1, func(ctx context.Context, g *grown) error {
		_, err := g.items.Search(ctx, store.Query{Prefix: store.Namespace{"ns"}})
		return err
	}},
	{"search-10/users", manyUsers, false, 0, 1.3, func(ctx context.Context, g *grown) error {
		_, err := g.items.Search(ctx, store.Query{Prefix: store.Namespace{"users"}, Limit: 10})
		return err
	}},
	{"search-10-by-key/users", manyUsers, false, 1, 0, func(ctx context.Context, g *grown) error {
		_, err := g.items.Search(ctx, store.Query{Prefix: store.Namespace{"users"}, Limit: 10, ByKey: true})
		return err
	}},
	{"namespaces-10/users", manyUsers, false, 1, 0, func(ctx context.Context, g *grown) error {
		_, err := g.items.ListNamespaces(ctx, store.NamespaceQuery{MaxDepth: 1, Limit: 10})
		return err
	}},
	{"run/waiting", waitingRuns, false, 1, 0, func(ctx context.Context, g *grown) error { return g.execute(ctx) }},
	{"run/ended", endedRuns, false, 1, 0, func(ctx context.Context, g *grown) error { g.n++; return endedRuns(g, g.n) }},
	{"run-get/ended", endedRuns, false, 1, 0, func(ctx context.Context, g *grown) error {
		_, err := g.queue.Get(ctx, g.last)
		return err
	}},
	{"run-list-100/ended", endedRuns, false, 10, 0, func(ctx context.Context, g *grown) error {
		return consume(g.queue.List(ctx, runs.Query{Newest: true, Limit: 100}))
	}},
	{"run-list-100-status/ended", endedRuns, false, 10, 0, func(ctx context.Context, g *grown) error {
		return consume(g.queue.List(ctx, runs.Query{Status: runs.Success, Newest: true, Limit: 100}))
	}},
	{"run-count/ended", endedRuns, false, 1, 0, func(ctx context.Context, g *grown) error {
		_, err := g.queue.Count(ctx, runs.Query{})
		return err
	}},
	{"run-list/ended", endedRuns, false, 0, 1.1, func(ctx context.Context, g *grown) error { return consume(g.queue.List(ctx, runs.Query{})) }},
	{"queue-open/ended", endedRuns, false, 0, 1.1, func(ctx context.Context, g *grown) error {
		_, err := runs.NewLocal(ctx, g.items, runs.LocalOptions{})
		return err
	}},
	{"run-sweep/ended", endedRuns, true, 0, 1.1, func(ctx context.Context, g *grown) error {
		_, err := g.queue.Sweep(ctx, time.Now().Add(time.Hour))
		return err
	}},
}

// BenchmarkGrowth measures each call on a tenth of BENCH_GROWTH things and on all, 100,000 unless it
// is set, and says whether what is wanted was met.
func BenchmarkGrowth(b *testing.B) {
	most := size("BENCH_GROWTH", 100_000)
	for _, row := range growthRows {
		b.Run(row.name, func(b *testing.B) {
			var took [2]float64 // ms
			for i, n := range []int{most / 10, most} {
				g := &grown{n: n, disk: openStore(b, b.TempDir(), disk.Options{Sync: disk.SyncNever})}
				var err error
				if g.items, err = store.On(g.disk, store.Options{}); err != nil {
					b.Fatal(err)
				}
				if g.queue, err = runs.NewLocal(b.Context(), g.items, runs.LocalOptions{}); err != nil {
					b.Fatal(err)
				}
				for k := range n {
					if err := row.fill(g, k); err != nil {
						b.Fatal(err)
					}
				}
				calls := 1
				if !row.once {
					calls = 12 // the first makes what the others use
				}
				var times []float64
				for range calls {
					start := cpuTime()
					if err := row.call(b.Context(), g); err != nil {
						b.Fatal(err)
					}
					times = append(times, (cpuTime()-start).Seconds()*1e3)
				}
				must(b, g.disk.Close())
				slices.Sort(times)
				took[i] = times[len(times)/2]
			}
			power := math.Log10(took[1] / took[0])
			b.ReportMetric(took[0], "ms-tenth")
			b.ReportMetric(took[1], "ms")
			b.ReportMetric(power, "power")
			met, wanted := row.ms > 0 && took[1] <= row.ms, fmt.Sprintf("at most %g ms", row.ms)
			if row.pow > 0 {
				met, wanted = power <= row.pow, fmt.Sprintf("at most with power %g", row.pow)
			}
			b.Logf("%s: %.3g ms with %d, %.3g ms with %d: wanted %s: %s", row.name, took[0], most/10, took[1], most, wanted, map[bool]string{true: "met", false: "missed"}[met])
		})
	}
}
