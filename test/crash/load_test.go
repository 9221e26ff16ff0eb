package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/saver/serde"
)

// TestManyWriters lets 64 goroutines put durably at once: every put is there
// after the store is opened again, and they share their fsyncs.
//
// LOAD_PUTS sets the number of puts of each.
func TestManyWriters(t *testing.T) {
	const writers = 64
	puts := envInt(t, "LOAD_PUTS", 100)
	ctx, dir := context.Background(), t.TempDir()
	s, err := disk.Open(dir, disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	errs := make(chan error, writers)
	for w := range writers {
		wg.Go(func() { errs <- putMany(ctx, s, fmt.Sprint("writer", w), puts) })
	}
	wg.Wait()
	for range writers {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	m := s.Metrics().Log
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = disk.Open(dir, disk.Options{}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	for w := range writers {
		if err := checkMany(ctx, s, fmt.Sprint("writer", w), puts); err != nil {
			t.Fatal(err)
		}
	}
	ratio := float64(m.Syncs) / float64(m.Records)
	line := fmt.Sprintf("%d writers: %d durable puts, all present; %.3f fsyncs per commit", writers, m.Records, ratio)
	fmt.Println(line)
	t.Log(line)
	if ratio >= 0.2 {
		t.Errorf("%.3f fsyncs per commit, want less than 0.2", ratio)
	}
}

func putMany(ctx context.Context, s *disk.Saver, thread string, n int) error {
	cfg := saver.Config{ThreadID: thread}
	for i := range n {
		v := saver.IntVersion(int64(i + 1))
		cp := saver.Checkpoint{V: 4, ID: fmt.Sprintf("%06d", i), TS: "2026-01-02T03:04:05+00:00",
			Values:   map[string]saver.Value{"c": saver.ValueOf(fmt.Sprint(thread, " ", i))},
			Versions: map[string]saver.Version{"c": v}}
		var err error
		if cfg, err = s.Put(ctx, cfg, cp, saver.Metadata{"step": i}, map[string]saver.Version{"c": v}); err != nil {
			return fmt.Errorf("%s put %d: %w", thread, i, err)
		}
	}
	return nil
}

func checkMany(ctx context.Context, s *disk.Saver, thread string, n int) error {
	i := n
	for tup, err := range s.List(ctx, saver.Query{ThreadID: thread}) {
		if err != nil {
			return err
		}
		i--
		var got string
		if err := tup.Checkpoint.Values["c"].Decode(&got); err != nil {
			return err
		}
		if want := fmt.Sprint(thread, " ", i); got != want || tup.Config.CheckpointID != fmt.Sprintf("%06d", i) {
			return fmt.Errorf("%s checkpoint %s holds %q, want %q", thread, tup.Config.CheckpointID, got, want)
		}
	}
	if i != 0 {
		return fmt.Errorf("%s has %d checkpoints, want %d", thread, n-i, n)
	}
	return nil
}

// TestBusyStore lets goroutines work on threads of their own, by random calls,
// while the store flushes, saves its index and compacts all the time, and others
// read. Each thread must be as its model, before and after closing; listings that
// were begun before show what was there when they began.
func TestBusyStore(t *testing.T) {
	seed := seedFrom(t, "BUSY_SEED")
	t.Logf("BUSY_SEED=%d", seed)
	ctx, dir := context.Background(), t.TempDir()
	began := time.Now()
	clock := func() time.Time { return began } // no TTL passes: a sweep is of the threads of all, and each model has those of one
	opts := disk.Options{LogFileSize: 64 << 10, FlushBytes: 30 << 10, ImageBytes: 8 << 10, CompactFanout: 2, CompactRate: -1, CacheBytes: 1 << 20, Clock: clock}
	s, err := disk.Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	calls := envInt(t, "BUSY_CALLS", 150)
	models := make([]*memory.Saver, 6)
	did := make([][]string, len(models))
	same := func(when string) {
		t.Helper()
		for w, model := range models {
			if err := sameThreads(ctx, s, model, w); err != nil {
				t.Fatalf("%s: %v; worker %d did\n%s", when, err, w, strings.Join(did[w], "\n"))
			}
		}
	}
	var wg sync.WaitGroup
	var failed atomic.Pointer[error]
	for w := range models {
		models[w] = memory.New(memory.Options{Clock: clock})
		wg.Go(func() {
			if err := busy(ctx, s, models[w], w, rand.New(rand.NewPCG(seed, uint64(w))), calls, &did[w]); err != nil {
				failed.CompareAndSwap(nil, &err)
			}
		})
	}
	wg.Wait()
	if p := failed.Load(); p != nil {
		t.Fatal(*p)
	}
	same("before it is closed")
	m := s.Metrics()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = disk.Open(dir, opts); err != nil {
		t.Fatal(err)
	}
	same("opened again")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d flushes, %d images, %d compactions", m.Flushes, m.Images, m.Compactions)
	if m.Flushes == 0 || m.Images == 0 || m.Compactions == 0 {
		t.Error("the store did not do its own work meanwhile")
	}
}

// busy is one worker: it owns the threads that begin with its number.
func busy(ctx context.Context, s *disk.Saver, model *memory.Saver, w int, rng *rand.Rand, calls int, did *[]string) error {
	g := newGenerator(rng)
	g.names, g.big = []string{fmt.Sprint(w, "a"), fmt.Sprint(w, "b"), fmt.Sprint(w, "c")}, 3000
	g.runs = fmt.Sprint("run of ", w, " ")
	g.alone = true
	for i := range calls {
		c := g.call()
		got, want := c.call(ctx, s), c.call(ctx, model)
		if *did = append(*did, fmt.Sprint(c.what, ": ", class(got))); class(got) != class(want) {
			return fmt.Errorf("worker %d, call %d, %s: disk answers %v, model %v", w, i, c.what, got, want)
		}
		if i%20 != 0 {
			continue
		}
		if err := sameThreads(ctx, s, model, w); err != nil {
			return fmt.Errorf("call %d, %s: %w", i, c.what, err)
		}
	}
	return sameThreads(ctx, s, model, w)
}

// sameThreads compares the threads of one worker. The listings of the disk are
// read while the others go on.
func sameThreads(ctx context.Context, s *disk.Saver, model *memory.Saver, w int) error {
	for _, n := range []string{"a", "b", "c"} {
		thread := fmt.Sprint(w, n)
		var dumps [2]dumper
		for i, from := range []full{s, model} {
			for tup, err := range from.List(ctx, saver.Query{ThreadID: thread}) {
				if err != nil {
					return fmt.Errorf("list %s: %w", thread, err)
				}
				if err := dumps[i].tuple(tup); err != nil {
					return fmt.Errorf("list %s: %w", thread, err)
				}
			}
		}
		if got, want := dumps[0].b.String(), dumps[1].b.String(); got != want {
			return fmt.Errorf("thread %s: %s", thread, difference(got, want))
		}
	}
	return nil
}

// TestListingHeldAcrossCompaction: a listing goes on showing its moment while the
// threads it lists are deleted and the files under it compacted away.
func TestListingHeldAcrossCompaction(t *testing.T) {
	ctx := context.Background()
	s, err := disk.Open(t.TempDir(), disk.Options{ManualWork: true, CacheBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	const n = 40
	for _, thread := range []string{"a", "b"} {
		if err := putMany(ctx, s, thread, n); err != nil {
			t.Fatal(err)
		}
		if err := s.Compact(ctx); err != nil {
			t.Fatal(err)
		}
	}
	left := n
	for tup, err := range s.List(ctx, saver.Query{ThreadID: "a"}) {
		if err != nil {
			t.Fatal(err)
		}
		switch left--; left {
		case 30:
			err = s.DeleteThread(ctx, "a")
		case 20:
			err = s.Compact(ctx)
		case 10:
			err = errors.Join(putMany(ctx, s, "a", 3), s.Compact(ctx))
		}
		if err != nil {
			t.Fatal(err)
		}
		var got string
		if err := tup.Checkpoint.Values["c"].Decode(&got); err != nil || got != fmt.Sprint("a ", left) {
			t.Fatalf("checkpoint %d holds %q: %v", left, got, err)
		}
	}
	if left != 0 {
		t.Fatalf("the listing ended %d early", left)
	}
	if err := errors.Join(checkMany(ctx, s, "a", 3), checkMany(ctx, s, "b", n), s.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestLargestValue: a value of 64 MiB comes back whole, by less than three times
// its size of memory; a larger one is refused before a byte is written.
func TestLargestValue(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	s, err := disk.Open(dir, disk.Options{ManualWork: true, CompactRate: -1})
	if err != nil {
		t.Fatal(err)
	}
	const kind = "bytes"
	data := make([]byte, 64<<20-len(kind)-1) // the kind is stored with it
	rng := rand.NewChaCha8([32]byte{1})
	_, _ = rng.Read(data) // never fails
	put := func(b []byte) error {
		v := saver.IntVersion(1)
		_, err := s.Put(ctx, saver.Config{ThreadID: "t"}, saver.Checkpoint{V: 4, ID: "1", TS: "2026-01-02T03:04:05+00:00",
			Values:   map[string]saver.Value{"c": saver.ValueTyped(serde.Typed{Kind: kind, Data: b})},
			Versions: map[string]saver.Version{"c": v}}, saver.Metadata{}, map[string]saver.Version{"c": v})
		return err
	}
	before := sizes(t, dir)
	if err := put(make([]byte, 64<<20+1)); !errors.Is(err, saver.ErrTooLarge) {
		t.Fatalf("a value over the limit: %v", err)
	}
	if after := sizes(t, dir); after != before {
		t.Fatalf("a refused value changed the files: %s, before %s", after, before)
	}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"put", func() error { return put(data) }},
		{"get from the log", func() error { return getLarge(ctx, s, data) }},
		{"flush", func() error { return s.Flush(ctx) }},
		{"get from a segment", func() error { return getLarge(ctx, s, data) }},
		{"compact", func() error { return s.Compact(ctx) }},
		{"get compacted", func() error { return getLarge(ctx, s, data) }},
	} {
		peak, total, err := peakOf(step.do)
		if err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		t.Logf("%s: peak %.2f×, allocated %.2f×", step.what, peak/float64(len(data)), total/float64(len(data)))
		// The value itself is held by the test all the time: peak is above that.
		if peak > 2*float64(len(data)) {
			t.Errorf("%s took %.2f times the value, besides the value", step.what, peak/float64(len(data)))
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func getLarge(ctx context.Context, s *disk.Saver, want []byte) error {
	tup, err := s.GetTuple(ctx, saver.Config{ThreadID: "t"})
	if err != nil {
		return err
	}
	got, err := tup.Checkpoint.Values["c"].Typed()
	if err == nil && !bytes.Equal(got.Data, want) {
		err = errors.New("another value")
	}
	return err
}

// peakOf runs do and returns by how many bytes the heap grew at most, and how many
// were allocated.
func peakOf(do func() error) (peak, total float64, err error) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	start, allocated := heapBytes(), m.TotalAlloc
	stop, done, most := make(chan struct{}), make(chan struct{}), start
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(200 * time.Microsecond):
				most = max(most, heapBytes())
			}
		}
	}()
	err = do()
	close(stop)
	<-done
	most = max(most, heapBytes())
	runtime.ReadMemStats(&m)
	return float64(most) - float64(start), float64(m.TotalAlloc - allocated), err
}

func heapBytes() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// sizes describes the files of a directory.
func sizes(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, n := range names {
		info, err := os.Stat(n)
		if err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf("%s %d %v; ", filepath.Base(n), info.Size(), info.ModTime().UnixNano())
	}
	return text
}
