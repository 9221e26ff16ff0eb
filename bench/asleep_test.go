package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

// BenchmarkAsleep is what runs that sleep cost on disk: the CPU of the process while none is due, wanted at most
// 1 ms a second, and how long it takes until the 100 that fall due, because the clock jumps, have been run, wanted at
// most 1 s. An op is a second of rest; -benchtime 60x is a minute.
func BenchmarkAsleep(b *testing.B) {
	due := int64(min(100, sizes.asleep))
	ctx, stop := context.WithCancel(b.Context())
	s := openStore(b, b.TempDir(), disk.Options{Sync: disk.SyncNever})
	items, err := store.On(s, store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	queue, err := runs.NewLocal(ctx, items, runs.LocalOptions{Clock: now})
	if err != nil {
		b.Fatal(err)
	}
	var begun, ran atomic.Int64
	asleep, awake := make(chan struct{}), make(chan struct{})
	g, err := pregel.Entrypoint("g", func(ctx context.Context, i int) (int, error) {
		long := time.Hour
		if int64(i) >= due {
			long *= 1000
		}
		if begun.Add(1) == int64(sizes.asleep) {
			close(asleep)
		}
		if err := pregel.Sleep(ctx, long); err != nil {
			return 0, err
		}
		if ran.Add(1) == due {
			close(awake)
		}
		return i, nil
	}, pregel.EntrypointOptions{Options: pregel.Options{Name: "g", Saver: s, Env: pregel.Environment{Now: now}}})
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	w := runs.Worker{Queue: queue, Saver: s, Graphs: map[string]*pregel.Graph{"g": g}}
	go func() { ended <- w.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil && ctx.Err() == nil {
			b.Error(err)
		}
	}()
	for i := range sizes.asleep {
		if _, err := queue.Submit(ctx, runs.Request{Spec: runs.Spec{ThreadID: fmt.Sprint(i), Graph: "g"}, Input: i}); err != nil {
			b.Fatal(err)
		}
	}
	<-asleep
	time.Sleep(10 * time.Second) // what was stored is flushed and compacted meanwhile
	before := cpuTime()
	for b.Loop() {
		time.Sleep(time.Second)
	}
	rest := cpuTime() - before
	jump := time.Now()
	ahead.Store(int64(2 * time.Hour))
	<-awake
	b.ReportMetric(float64(rest.Microseconds())/1000/float64(b.N), "cpu-ms/s")
	b.ReportMetric(time.Since(jump).Seconds(), "s-until-100-ran")
}
