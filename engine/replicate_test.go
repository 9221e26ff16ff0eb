package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/seal"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/replica"
	"github.com/stele-go/stele/replica/bucket/buckettest"
	"github.com/stele-go/stele/wal"
)

// TestReplicaReopen writes, closes and opens again, in each mode.
func TestReplicaReopen(t *testing.T) {
	for _, mode := range []replica.Mode{replica.Async, replica.Bounded, replica.Sync} {
		t.Run(string(mode), func(t *testing.T) {
			dir, sim := filepath.Join(t.TempDir(), "s"), buckettest.NewSim(nil)
			opts := Options{Replica: Replica{Bucket: sim, Mode: mode, TTL: time.Second}}
			for life := range 4 {
				e, err := Open(dir, opts)
				if err != nil {
					t.Fatal(err)
				}
				for i := range 20 {
					putKey(t, e, fmt.Sprintf("%d-%d", life, i))
				}
				if life == 2 {
					if err := e.Flush(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if h := e.Health(); h.Replica == nil || h.Replica.Epoch != uint64(life+1) || len(h.Problems) > 0 {
					t.Fatalf("health %+v, %+v", h, h.Replica)
				}
				if err := e.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := Open(dir, Options{}); !errors.Is(err, fault.ErrReplicated) {
				t.Fatalf("opened without the bucket: %v", err)
			}
			if err := Detach(dir, Options{}); err != nil {
				t.Fatal(err)
			}
			e, err := Open(dir, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if n := e.Index.LSN(); n != 80 {
				t.Fatalf("%d records", n)
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(dir, opts); !errors.Is(err, replica.ErrDiverged) {
				t.Fatalf("a detached directory leads: %v", err)
			}
		})
	}
}

func putKey(t testing.TB, e *Engine, key string) {
	t.Helper()
	if err := tryPut(t.Context(), e, key); err != nil {
		t.Fatal(err)
	}
}

func tryPut(ctx context.Context, e *Engine, key string) error {
	v, err := NewValue([]byte("value of " + key))
	if err != nil {
		return err
	}
	return e.Commit(ctx, []string{"p"}, func(tx *Tx) error { return tx.Put("p", key, 0, []SlotIn{{Name: "v", Value: &v}}) })
}

// keysOf returns the keys of partition p in the order in which they were put.
func keysOf(t testing.TB, e *Engine) []string {
	t.Helper()
	v, err := e.View()
	if err != nil {
		t.Fatal(err)
	}
	defer v.Release()
	p, err := v.Partition("p")
	if err != nil {
		t.Fatal(err)
	}
	if p == nil {
		return nil
	}
	var entries []*index.Entry
	p.Ascend("", func(it *index.Entry) bool {
		if !it.Deleted() {
			entries = append(entries, it)
		}
		return true
	})
	slices.SortFunc(entries, func(a, b *index.Entry) int { return cmp.Compare(a.LSN, b.LSN) })
	var keys []string
	for _, it := range entries {
		keys = append(keys, it.Key)
	}
	return keys
}

// TestReplicaRestore restores to the end, to records and to times; opens what was restored, with the bucket and without; and
// has the old directory back.
func TestReplicaRestore(t *testing.T) {
	t.Parallel()
	for _, sealed := range []bool{false, true} {
		t.Run(fmt.Sprint("sealed ", sealed), func(t *testing.T) {
			root, sim := t.TempDir(), buckettest.NewSim(nil)
			var ticks atomic.Int64 // the engine seeds beside the test
			begun := time.Now()
			now := func() time.Time { return begun.Add(time.Duration(ticks.Load()) * time.Second) }
			opts := Options{Replica: Replica{Bucket: sim, Mode: replica.Sync, TTL: time.Second}, ManualWork: true, LogFileSize: minLogFile,
				Clock: func() time.Time { ticks.Add(1); return now() }}
			plain := Options{ManualWork: true}
			if sealed {
				var err error
				if opts.Keys, err = seal.StaticKeys("k", map[string][]byte{"k": bytes.Repeat([]byte{9}, 32)}); err != nil {
					t.Fatal(err)
				}
				plain.Keys = opts.Keys
			}
			old := filepath.Join(root, "old")
			e, err := Open(old, opts)
			if err != nil {
				t.Fatal(err)
			}
			var keys []string
			var times []time.Time
			for i := range 60 {
				keys = append(keys, fmt.Sprintf("%03d", i))
				putKey(t, e, keys[i])
				times = append(times, now())
				if i == 10 || i == 30 {
					if err := e.Flush(t.Context()); err != nil {
						t.Fatal(err)
					}
					if err := e.replica.makePoint(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			}
			check := func(name string, o Options, n int) *Engine {
				t.Helper()
				e, err := Open(filepath.Join(root, name), o)
				if err != nil {
					t.Fatal(err)
				}
				if got := keysOf(t, e); !slices.Equal(got, keys[:n]) {
					t.Fatalf("%s has %q, %d are wanted", name, got, n)
				}
				return e
			}
			for _, n := range []int{1, 11, 12, 31, 60} {
				for _, byTime := range []bool{false, true} {
					name, lsn, moment := fmt.Sprintf("%d-%v", n, byTime), base.LSN(n), time.Time{}
					if byTime {
						lsn, moment = 0, times[n-1]
					}
					if got, err := RestoreStore(t.Context(), sim, filepath.Join(root, name), lsn, moment, plain); err != nil || got != base.LSN(n) {
						t.Fatalf("restored %d, %v", got, err)
					}
					if _, err := Open(filepath.Join(root, name), opts); !errors.Is(err, replica.ErrDiverged) {
						t.Fatalf("a store of the past leads: %v", err)
					}
					e := check(name, plain, n)
					putKey(t, e, "other")
					if err := e.Close(); err != nil {
						t.Fatal(err)
					}
				}
			}
			if _, err := RestoreStore(t.Context(), sim, filepath.Join(root, "end"), 0, time.Time{}, plain); err != nil {
				t.Fatal(err)
			}
			putKey(t, e, "late")
			keys = append(keys, "late")
			if _, err := Open(filepath.Join(root, "end"), plain); !errors.Is(err, fault.ErrReplicated) {
				t.Fatalf("opened without the bucket: %v", err)
			}
			leave(e) // the machine is lost
			var said bytes.Buffer
			heard := opts
			heard.Logger = slog.New(slog.NewTextHandler(&said, nil))
			e2 := check("end", heard, 61)
			putKey(t, e2, "next")
			if err := e2.Close(); err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(said.String(), `msg="wait for lease"`); n != 1 {
				t.Errorf("it says %d times that it waits: %s", n, said.String())
			}
			keys = append(keys, "next")
			e = check("old", opts, 62) // it has nothing of its own
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// leave lets go of a store as if the process had been killed.
func leave(e *Engine) {
	if e.stopWork != nil {
		e.stopWork()
		e.workers.Wait()
	}
	e.replica.stop()
	_ = e.log.Close()
	_ = e.letGo()
}

// TestReplicaDiverged has a directory whose last records the bucket never got, while another one led.
func TestReplicaDiverged(t *testing.T) {
	root, sim := t.TempDir(), buckettest.NewSim(nil)
	opts := Options{Replica: Replica{Bucket: sim.Client("old"), TTL: 500 * time.Millisecond, AcceptLoss: true, Interval: time.Millisecond}}
	e, err := Open(filepath.Join(root, "old"), opts)
	if err != nil {
		t.Fatal(err)
	}
	putKey(t, e, "both")
	if err := e.replica.leader.Wait(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	<-e.replica.seeded
	sim.Disconnect("old")
	for i := range 300 {
		putKey(t, e, fmt.Sprint("lost ", i))
	}
	leave(e)
	other := opts
	other.Replica.Bucket = sim.Client("new")
	if _, err := RestoreStore(t.Context(), sim, filepath.Join(root, "new"), 0, time.Time{}, Options{}); err != nil {
		t.Fatal(err)
	}
	e2, err := Open(filepath.Join(root, "new"), other)
	if err != nil {
		t.Fatal(err)
	}
	putKey(t, e2, "other")
	if err := e2.Close(); err != nil {
		t.Fatal(err)
	}
	sim.Connect("old")
	for range 2 {
		if _, err = Open(filepath.Join(root, "old"), opts); !errors.Is(err, replica.ErrDiverged) {
			t.Fatalf("opened: %v", err)
		}
	}
	b, err := os.ReadFile(filepath.Join(root, "old", TailName(2)))
	if err != nil {
		t.Fatal(err)
	}
	at, batches, err := replica.DecodeTail(replica.Options{Store: e.Found.StoreID}, "tail", b)
	if err != nil || at.LSN != 1 {
		t.Fatalf("the tail begins behind record %d, %v", at.LSN, err)
	}
	n := 0
	for _, b := range batches {
		for _, r := range b.Records {
			if !strings.Contains(string(r), fmt.Sprint("lost ", n)) {
				t.Fatalf("record %d of the tail is %q", n, r)
			}
			n++
		}
	}
	if n != 300 {
		t.Fatalf("the tail has %d records", n)
	}
	if e, err := Open(filepath.Join(root, "old"), Options{ReadOnly: true}); err != nil || len(keysOf(t, e)) != 301 {
		t.Fatalf("something was lost in the old directory: %v", err)
	}
}

// TestReplicaBucketAway writes in mode Async while the bucket is away, and more than is kept in memory: no commit waits. Flushes go on,
// and the log stays until the bucket has it. When the bucket is back it gets all.
func TestReplicaBucketAway(t *testing.T) {
	t.Parallel()
	root, sim := t.TempDir(), buckettest.NewSim(nil)
	opts := Options{Replica: Replica{Bucket: sim.Client("m"), Interval: time.Millisecond, queueBytes: 4000}, ManualWork: true, LogFileSize: minLogFile}
	e, err := Open(filepath.Join(root, "s"), opts)
	if err != nil {
		t.Fatal(err)
	}
	<-e.replica.seeded
	sim.Disconnect("m")
	n := 0
	put := func(count int) {
		for range count {
			putKey(t, e, fmt.Sprintf("%06d", n))
			n++
		}
	}
	put(1000)
	if err := e.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	put(1000)
	st := e.manifest.State()
	if st.FloorLSN != 1001 || st.Logs[0].BaseLSN != 1 {
		t.Fatalf("the floor is %d, and the log begins with record %d", st.FloorLSN, st.Logs[0].BaseLSN)
	}
	if l := e.Health().Replica.Lag; l.Records < 1900 || l.Age == 0 {
		t.Fatalf("lag %+v", l)
	}
	sim.Connect("m")
	put(1000)
	if err := e.replica.leader.Wait(t.Context(), 3000); err != nil {
		t.Fatal(err)
	}
	if err := e.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := e.manifest.State(); len(st.Logs) > 0 && st.Logs[0].BaseLSN < 3000 {
		t.Fatalf("the log begins with record %d", st.Logs[0].BaseLSN)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := RestoreStore(t.Context(), sim, filepath.Join(root, "r"), 0, time.Time{}, Options{}); err != nil || got != 3000 {
		t.Fatalf("restored %d, %v", got, err)
	}
}

// TestReplicaSyncWaits has the bucket away in mode Sync: a commit whose caller leaves has an unknown outcome, is not visible before
// the bucket has it, and Sync settles it. Reads go on.
func TestReplicaSyncWaits(t *testing.T) {
	sim := buckettest.NewSim(nil)
	e, err := Open(filepath.Join(t.TempDir(), "s"), Options{Replica: Replica{Bucket: sim.Client("m"), Mode: replica.Sync}})
	if err != nil {
		t.Fatal(err)
	}
	<-e.replica.seeded
	sim.Stall("m")
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- tryPut(ctx, e, "first") }()
	for e.log.DurableLSN() == 0 { // then it waits for the bucket
		time.Sleep(time.Millisecond)
	}
	select {
	case err := <-done:
		t.Fatalf("the bucket is away, and the commit returned %v", err)
	case <-time.After(20 * time.Millisecond): // a commit that does not wait ends by then, mostly
	}
	leave()
	if err := <-done; !errors.Is(err, fault.ErrOutcomeUnknown) {
		t.Fatalf("its caller left, and the commit returned %v", err)
	}
	if keys := keysOf(t, e); len(keys) > 0 {
		t.Fatalf("%q are seen before they were acknowledged", keys)
	}
	sim.Resume("m")
	if err := e.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if keys := keysOf(t, e); !slices.Equal(keys, []string{"first"}) {
		t.Fatalf("%q are seen after Sync", keys)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestReplicaDeadline has the bucket away in mode Sync: a commit that waits for it ends after its deadline, with an unknown outcome, which
// Sync settles. Those behind it, which only waited in the queue, wrote nothing.
func TestReplicaDeadline(t *testing.T) {
	sim := buckettest.NewSim(nil)
	e, err := Open(filepath.Join(t.TempDir(), "s"), Options{Replica: Replica{Bucket: sim.Client("m"), Mode: replica.Sync}})
	if err != nil {
		t.Fatal(err)
	}
	<-e.replica.seeded
	sim.Stall("m")
	e.replica.o.Deadline = 50 * time.Millisecond               // only commits read it now
	for err = nil; !errors.Is(err, fault.ErrOutcomeUnknown); { // on a slow machine it ends before it is in the log
		err = tryPut(t.Context(), e, "first")
	}
	for e.log.DurableLSN() < 1 { // another put now would be prepared while this one is synced, and leave the queue
		time.Sleep(time.Millisecond)
	}
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, fault.ErrOutcomeUnknown) {
		t.Errorf("the one that waits: %v", err)
	}
	e.replica.o.Deadline = time.Hour
	ctx, leave := context.WithCancel(t.Context())
	queued := make(chan error, 50)
	for i := range cap(queued) {
		go func() { queued <- tryPut(ctx, e, fmt.Sprint("queued ", i)) }()
	}
	for e.log.Metrics().QueueDepth < cap(queued) {
		time.Sleep(time.Millisecond)
	}
	leave()
	for range cap(queued) {
		err := <-queued
		if !errors.Is(err, context.Canceled) || errors.Is(err, fault.ErrOutcomeUnknown) || !strings.Contains(err.Error(), "nothing was written") {
			t.Errorf("a commit in the queue: %v", err)
		}
	}
	sim.Resume("m")
	if err := e.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := keysOf(t, e); !slices.Equal(got, []string{"first"}) {
		t.Errorf("it has %q", got)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestReplicaBounded has a bucket that is too far behind in mode Bounded: commits are refused, and nothing is written.
func TestReplicaBounded(t *testing.T) {
	sim := buckettest.NewSim(nil)
	e, err := Open(filepath.Join(t.TempDir(), "s"), Options{Replica: Replica{Bucket: sim.Client("m"), Mode: replica.Bounded, Interval: time.Millisecond,
		MaxLag: 20 * time.Millisecond, Deadline: 50 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	<-e.replica.seeded
	sim.Stall("m")
	putKey(t, e, "first")
	for err == nil {
		err = tryPut(t.Context(), e, fmt.Sprint("k", e.Index.LSN()))
	}
	if !errors.Is(err, replica.ErrBacklog) {
		t.Fatal(err)
	}
	n := e.Index.LSN()
	sim.Resume("m")
	if err := e.replica.leader.Wait(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	putKey(t, e, "later")
	if err := e.Close(); err != nil || e.Index.LSN() != n+1 {
		t.Fatal(err)
	}
}

// TestReplicaRefuses has options and directories that do not fit.
func TestReplicaRefuses(t *testing.T) {
	sim := buckettest.NewSim(nil)
	for name, o := range map[string]Options{
		"mode sync with late syncs": {Sync: wal.SyncInterval, Replica: Replica{Bucket: sim, Mode: replica.Sync}},
		"an unknown mode":           {Replica: Replica{Bucket: sim, Mode: "often"}},
		"read-only":                 {ReadOnly: true, Replica: Replica{Bucket: sim}},
		"a negative time":           {Replica: Replica{Bucket: sim, Keep: -1}},
	} {
		if err := o.Validate(); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	root := t.TempDir()
	for _, dir := range []string{"a", "b"} {
		e, err := Open(filepath.Join(root, dir), Options{Replica: Replica{Bucket: sim}})
		if dir == "b" {
			if !errors.Is(err, replica.ErrOtherStore) {
				t.Errorf("the bucket of another store: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		putKey(t, e, "k")
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReplicaHalfRestored has a directory in which a restore was interrupted.
func TestReplicaHalfRestored(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "s")
	e, err := Open(dir, Options{})
	if err == nil {
		err = errors.Join(e.SetLineage(replica.Position{}), e.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{"with": {Replica: Replica{Bucket: buckettest.NewSim(nil)}}, "without": {}} {
		if e, err := Open(dir, o); !errors.Is(err, fault.ErrReplicated) {
			t.Errorf("it opens %s a bucket: %v", name, err)
			if err == nil {
				_ = e.Close()
			}
		}
	}
	if err := Detach(dir, Options{}); !errors.Is(err, fault.ErrReplicated) {
		t.Errorf("it is detached: %v", err)
	}
}

// TestReplicaSeeds has a bucket that takes no files: in mode Sync nothing is acknowledged, nor written, before there is something to
// restore.
func TestReplicaSeeds(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	away.Store(true)
	sim := buckettest.NewSim(func(c buckettest.Call) buckettest.Fate {
		if away.Load() && c.Op == buckettest.Put && strings.HasPrefix(c.Key, "file/") {
			return buckettest.NotApplied
		}
		return buckettest.Applied
	})
	e, err := Open(filepath.Join(t.TempDir(), "s"), Options{Replica: Replica{Bucket: sim.Client("m"), Mode: replica.Sync}})
	if err != nil {
		t.Fatal(err)
	}
	e.replica.o.Deadline = 50 * time.Millisecond
	if err := tryPut(t.Context(), e, "early"); !errors.Is(err, replica.ErrSeeding) || e.log.LastLSN() > 0 {
		t.Fatalf("before there is a point, the commit returned %v", err)
	}
	away.Store(false)
	<-e.replica.seeded
	e.replica.o.Deadline = time.Minute
	putKey(t, e, "later")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestSyncReplicaSeeds has a bucket that takes records, and no files: what it has cannot be restored, and SyncReplica says so.
func TestSyncReplicaSeeds(t *testing.T) {
	for _, mode := range []replica.Mode{replica.Async, replica.Bounded} {
		var away atomic.Bool
		away.Store(true)
		sim := buckettest.NewSim(func(c buckettest.Call) buckettest.Fate {
			if away.Load() && c.Op == buckettest.Put && strings.HasPrefix(c.Key, "file/") {
				return buckettest.NotApplied
			}
			return buckettest.Applied
		})
		e, err := Open(filepath.Join(t.TempDir(), "s"), Options{Replica: Replica{Bucket: sim.Client("m"), Mode: mode, MaxLag: time.Hour}})
		if err != nil {
			t.Fatal(err)
		}
		putKey(t, e, "k")
		if err := e.replica.await(t.Context(), e.log.LastLSN()); err != nil {
			t.Fatal(err)
		}
		e.replica.o.Deadline = time.Millisecond
		if err := e.SyncReplica(t.Context()); !errors.Is(err, replica.ErrSeeding) || !errors.Is(err, fault.ErrOutcomeUnknown) {
			t.Errorf("mode %s: before there is a point: %v", mode, err)
		}
		away.Store(false)
		e.replica.o.Deadline = time.Hour
		if err := e.SyncReplica(t.Context()); err != nil || !e.Health().Replica.Seeded {
			t.Errorf("mode %s: %v", mode, err)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestReplicaInterval: what nobody waits for is sent once in an Interval, and all together when somebody waits.
func TestReplicaInterval(t *testing.T) {
	for _, mode := range []replica.Mode{replica.Async, replica.Bounded} {
		sim := buckettest.NewSim(nil)
		o := Options{Replica: Replica{Bucket: sim.Client("m"), Mode: mode, Interval: time.Hour, MaxLag: time.Hour, PointEvery: time.Hour}}
		e, err := Open(filepath.Join(t.TempDir(), "s"), o)
		if err != nil {
			t.Fatal(err)
		}
		<-e.replica.seeded
		if err := e.SyncReplica(t.Context()); err != nil {
			t.Fatal(err)
		}
		chunks := func() (n int) {
			for _, c := range sim.History() {
				if c.Op == buckettest.Put && strings.HasPrefix(c.Key, "e0") {
					n++
				}
			}
			return n
		}
		before := chunks()
		for i := range 50 {
			putKey(t, e, fmt.Sprint("k", i))
		}
		if err := e.SyncReplica(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := chunks() - before; n < 1 || n > 3 { // whoever makes a point waits as well
			t.Errorf("mode %s: 50 commits in one interval made %d chunks", mode, n)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestReplicaOwnTail has a process that is killed while the bucket is away. The next one gives the bucket the end of the log, and
// goes on behind it; in mode Sync nobody sees it before the bucket has it.
func TestReplicaOwnTail(t *testing.T) {
	for _, mode := range []replica.Mode{replica.Async, replica.Sync} {
		t.Run(string(mode), func(t *testing.T) {
			root, sim := t.TempDir(), buckettest.NewSim(nil)
			opts := Options{Replica: Replica{Bucket: sim.Client("m"), Mode: mode, Interval: time.Millisecond, queueBytes: 1000}}
			e, err := Open(filepath.Join(root, "s"), opts)
			if err != nil {
				t.Fatal(err)
			}
			<-e.replica.seeded
			putKey(t, e, "before")
			sim.Disconnect("m")
			want := []string{"before"}
			if mode == replica.Sync {
				ctx, leaves := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- tryPut(ctx, e, "unknown") }()
				for e.log.DurableLSN() < 2 {
					time.Sleep(time.Millisecond)
				}
				leaves()
				if err := <-done; !errors.Is(err, fault.ErrOutcomeUnknown) {
					t.Fatal(err)
				}
				want = append(want, "unknown")
			} else {
				for i := range 300 {
					want = append(want, fmt.Sprintf("%03d", i))
					putKey(t, e, want[i+1])
				}
			}
			leave(e)
			without := opts
			without.Opening = deadline(t, 50*time.Millisecond)
			if _, err := Open(filepath.Join(root, "s"), without); err == nil {
				t.Fatal("it opens without the bucket")
			}
			sim.Connect("m")
			if e, err = Open(filepath.Join(root, "s"), opts); err != nil {
				t.Fatal(err)
			}
			if got := keysOf(t, e); !slices.Equal(got, want) {
				t.Fatalf("%d keys of %d", len(got), len(want))
			}
			if mode == replica.Sync && e.replica.leader.Synced() < base.LSN(len(want)) {
				t.Fatal("it shows what the bucket does not have")
			}
			putKey(t, e, "after")
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			if got, err := RestoreStore(t.Context(), sim, filepath.Join(root, "r"), 0, time.Time{}, Options{}); err != nil || got != base.LSN(len(want)+1) {
				t.Fatalf("restored %d of %d, %v", got, len(want)+1, err)
			}
		})
	}
}

func deadline(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// TestReplicaTurns has two directories that lead by turns, in each mode of syncs: what one takes from the bucket is not given to the
// bucket again, however late it is synced.
func TestReplicaTurns(t *testing.T) {
	for _, mode := range []wal.Mode{wal.SyncAlways, wal.SyncInterval, wal.SyncNever} {
		t.Run(mode.String(), func(t *testing.T) {
			root, sim := t.TempDir(), buckettest.NewSim(nil)
			opts := Options{Sync: mode, SyncInterval: time.Millisecond, Replica: Replica{Bucket: sim, Interval: time.Millisecond}}
			for turn := range 6 {
				dir := filepath.Join(root, fmt.Sprint("m", turn%2))
				if turn == 1 {
					if _, err := RestoreStore(t.Context(), sim, dir, 0, time.Time{}, Options{}); err != nil {
						t.Fatal(err)
					}
				}
				e, err := Open(dir, opts)
				if err != nil {
					t.Fatal(err)
				}
				<-e.replica.seeded
				for i := range 5 {
					putKey(t, e, fmt.Sprint(turn, "-", i))
				}
				if err := e.Sync(t.Context()); err != nil {
					t.Fatal(err)
				}
				if n := len(keysOf(t, e)); n != 5*(turn+1) {
					t.Fatalf("turn %d has %d keys", turn, n)
				}
				if err := e.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
