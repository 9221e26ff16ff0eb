package bench_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/bench/graphs"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/memory"
)

// keeper is a saver and a durability to run with.
type keeper struct {
	name       string
	open       func(b *testing.B) saver.Saver
	durability pregel.Durability
}

func keepers() []keeper {
	inMemory := func(*testing.B) saver.Saver { return memory.New(memory.Options{}) }
	onDisk := func(b *testing.B) saver.Saver {
		s, err := disk.Open(b.TempDir(), disk.Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := s.Close(); err != nil {
				b.Error(err)
			}
		})
		return s
	}
	out := []keeper{{"none", func(*testing.B) saver.Saver { return nil }, pregel.Async}}
	for _, d := range []pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit} {
		out = append(out, keeper{"memory/" + string(d), inMemory, d}, keeper{"disk/" + string(d), onDisk, d})
	}
	return out
}

// runGraph measures runs of w with every keeper. It reports supersteps per second
// and the time per task; nodes do nothing, so that is what the engine and the
// saver cost.
func runGraph(b *testing.B, w graphs.Workload) {
	for _, k := range keepers() {
		if w.Turns > 1 && k.name == "none" {
			continue // nothing would grow
		}
		b.Run(k.name, func(b *testing.B) {
			s := k.open(b)
			var ran atomic.Int64
			g, err := w.Build(s, &ran)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			run := 0
			for b.Loop() {
				if w.Turns > 1 && run > 0 {
					// A whole history is quadratic in its turns: in memory keep one.
					if err := s.DeleteThread(context.Background(), fmt.Sprint("thread-", run-1)); err != nil {
						b.Fatal(err)
					}
				}
				if _, err := w.Run(context.Background(), g, fmt.Sprint("thread-", run), k.durability); err != nil {
					b.Fatal(err)
				}
				run++
			}
			took := b.Elapsed() / time.Duration(run)
			b.ReportMetric(float64(w.Steps)/took.Seconds(), "supersteps/s")
			b.ReportMetric(float64(took.Nanoseconds())/1000/float64(w.Tasks), "µs/task")
		})
	}
}

// BenchmarkPregelLoop counts to 1,000, one superstep each.
func BenchmarkPregelLoop(b *testing.B) { runGraph(b, graphs.Loop(1000)) }

// BenchmarkPregelSend sends 1,000 packets that run in one superstep.
func BenchmarkPregelSend(b *testing.B) { runGraph(b, graphs.Send(1000)) }

// BenchmarkPregelDiamond runs one node, then eighteen side by side, then one
// that waits for all of them.
func BenchmarkPregelDiamond(b *testing.B) { runGraph(b, graphs.Diamond(18)) }

// BenchmarkPregelChat is a conversation of a hundred turns on one thread.
func BenchmarkPregelChat(b *testing.B) { runGraph(b, graphs.Chat(100)) }

// BenchmarkPregelNodesOf1ms is a line of 20 nodes that take a millisecond each:
// what storing costs where there is work to hide it behind.
func BenchmarkPregelNodesOf1ms(b *testing.B) { runGraph(b, graphs.Line(20, time.Millisecond)) }

// BenchmarkPregelMemory says what a thread of ten nodes, one after another, takes in the saver
// in memory.
func BenchmarkPregelMemory(b *testing.B) {
	const threads = 2000
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	w := graphs.Line(10, 0)
	for b.Loop() {
		s := memory.New(memory.Options{})
		var ran atomic.Int64
		g, err := w.Build(s, &ran)
		if err != nil {
			b.Fatal(err)
		}
		before := heap()
		for i := range threads {
			if _, err := w.Run(context.Background(), g, fmt.Sprint("thread-", i), pregel.Sync); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(heap()-before)/threads, "B/thread")
		runtime.KeepAlive(s)
	}
}
