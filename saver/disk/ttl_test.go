package disk_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// testClock is a clock that is set by hand.
type testClock struct{ micros atomic.Int64 }

func (c *testClock) now() time.Time { return time.UnixMicro(c.micros.Load()) }

func (c *testClock) add(d time.Duration) { c.micros.Add(d.Microseconds()) }

func wantSwept(t *testing.T, s *disk.Saver, want int, left string) {
	t.Helper()
	rep, err := s.Sweep(t.Context())
	must(t, err)
	var ids []string
	for info, err := range s.Threads(t.Context(), saver.ThreadQuery{}) {
		must(t, err)
		ids = append(ids, info.ThreadID)
	}
	if got := strings.Join(ids, " "); rep.Expired != want || got != left {
		t.Fatalf("%d expired, %q left; want %d and %q", rep.Expired, got, want, left)
	}
}

// A thread lives for its TTL after its last write, across restarts, by the store's
// clock, whichever way that is set.
func TestTTLByTheClock(t *testing.T) {
	mem, clk := vfs.NewMem(vfs.MemOptions{}), &testClock{}
	clk.add(1e6 * time.Hour)
	opts := disk.Options{ManualWork: true, DefaultTTL: 2 * time.Hour, Clock: clk.now}
	s := openFor(t, "store", opts, disk.Simulation{FS: mem})
	v := &victim{markers: map[string][]byte{}}
	for _, id := range []string{"default", "forever", "long", "refreshed"} {
		v.put(t, s, id, 1, nil, []byte(id))
	}
	must(t, s.SetTTL(t.Context(), "forever", saver.NoTTL), s.SetTTL(t.Context(), "long", 5*time.Hour))
	clk.add(time.Hour)
	v.put(t, s, "refreshed", 2, nil, []byte("again"))
	must(t, s.Flush(t.Context()), s.Close())
	s = openFor(t, "store", opts, disk.Simulation{FS: mem})
	clk.add(-30 * time.Hour)
	wantSwept(t, s, 0, "default forever long refreshed")
	clk.add(31*time.Hour - time.Microsecond)
	wantSwept(t, s, 0, "default forever long refreshed")
	clk.add(time.Microsecond)
	wantSwept(t, s, 1, "forever long refreshed")
	clk.add(time.Hour)
	wantSwept(t, s, 1, "forever long")
	clk.add(1e4 * time.Hour)
	wantSwept(t, s, 1, "forever")
	for name, bad := range map[string]disk.Options{"TTL": {DefaultTTL: -1}, "tiny TTL": {DefaultTTL: 1}, "age": {Retention: &saver.RetentionPolicy{MaxAge: 1<<63 - 1}}, "interval": {SweepInterval: -1}, "policy": {Retention: &saver.RetentionPolicy{}}} {
		if _, err := disk.Open(t.TempDir(), bad); !errors.Is(err, saver.ErrInvalid) {
			t.Errorf("opened with a bad %s: %v", name, err)
		}
	}
}

// The store expires threads and applies its policy by itself.
func TestSweeperByItself(t *testing.T) {
	s := openFor(t, t.TempDir(), disk.Options{SweepInterval: time.Millisecond, Retention: &saver.RetentionPolicy{KeepLast: 2}}, disk.Simulation{})
	v := &victim{markers: map[string][]byte{}}
	for n := 1; n <= 5; n++ {
		v.put(t, s, "kept", n, nil, []byte("x"))
		if n == 1 {
			v.put(t, s, "gone", 1, nil, []byte("x"))
			must(t, s.SetTTL(t.Context(), "gone", time.Millisecond))
		}
	}
	for count(t, s) != 2 { // the test's own timeout is the limit
		runtime.Gosched()
	}
}

// What retention removes goes back to the system: Stats says about how much a
// compaction frees, and the files are smaller by as much.
func TestRetentionGivesSpaceBack(t *testing.T) {
	s := openFor(t, t.TempDir(), disk.Options{ManualWork: true}, disk.Simulation{})
	rng := rand.New(rand.NewPCG(1, 2))
	v := &victim{markers: map[string][]byte{}, rng: rng}
	for n := 1; n <= 200; n++ {
		v.put(t, s, "t", n, nil, v.random("x"), v.random("y"))
	}
	must(t, s.Compact(t.Context()))
	before := s.Stats()
	rep, err := s.Retain(t.Context(), saver.RetentionPolicy{KeepLast: 20}, false)
	must(t, err, s.Flush(t.Context()))
	said := s.Stats().DeadBytes
	must(t, s.Compact(t.Context()))
	after := s.Stats()
	freed := before.SegmentBytes - after.SegmentBytes
	t.Logf("%d of %d bytes freed, %d said, %d reported", freed, before.SegmentBytes, said, rep.Bytes)
	if rep.Checkpoints != 180 || freed < before.SegmentBytes*8/10 || said < freed*8/10 || said > freed*12/10 || rep.Bytes < freed*8/10 {
		t.Errorf("%+v: freed %d of %d, said %d", rep, freed, before.SegmentBytes, said)
	}
}

// TestSoakOfRetention simulates a day of agents: threads come, grow and expire, and
// history is cut. In the second half of it, disk, memory and goroutines stay as they
// are. STELE_SOAK_PUTS scales it; the default is small.
func TestSoakOfRetention(t *testing.T) {
	puts := 4000
	if n, err := strconv.Atoi(envOr("STELE_SOAK_PUTS", "4000")); err == nil {
		puts = n
	}
	clk := &testClock{}
	clk.add(1e6 * time.Hour)
	mem := vfs.NewMem(vfs.MemOptions{})
	// The caches are bounded, and fill up to their bounds: small ones are full soon.
	opts := disk.Options{ManualWork: true, Clock: clk.now, CacheBytes: 64 << 10, VersionBytes: 64 << 10, DefaultTTL: 3 * time.Hour, DeletedMemory: 3 * time.Hour, LogFileSize: 256 << 10}
	// Inline, so that when room for the log is made does not depend on the scheduler.
	s := openFor(t, "store", opts, disk.Simulation{FS: mem, Inline: true})
	v := &victim{markers: map[string][]byte{}, rng: rand.New(rand.NewPCG(3, 4))}
	step := 24 * time.Hour / time.Duration(puts)
	var sv, heap, routines []int64
	for n := range puts {
		clk.add(step)
		thread := fmt.Sprintf("thread-%d", n/50)
		v.put(t, s, thread, n%50+1, saver.Metadata{"step": n}, v.random("x"))
		if n%(puts/24) == puts/24-1 {
			_, err := s.Sweep(t.Context())
			must(t, err)
			_, err = s.Retain(t.Context(), saver.RetentionPolicy{KeepLast: 5, MaxAge: 100 * 365 * 24 * time.Hour}, false)
			must(t, err, s.Compact(t.Context()))
			var m runtime.MemStats
			runtime.GC()
			runtime.GC() // the first leaves what pools hold
			runtime.ReadMemStats(&m)
			sv, heap, routines = append(sv, diskUse(t, mem)), append(heap, int64(m.HeapAlloc)), append(routines, int64(runtime.NumGoroutine()))
		}
	}
	t.Logf("disk %v", sv)
	for name, series := range map[string][]int64{"disk": sv, "heap": heap, "goroutines": routines} {
		half := len(series) / 2
		if first, last := largest(series[half/2:half]), largest(series[half:]); last > first*5/4 {
			t.Errorf("%s grows in the second half: %v", name, series)
		}
	}
}
