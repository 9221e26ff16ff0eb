package bench

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

var (
	chatSteps    = sync.OnceValue(func() []Step { return NewData(7).Chat(sizes.chatSteps) })
	chatRawSteps = sync.OnceValue(func() []Step { return typedSteps(NewData(7).Chat(sizes.chatSteps)) })
)

// BenchmarkW1 is the chat. An op is one step of one of two threads; threads begin
// anew after all steps. As package pregel saves it (engine-durable), values
// come serialized, and task writes become durable with the checkpoint after them.
func BenchmarkW1(b *testing.B) {
	now := context.Background()
	for _, w := range []struct {
		name   string
		mode   disk.SyncMode
		writes context.Context
		steps  func() []Step
	}{
		{"durable", disk.SyncAlways, now, chatSteps},
		{"durable-raw", disk.SyncAlways, now, chatRawSteps},
		{"relaxed-raw", disk.SyncNever, now, chatRawSteps},
		{"engine-durable", disk.SyncAlways, saver.DeferSync(now), chatRawSteps},
	} {
		b.Run(w.name, func(b *testing.B) { benchChat(b, w.mode, w.writes, w.steps()) })
	}
}

// benchChat stores task writes under the context writes.
func benchChat(b *testing.B, mode disk.SyncMode, writes context.Context, steps []Step) {
	dir := b.TempDir()
	s := openStore(b, dir, disk.Options{Sync: mode})
	var puts, tasks latencies
	var cfgs [2]saver.Config
	b.ReportAllocs()
	i, cpu := 0, startCPU()
	for ; b.Loop(); i++ {
		k, n := i%2, i/2%len(steps)
		if n == 0 {
			cfgs[k] = saver.Config{ThreadID: fmt.Sprintf("chat-%06d-%d", i/2/len(steps), k)}
		}
		st := &steps[n]
		start := time.Now()
		cfg, err := put(s, cfgs[k], st)
		must(b, err)
		cfgs[k] = cfg
		start = puts.since(start)
		for t := range st.Writes {
			must(b, putWritesUnder(writes, s, cfg, st, t))
			start = tasks.since(start)
		}
	}
	b.StopTimer()
	cpu.report(b, i)
	b.ReportMetric(float64(i)/b.Elapsed().Seconds(), "steps/s")
	b.ReportMetric(float64(s.Metrics().Log.Syncs)/float64(i), "fsyncs/step")
	puts.report(b, "put")
	tasks.report(b, "writes")
	reportDisk(b, s, dir, i)
}
