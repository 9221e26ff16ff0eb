// Package load puts weight on one store: many writers, and the largest value.
package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/serde"
)

// putsPerWriter is scaled by LOAD_PUTS; 1000 is the full test.
func putsPerWriter(t *testing.T) int {
	t.Helper()
	s := os.Getenv("LOAD_PUTS")
	if s == "" {
		return 100
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		t.Fatalf("LOAD_PUTS=%q", s)
	}
	return n
}

// Sixty-four writers, each with its own thread and durable puts: every one is
// there after reopening, with its own value, and they shared their syncs.
func TestManyWriters(t *testing.T) {
	const writers = 64
	puts, dir, ctx := putsPerWriter(t), t.TempDir(), context.Background()
	s, err := saver.Open(dir, saver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			parent := ""
			for i := range puts {
				cfg, err := put(ctx, s, w, i, parent)
				if err != nil {
					t.Errorf("writer %d put %d: %v", w, i, err)
					return
				}
				parent = cfg.CheckpointID
			}
		}()
	}
	wg.Wait()
	m := s.Metrics().Log
	perCommit := float64(m.Syncs) / float64(m.Records)
	t.Logf("%d writers, %d puts each: %d syncs for %d commits, fsyncs per commit %.3f", writers, puts, m.Syncs, m.Records, perCommit)
	if perCommit >= 0.2 {
		t.Errorf("%.3f syncs per commit, want less than 0.2", perCommit)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = saver.Open(dir, saver.Options{}); err != nil {
		t.Fatal(err)
	}
	for w := range writers {
		checkThread(t, s, w, puts)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func put(ctx context.Context, s saver.Saver, w, i int, parent string) (saver.Config, error) {
	v := saver.IntVersion(int64(i + 1))
	return s.Put(ctx, saver.Config{ThreadID: fmt.Sprintf("thread-%02d", w), CheckpointID: parent},
		saver.Checkpoint{V: 4, ID: fmt.Sprintf("%06d", i), Versions: map[string]saver.Version{"c": v},
			Values: map[string]saver.Value{"c": saver.ValueOf(fmt.Sprintf("%d of %d", i, w))}},
		saver.Metadata{"source": "loop", "step": i}, map[string]saver.Version{"c": v})
}

func checkThread(t *testing.T, s saver.Saver, w, puts int) {
	t.Helper()
	i := puts
	for tup, err := range s.List(context.Background(), saver.Query{ThreadID: fmt.Sprintf("thread-%02d", w)}) {
		if err != nil {
			t.Fatal(err)
		}
		i--
		var got string
		if err := tup.Checkpoint.Values["c"].Decode(&got); err != nil || got != fmt.Sprintf("%d of %d", i, w) {
			t.Fatalf("thread %d checkpoint %d reads %q, %v", w, i, got, err)
		}
	}
	if i != 0 {
		t.Errorf("thread %d misses %d checkpoints", w, i)
	}
}

// The largest value round-trips, from the log and from a segment, without being
// held in memory three times; a larger one is refused before a byte is written.
func TestLargestValue(t *testing.T) {
	const limit = 64 << 20
	ctx := context.Background()
	s, err := saver.Open(t.TempDir(), saver.Options{Sync: saver.SyncNever, ManualWork: true, CacheBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	big := make([]byte, limit-1) // one byte says that they are bytes
	random := rand.NewChaCha8([32]byte{1})
	if _, err := random.Read(big); err != nil {
		t.Fatal(err)
	}
	v := saver.IntVersion(1)
	cp := saver.Checkpoint{V: 4, ID: "1", Versions: map[string]saver.Version{"c": v},
		Values: map[string]saver.Value{"c": saver.ValueTyped(serde.Typed{Kind: serde.KindBytes, Data: big})}}
	versions := map[string]saver.Version{"c": v}
	steps := []struct {
		name string
		do   func() error
	}{
		{"put", func() error { _, err := s.Put(ctx, saver.Config{ThreadID: "t"}, cp, nil, versions); return err }},
		{"get from the log", func() error { return readBig(ctx, s, big) }},
		{"flush", func() error { return s.Flush(ctx) }},
		{"get from a segment", func() error { return readBig(ctx, s, big) }},
	}
	for _, step := range steps {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		runtime.ReadMemStats(&after)
		allocated := after.TotalAlloc - before.TotalAlloc
		t.Logf("%s: %d MiB allocated for a value of %d", step.name, allocated>>20, limit>>20)
		if allocated >= 2*limit+limit/2 { // with the caller's own copy: less than 3 times
			t.Errorf("%s allocated %d bytes in all", step.name, allocated)
		}
	}
	records := s.Metrics().Log.Records
	cp.ID = "2"
	cp.Values["c"] = saver.ValueTyped(serde.Typed{Kind: serde.KindBytes, Data: make([]byte, limit+1)})
	if _, err := s.Put(ctx, saver.Config{ThreadID: "t"}, cp, nil, versions); !errors.Is(err, saver.ErrTooLarge) {
		t.Errorf("a value over the limit: %v", err)
	}
	if got := s.Metrics().Log.Records; got != records {
		t.Errorf("the refused put wrote %d records", got-records)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func readBig(ctx context.Context, s saver.Saver, want []byte) error {
	tup, err := s.GetTuple(ctx, saver.Config{ThreadID: "t"})
	if err != nil {
		return err
	}
	typed, err := tup.Checkpoint.Values["c"].Typed()
	if err != nil {
		return err
	}
	if typed.Kind != serde.KindBytes || !bytes.Equal(typed.Data, want) {
		return errors.New("other bytes came back")
	}
	return nil
}
