package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/bench/graphs"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver/disk"
)

// spent is what some work took.
type spent struct{ wall, cpu time.Duration }

func (s *spent) on(work func()) {
	start, cpu := time.Now(), cpuTime()
	work()
	s.wall += time.Since(start)
	s.cpu += cpuTime() - cpu
}

// per is s for one of n, in µs.
func (s *spent) per(n int) (wall, cpu float64) {
	return float64(s.wall.Nanoseconds()) / 1e3 / float64(n), float64(s.cpu.Nanoseconds()) / 1e3 / float64(n)
}

// BenchmarkPregelSuperstep is a superstep of the loop graph with the store on disk, and its floor
// in turn: to write as many bytes into zeros that were written before, in the same
// directory, and sync them.
func BenchmarkPregelSuperstep(b *testing.B) {
	const steps = 200
	for _, d := range []pregel.Durability{pregel.Sync, pregel.Async} {
		b.Run(string(d), func(b *testing.B) {
			s := openStore(b, b.TempDir(), disk.Options{})
			var ran atomic.Int64
			w := graphs.Loop(steps)
			g, err := w.Build(s, &ran)
			must(b, err)
			runs := 0
			run := func() {
				_, err := w.Run(context.Background(), g, fmt.Sprint("thread-", runs), d)
				must(b, err)
				runs++
			}
			run()
			data := make([]byte, s.Stats().LogBytes/steps)
			copy(data, NewData(3).Text(len(data)))
			f, err := vfs.OS{}.Create(filepath.Join(b.TempDir(), "floor"))
			must(b, err)
			writeZeros(b, f, int64(steps*len(data)))
			floor := func() {
				for i := range steps {
					_, err := f.WriteAt(data, int64(i*len(data)))
					must(b, err)
					must(b, f.SyncData())
				}
			}
			var took, least spent
			n := 0
			for b.Loop() {
				took.on(run)
				least.on(floor)
				n += steps
			}
			wall, cpu := took.per(n)
			floorWall, floorCPU := least.per(n)
			b.ReportMetric(float64(len(data)), "B/superstep")
			b.ReportMetric(wall, "µs/superstep")
			b.ReportMetric(cpu, "cpu-µs/superstep")
			b.ReportMetric(floorWall, "floor-µs")
			b.ReportMetric(floorCPU, "floor-cpu-µs")
			b.ReportMetric(wall/floorWall, "x-floor")
			must(b, f.Close())
			must(b, s.Close())
		})
	}
}
