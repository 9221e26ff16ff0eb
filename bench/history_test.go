package bench

import (
	"context"
	"testing"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

var historyThread = saver.Config{ThreadID: "history"}

// fillHistory makes the thread of W4: one chat.
func fillHistory(b testing.TB, dir string) {
	s := openStore(b, dir, disk.Options{Sync: disk.SyncNever})
	cfg := historyThread
	for i, steps := 0, chatRawSteps(); i < len(steps); i++ {
		var err error
		cfg, err = put(s, cfg, &steps[i])
		must(b, err)
		for t := range steps[i].Writes {
			must(b, putWrites(s, cfg, &steps[i], t))
		}
	}
	must(b, s.Close())
}

// BenchmarkW4 reads the history of a chat of 200 checkpoints.
func BenchmarkW4(b *testing.B) {
	none, raw, decoded := func(testing.TB, *saver.Tuple) {}, func(b testing.TB, t *saver.Tuple) { rawBytes(b, t) }, decodeAll
	for _, form := range []struct {
		name string
		dir  func(b testing.TB) string
	}{{"written", stores.history}, {"compacted", stores.historyC}} {
		list := func(limit int, use func(testing.TB, *saver.Tuple)) func(b *testing.B) {
			return func(b *testing.B) { benchHistory(b, form.dir(b), limit, use) }
		}
		b.Run(form.name+"/list-all/raw", list(0, raw))
		b.Run(form.name+"/list-all/decoded", list(0, decoded))
		b.Run(form.name+"/list-all/metadata", list(0, none))
		b.Run(form.name+"/list-10/raw", list(10, raw))
		b.Run(form.name+"/by-id/raw", func(b *testing.B) { benchByID(b, form.dir(b)) })
	}
}

func benchHistory(b *testing.B, dir string, limit int, use func(testing.TB, *saver.Tuple)) {
	s := openStore(b, dir, disk.Options{})
	var took latencies
	b.ReportAllocs()
	cpu := startCPU()
	for b.Loop() {
		start, n := time.Now(), 0
		for tup, err := range s.List(context.Background(), saver.Query{ThreadID: historyThread.ThreadID, Namespace: saver.InNamespace(""), Limit: limit}) {
			must(b, err)
			use(b, tup)
			n++
		}
		took.since(start)
		if want := sizes.chatSteps; n != want && n != limit {
			b.Fatalf("listed %d of %d", n, want)
		}
	}
	cpu.report(b, b.N)
	took.report(b, "list")
	must(b, s.Close())
}

func benchByID(b *testing.B, dir string) {
	s := openStore(b, dir, disk.Options{})
	r := NewData(11).r
	var took latencies
	b.ReportAllocs()
	cpu := startCPU()
	for b.Loop() {
		start := time.Now()
		readRaw(b, s, historyThread.At(CheckpointID(r.IntN(sizes.chatSteps))))
		took.since(start)
	}
	cpu.report(b, b.N)
	took.report(b, "get")
	must(b, s.Close())
}
