package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// memories are the settings that BenchmarkSmallMemory compares, the default first.
var memories = []struct {
	name string
	opts disk.Options
}{
	{"default", disk.Options{}},
	{"cache-none", disk.Options{CacheBytes: -1}},
	{"cache-1MiB", disk.Options{CacheBytes: 1 << 20}},
	{"budget-none", disk.Options{MemoryBudget: -1}},
	{"budget-1MiB", disk.Options{MemoryBudget: 1 << 20}},
}

// smallStores are what BenchmarkSmallMemory reads and rewrites: threads of so many
// checkpoints each, of values of about so many bytes.
var smallStores = []struct {
	name                  string
	threads, steps, bytes int
}{
	{"6x1500", 6, 1500, 60},
	{"1x5000", 1, 5000, 60},
	{"6x1500-1KB", 6, 1500, 1000}, // a listing goes through more blocks at once than it keeps
}

// otherThread is one that can be erased without erasing much.
var otherThread = saver.Config{ThreadID: "other"}

func smallThread(i int) saver.Config { return saver.Config{ThreadID: fmt.Sprintf("small-%d", i)} }

// fillSmall makes such a store: three quarters of it in three segments, the rest in the log;
// flushes == 0 leaves all of it in the log.
func fillSmall(b testing.TB, dir string, threads, steps, bytes, flushes int) {
	s := openStore(b, dir, disk.Options{Sync: disk.SyncNever, ManualWork: true})
	d := NewData(21)
	first := d.Small(1, bytes)[0].Typed()
	_, err := put(s, otherThread, &first)
	must(b, err)
	heads := make([]saver.Config, threads)
	work := make([][]Step, threads)
	for i := range heads {
		heads[i], work[i] = smallThread(i), d.Small(steps, bytes)
	}
	for n := range steps {
		for i := range heads {
			st := work[i][n].Typed()
			var err error
			heads[i], err = put(s, heads[i], &st)
			must(b, err)
			must(b, putWrites(s, heads[i], &st, 0))
		}
		if flushes > 0 && (n+1)%(steps/(flushes+1)) == 0 && (n+1)/(steps/(flushes+1)) <= flushes {
			must(b, s.Flush(context.Background()))
		}
	}
	must(b, s.Close())
}

// BenchmarkSmallMemory says how many times the processor time of the default the
// calls take with less memory, each as the first thing after Open.
func BenchmarkSmallMemory(b *testing.B) {
	ctx := context.Background()
	calls := []struct {
		name string
		run  func(b testing.TB, s *disk.Saver, steps int)
	}{
		{"list", func(b testing.TB, s *disk.Saver, _ int) {
			for tup, err := range s.List(ctx, saver.Query{}) {
				must(b, err)
				rawBytes(b, tup)
			}
		}},
		{"list-then-read", func(b testing.TB, s *disk.Saver, _ int) {
			var all []*saver.Tuple
			for tup, err := range s.List(ctx, saver.Query{ThreadID: smallThread(0).ThreadID}) {
				must(b, err)
				all = append(all, tup)
			}
			for _, tup := range all {
				rawBytes(b, tup)
			}
		}},
		{"latest", func(b testing.TB, s *disk.Saver, _ int) { readRaw(b, s, smallThread(0)) }},
		{"by-id", func(b testing.TB, s *disk.Saver, steps int) { readRaw(b, s, smallThread(0).At(CheckpointID(steps/3))) }},
		{"compact", func(b testing.TB, s *disk.Saver, _ int) { must(b, s.Compact(ctx)) }},
		{"erase", func(b testing.TB, s *disk.Saver, _ int) { must(b, s.Erase(ctx, otherThread.ThreadID)) }},
	}
	for _, st := range smallStores {
		dirs := map[string]func(b testing.TB) string{}
		dirs["log"] = once(st.name+"-log", func(b testing.TB, dir string) { fillSmall(b, dir, st.threads, st.steps, st.bytes, 0) })
		dirs["written"] = once(st.name, func(b testing.TB, dir string) { fillSmall(b, dir, st.threads, st.steps, st.bytes, 3) })
		dirs["compacted"] = once(st.name+"-compacted", func(b testing.TB, dir string) {
			copyStore(b, dirs["written"](b), dir)
			compact(b, dir)
		})
		for _, form := range []string{"log", "written", "compacted"} {
			for _, c := range calls {
				b.Run(st.name+"/"+form+"/"+c.name, func(b *testing.B) {
					from := dirs[form](b)
					took := make([][]time.Duration, len(memories))
					for n := 0; b.Loop(); n++ {
						for i, m := range memories {
							dir := filepath.Join(b.TempDir(), fmt.Sprint(n, m.name))
							copyStore(b, from, dir)
							opts := m.opts
							opts.ManualWork, opts.CompactRate = true, -1
							s := openStore(b, dir, opts)
							begin := cpuTime()
							c.run(b, s, st.steps)
							took[i] = append(took[i], cpuTime()-begin)
							must(b, s.Close())
							must(b, os.RemoveAll(dir))
						}
					}
					median := func(d []time.Duration) time.Duration { slices.Sort(d); return d[len(d)/2] }
					base := median(took[0])
					b.ReportMetric(float64(base.Microseconds())/1e3, "default-cpu-ms")
					for i := range memories[1:] {
						b.ReportMetric(float64(median(took[i+1]))/float64(base), memories[i+1].name+"-x")
					}
				})
			}
		}
	}
}
