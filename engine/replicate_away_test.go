package engine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/race"
	"github.com/stele-go/stele/base/vfs/crashfs"
	"github.com/stele-go/stele/replica"
	"github.com/stele-go/stele/replica/bucket"
	"github.com/stele-go/stele/replica/bucket/buckettest"
	"github.com/stele-go/stele/wal"
)

// TestReplicaOtherBucket has a wrong bucket, which is empty: a store that has a lineage begins no other one, and is as it was.
func TestReplicaOtherBucket(t *testing.T) {
	for _, mode := range []replica.Mode{replica.Async, replica.Sync} {
		dir, right, wrong := filepath.Join(t.TempDir(), "s"), buckettest.NewSim(nil), buckettest.NewSim(nil)
		for _, sim := range []*buckettest.Sim{right, wrong, right} {
			e, err := Open(dir, Options{Replica: Replica{Bucket: sim, Mode: mode, Interval: time.Millisecond}})
			if sim == wrong {
				if page, lerr := wrong.List(t.Context(), "", ""); !errors.Is(err, replica.ErrNoLineage) || lerr != nil || len(page) > 0 {
					t.Fatalf("%s: opened with an empty bucket: %v; it has %v, %v", mode, err, page, lerr)
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
		if err := Detach(dir, Options{}); err != nil {
			t.Fatal(err)
		}
		e, err := Open(dir, Options{Replica: Replica{Bucket: wrong, Mode: mode}})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// unfit is a bucket with a rule that takes away what is put there.
type unfit struct{ bucket.Bucket }

func (unfit) CheckRules(context.Context, ...string) error { return bucket.ErrUnfit }

// TestReplicaUnfitRules: no store begins in a bucket whose rules take it away, and nothing is put there.
func TestReplicaUnfitRules(t *testing.T) {
	sim := buckettest.NewSim(nil)
	_, err := Open(filepath.Join(t.TempDir(), "s"), Options{Replica: Replica{Bucket: unfit{sim.Client("m")}}})
	if !errors.Is(err, bucket.ErrUnfit) || errors.Is(err, replica.ErrAway) {
		t.Errorf("opened: %v", err)
	}
	for _, c := range sim.History() {
		if c.Op == buckettest.Put {
			t.Errorf("it puts %s", c.Key)
		}
	}
}

// TestReplicaAges commits for a long time, while nobody asks for the lag: the ages do not grow, neither with a bucket that follows
// nor with one that is away.
func TestReplicaAges(t *testing.T) {
	sim := buckettest.NewSim(nil)
	e, err := Open(filepath.Join(t.TempDir(), "s"), Options{Replica: Replica{Bucket: sim.Client("m"), Interval: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	r := e.replica
	past := func() { // all that was given was given a second earlier
		r.mu.Lock()
		defer r.mu.Unlock()
		for i := range r.ages {
			r.ages[i].since = r.ages[i].since.Add(-time.Second)
		}
	}
	for i := range 10 {
		putKey(t, e, fmt.Sprint(i))
		if err := r.leader.Wait(t.Context(), e.Index.LSN()); err != nil {
			t.Fatal(err)
		}
		past()
	}
	if n := len(r.ages); n > 1 {
		t.Errorf("%d ages of what the bucket has", n)
	}
	sim.Disconnect("m")
	r.mu.Lock()
	for range 3 * mostAges {
		if n := len(r.ages); n > 0 {
			r.ages[n-1].since = r.ages[n-1].since.Add(-time.Minute)
		}
		r.age(e.Index.LSN() + 1)
	}
	n, oldest := len(r.ages), time.Since(r.ages[0].since)
	r.mu.Unlock()
	if n > mostAges || oldest < time.Minute {
		t.Errorf("%d ages, the oldest of %v", n, oldest)
	}
	sim.Connect("m")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestReplicaBoundedClose closes a store in mode Bounded while a commit waits for a bucket that is away: the commit ends, however far
// off its deadline is.
func TestReplicaBoundedClose(t *testing.T) {
	sim := buckettest.NewSim(nil)
	e, err := Open(filepath.Join(t.TempDir(), "s"), Options{Replica: Replica{Bucket: sim.Client("m"), Mode: replica.Bounded, Interval: time.Millisecond,
		MaxLag: time.Millisecond, Deadline: 20 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	<-e.replica.seeded
	sim.Stall("m")
	putKey(t, e, "first")
	for e.replica.lag().Age <= time.Millisecond {
		time.Sleep(time.Millisecond)
	}
	if err := e.Enter(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, _, err := e.replica.admit(context.Background())
		e.Leave()
		done <- err
	}()
	closed := make(chan error, 1)
	go func() { closed <- e.Close() }()
	if err := <-done; !errors.Is(err, fault.ErrClosed) {
		t.Error(err)
	}
	sim.Resume("m")
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// TestReplicaGetsAll has a store that never syncs by itself: its bucket gets what is committed all the same.
func TestReplicaGetsAll(t *testing.T) {
	for _, mode := range []wal.Mode{wal.SyncAlways, wal.SyncInterval, wal.SyncNever} {
		for _, deferred := range []bool{false, true} {
			e, err := Open(filepath.Join(t.TempDir(), "s"), Options{Sync: mode, SyncInterval: time.Millisecond,
				Replica: Replica{Bucket: buckettest.NewSim(nil), Mode: replica.Bounded, Interval: time.Millisecond}})
			if err != nil {
				t.Fatal(err)
			}
			v, err := NewValue([]byte("v"))
			if err == nil {
				err = e.CommitWith(t.Context(), CommitOptions{Deferred: deferred}, []string{"p"}, func(tx *Tx) error {
					return tx.Put("p", "k", 0, []SlotIn{{Name: "v", Value: &v}})
				})
			}
			if err == nil {
				err = e.replica.leader.Wait(deadline(t, 20*time.Second), 1)
			}
			if err != nil {
				t.Fatalf("mode %v, deferred %v: %v", mode, deferred, err)
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestReplicaShortLives has processes that live for less than PointEvery, one after the other: they make points, too.
func TestReplicaShortLives(t *testing.T) {
	dir, sim := filepath.Join(t.TempDir(), "s"), buckettest.NewSim(nil)
	later := time.Duration(0) // between lives
	o := Options{Replica: Replica{Bucket: sim, Interval: time.Millisecond, PointEvery: 24 * time.Hour},
		Clock: func() time.Time { return time.Now().Add(later) }}
	points := func() int {
		st, err := replica.ReadStatus(t.Context(), replica.Options{Bucket: sim})
		if err != nil {
			t.Fatal(err)
		}
		return len(st.Points)
	}
	life := func(key string, want int) {
		e, err := Open(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		<-e.replica.seeded
		if key != "" {
			putKey(t, e, key)
		}
		for until := time.Now().Add(20 * time.Second); points() < want; {
			if time.Sleep(time.Millisecond); time.Now().After(until) {
				t.Fatalf("%d points, and the newest is older than PointEvery", points())
			}
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		if n := points(); n != want {
			t.Fatalf("%d points, %d are wanted", n, want)
		}
		later += 48 * time.Hour
	}
	life("a", 1)
	life("", 2)
	life("", 2) // there is nothing new
}

// TestReplicaIdleLives opens a store often, and writes nothing: HEAD, which is written again for each renewal of the lease and has a
// largest size, does not grow.
func TestReplicaIdleLives(t *testing.T) {
	dir, sim := filepath.Join(t.TempDir(), "s"), buckettest.NewSim(nil)
	var sizes []int64
	for range 12 {
		e, err := Open(dir, Options{Replica: Replica{Bucket: sim}})
		if err != nil {
			t.Fatal(err)
		}
		<-e.replica.seeded
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		h, err := sim.Get(t.Context(), "head", bucket.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, h.Size)
	}
	if n := len(sizes); sizes[n-1] > sizes[1]+20 { // numbers have more digits
		t.Errorf("HEAD grows: %v", sizes)
	}
}

// TestReplicaPointAway makes a point while the bucket is away: it gives up, since no file of the store is removed meanwhile.
func TestReplicaPointAway(t *testing.T) {
	sim := buckettest.NewSim(nil)
	e, err := Open(filepath.Join(t.TempDir(), "s"), Options{Replica: Replica{Bucket: sim.Client("m"),
		Interval: time.Millisecond, Deadline: 20 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	<-e.replica.seeded
	sim.Stall("m")
	putKey(t, e, "k")
	ctx := deadline(t, 20*time.Second)
	if err := e.replica.makePoint(ctx); !errors.Is(err, fault.ErrOutcomeUnknown) || ctx.Err() != nil {
		t.Errorf("%v, %v", err, ctx.Err())
	}
	sim.Resume("m")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestReplicaPointAgain has a bucket that fails while it gets the files of a point: the next try stores only what is not there.
func TestReplicaPointAgain(t *testing.T) {
	fail := false
	sim := buckettest.NewSim(func(c buckettest.Call) buckettest.Fate {
		if fail && c.Op == buckettest.Put && strings.Contains(c.Key, "-manifest-") {
			return buckettest.NotApplied
		}
		return buckettest.Applied
	})
	fs := crashfs.New()
	e, err := Open("store", Options{FS: fs, Inline: true, ManualWork: true, Replica: Replica{Bucket: sim.Client("m")}})
	if err != nil {
		t.Fatal(err)
	}
	putKey(t, e, "k")
	if err := e.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, fail = range []bool{true, true, false} {
		if err := e.replica.makePoint(t.Context()); (err != nil) != fail {
			t.Fatal(err)
		}
	}
	found := map[string]int{}
	entries, err := sim.List(t.Context(), "file/", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range entries {
		_, name, _ := strings.Cut(f.Key[strings.LastIndexByte(f.Key, '/')+1:], "-")
		if found[name]++; found[name] > 1 {
			t.Errorf("%s is stored %d times", name, found[name])
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := RestoreStore(t.Context(), sim, filepath.Join(t.TempDir(), "r"), 0, time.Time{}, Options{})
	if err != nil || got != 1 {
		t.Fatalf("restored %d, %v", got, err)
	}
}

// TestReplicaSeedsAnyEnd seeds a bucket from a store that crashed anywhere, while files of its log began and ended.
func TestReplicaSeedsAnyEnd(t *testing.T) {
	t.Parallel()
	fs := crashfs.New()
	o := Options{FS: fs, Inline: true, ManualWork: true, LogFileSize: minLogFile}
	e, err := Open("store", o)
	if err != nil {
		t.Fatal(err)
	}
	began := fs.Len()
	for i := range 4 {
		putKey(t, e, fmt.Sprint(i))
		if i == 1 {
			err = e.Flush(t.Context())
		} else {
			err = e.log.Rotate(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for cut := began; cut <= fs.Len(); cut += race.Every {
		for s := range fs.States(cut, crashfs.Options{Seed: 1, Random: 1}) {
			sim := buckettest.NewSim(nil)
			o := o
			o.FS, o.Replica = s.FS(), Replica{Bucket: sim, Mode: replica.Sync}
			e, err := Open("store", o)
			if err != nil {
				t.Fatalf("after %d operations: %v", cut, err)
			}
			n := e.Index.LSN()
			leave(e)
			got, err := RestoreStore(t.Context(), sim, "restored", 0, time.Time{}, Options{FS: crashfs.New()})
			if err != nil || got != n {
				t.Fatalf("after %d operations: restored %d of %d records, %v", cut, got, n, err)
			}
		}
	}
}

// TestReplicaLongClose has a Close that takes longer than it may wait for the bucket, and does not wait for it: the lease is given
// back, and the bucket has all.
func TestReplicaLongClose(t *testing.T) {
	t.Parallel()
	sim := buckettest.NewSim(nil)
	e, err := Open(filepath.Join(t.TempDir(), "s"), Options{Replica: Replica{Bucket: sim, Interval: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	e.replica.patience = 2 * time.Second
	putKey(t, e, "k")
	if err := e.Enter(); err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- e.Close() }()
	sleep(e.replica.ctx, 3*time.Second) // a call in progress
	e.Leave()
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	st, err := replica.ReadStatus(t.Context(), replica.Options{Bucket: sim})
	if err != nil || !st.Released || st.End.LSN != 1 {
		t.Fatalf("%+v, %v", st, err)
	}
}

// TestReplicaGetsLargeBatches gives the bucket at once more than one batch may have, as a log does whose files are large and that is synced
// late.
func TestReplicaGetsLargeBatches(t *testing.T) {
	e, err := Open(filepath.Join(t.TempDir(), "s"), Options{ManualWork: true, Replica: Replica{Bucket: buckettest.NewSim(nil)}})
	if err != nil {
		t.Fatal(err)
	}
	records := slices.Repeat([][]byte{make([]byte, givenBytes)}, replica.MaxBatch/givenBytes+1)
	if err := e.replica.give(1, records); err != nil {
		t.Error(err)
	}
	leave(e)
}

// TestReplicaIsNotEncryptedLater: a store whose bucket has its log as it is does not become one whose keys the bucket must not
// know. It is as it was, and opens with its bucket.
func TestReplicaIsNotEncryptedLater(t *testing.T) {
	dir, o := filepath.Join(t.TempDir(), "s"), Options{Replica: Replica{Bucket: buckettest.NewSim(nil)}}
	for _, with := range []Options{o, {Replica: o.Replica, Keys: &turningKeys{fixed: "key0"}, EncryptExisting: true}, o} {
		e, err := Open(dir, with)
		if with.EncryptExisting {
			if !errors.Is(err, fault.ErrReplicated) {
				t.Fatalf("it is encrypted: %v", err)
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

// TestSyncNeedsBucket: options without a bucket have no replica, whatever else they say of it, and reads go on.
func TestSyncNeedsBucket(t *testing.T) {
	e, err := Open(filepath.Join(t.TempDir(), "s"), Options{Replica: Replica{Mode: replica.Sync}})
	if err != nil {
		t.Fatal(err)
	}
	putKey(t, e, "k")
	if err := e.Current(t.Context()); err != nil {
		t.Error(err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// TestStaleLeader: a leader that does not get its lease in time says so, and not that its caller has no time left: who has may try again.
func TestStaleLeader(t *testing.T) {
	sim := buckettest.NewSim(nil)
	var ahead atomic.Int64
	began := time.Now()
	e, err := Open(filepath.Join(t.TempDir(), "s"), Options{Replica: Replica{Bucket: sim.Client("m"), Mode: replica.Sync, TTL: time.Hour,
		Clock: func() time.Duration { return time.Since(began) + time.Duration(ahead.Load()) }}})
	if err != nil {
		t.Fatal(err)
	}
	<-e.replica.seeded
	sim.Stall("m")
	ahead.Add(int64(time.Hour))
	e.replica.o.Deadline = time.Millisecond
	err = e.Current(t.Context())
	if !errors.Is(err, fault.ErrStale) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if err := e.Current(WithoutLease(t.Context())); err != nil {
		t.Errorf("without the lease: %v", err)
	}
	sim.Resume("m")
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// TestSyncReplicaClose closes a store while a SyncReplica waits for a bucket that is away: it ends at once, and Close goes on.
func TestSyncReplicaClose(t *testing.T) {
	sim := buckettest.NewSim(nil)
	e, err := Open(filepath.Join(t.TempDir(), "s"), Options{Replica: Replica{Bucket: sim.Client("m"), Interval: time.Millisecond, Deadline: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	<-e.replica.seeded
	e.replica.patience = time.Hour // Close ends because the bucket is back
	sim.Stall("m")
	putKey(t, e, "k")
	if err := e.Enter(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		err := e.replica.awaitAll(ctx)
		e.Leave()
		done <- err
	}()
	closed := make(chan error, 1)
	go func() { closed <- e.Close() }()
	if err := <-done; !errors.Is(err, fault.ErrOutcomeUnknown) || ctx.Err() != nil {
		t.Errorf("%v, %v", err, ctx.Err())
	}
	sim.Resume("m")
	if err := <-closed; err != nil {
		t.Error(err)
	}
}
