package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs/crashfs"
	"github.com/stele-go/stele/replica"
	"github.com/stele-go/stele/replica/bucket"
	"github.com/stele-go/stele/replica/bucket/buckettest"
	"github.com/stele-go/stele/wal"
)

// ticks is a clock that goes on by a second whenever it is asked.
type ticks struct{ n atomic.Int64 }

func (c *ticks) tell() time.Time { return time.Unix(1e9+c.n.Add(1), 0) }

// now is what it told last.
func (c *ticks) now() time.Time { return time.Unix(1e9+c.n.Load(), 0) }

// restoredTo restores to a moment, and returns the last record.
func restoredTo(t *testing.T, sim *buckettest.Sim, lsn base.LSN, at time.Time) base.LSN {
	t.Helper()
	got, err := RestoreStore(t.Context(), sim, "restored", lsn, at, Options{FS: crashfs.New()})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestRestoreBehindAnOutage commits while the bucket is away, so that it gets many commits at once and late: each of them is a moment
// all the same.
func TestRestoreBehindAnOutage(t *testing.T) {
	sim, clock := buckettest.NewSim(nil), new(ticks)
	opts := Options{Clock: clock.tell, Replica: Replica{Bucket: sim.Client("m"), Interval: time.Millisecond, queueBytes: 1000}}
	e, err := Open(filepath.Join(t.TempDir(), "s"), opts)
	if err != nil {
		t.Fatal(err)
	}
	<-e.replica.seeded
	sim.Disconnect("m")
	var times []time.Time
	for i := range 300 {
		putKey(t, e, fmt.Sprintf("%03d", i))
		times = append(times, clock.now())
	}
	sim.Connect("m")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	for i := range times {
		if i%23 > 0 && i < 297 { // all take a while
			continue
		}
		want := base.LSN(i + 1)
		if got := restoredTo(t, sim, want, time.Time{}); got != want {
			t.Errorf("restored to record %d: %d", want, got)
		}
		if got := restoredTo(t, sim, 0, times[i]); got != want {
			t.Errorf("restored to the time of record %d: %d", want, got)
		}
	}
}

// TestRestoreWithinATime commits while the clock stands still: each record is a moment all the same.
func TestRestoreWithinATime(t *testing.T) {
	sim := buckettest.NewSim(nil)
	e, err := Open(filepath.Join(t.TempDir(), "s"), Options{Clock: func() time.Time { return time.Unix(1e9, 0) },
		Replica: Replica{Bucket: sim.Client("m"), Interval: time.Millisecond, queueBytes: 1000}})
	if err != nil {
		t.Fatal(err)
	}
	<-e.replica.seeded
	sim.Disconnect("m") // the leader has no room for all, and gets the rest in one batch
	for i := range 40 {
		putKey(t, e, fmt.Sprint(i))
	}
	sim.Connect("m")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	for want := base.LSN(1); want <= 40; want += 3 {
		if got := restoredTo(t, sim, want, time.Time{}); got != want {
			t.Errorf("restored to record %d: %d", want, got)
		}
	}
}

// TestRestoreAmongWriters has commits of several writers that become durable together: each record is a moment. A moment has all commits
// that returned before, and none that began later.
func TestRestoreAmongWriters(t *testing.T) {
	sim, clock := buckettest.NewSim(nil), new(ticks)
	opts := Options{Clock: clock.tell, Sync: wal.SyncInterval, SyncInterval: 2 * time.Millisecond, Replica: Replica{Bucket: sim.Client("m"), Interval: time.Millisecond}}
	e, err := Open(filepath.Join(t.TempDir(), "s"), opts)
	if err != nil {
		t.Fatal(err)
	}
	<-e.replica.seeded
	var mu sync.Mutex
	began, done := map[string]time.Time{}, map[string]time.Time{}
	var work sync.WaitGroup
	for w := range 8 {
		work.Go(func() {
			for i := range 10 {
				key := fmt.Sprint(w, "-", i)
				mu.Lock()
				began[key] = clock.now()
				mu.Unlock()
				if err := tryPut(context.Background(), e, key); err != nil {
					t.Error(err)
				}
				mu.Lock()
				done[key] = clock.now()
				mu.Unlock()
			}
		})
	}
	work.Wait()
	keys := keysOf(t, e)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	for i, key := range keys {
		if i%5 > 0 { // all take a while
			continue
		}
		want := base.LSN(i + 1)
		if got := restoredTo(t, sim, want, time.Time{}); got != want {
			t.Errorf("restored to record %d: %d", want, got)
		}
		if got := restoredTo(t, sim, 0, began[key]); got >= want {
			t.Errorf("record %d is in a moment before it: %d", want, got)
		}
		if got := restoredTo(t, sim, 0, done[key]); got < want {
			t.Errorf("record %d is not in a moment behind it: %d", want, got)
		}
	}
}

// TestPointsWithoutFlush commits little: points are made all the same once they are due, and none for nothing. What is older than
// Replica.Keep goes.
func TestPointsWithoutFlush(t *testing.T) {
	sim := buckettest.NewSim(nil)
	var ahead atomic.Int64
	began := time.Now()
	clock := func() time.Duration { return time.Since(began) + time.Duration(ahead.Load()) }
	opts := Options{Clock: func() time.Time { return began.Add(clock()) }, Replica: Replica{Bucket: sim, Interval: time.Millisecond, PointEvery: time.Hour,
		Keep: 3 * time.Hour, TTL: 24 * time.Hour, Clock: clock}}
	e, err := Open(filepath.Join(t.TempDir(), "s"), opts)
	if err != nil {
		t.Fatal(err)
	}
	<-e.replica.seeded
	points := func() []replica.PointRef {
		refs, err := replica.Points(t.Context(), e.replica.ro)
		if err != nil {
			t.Fatal(err)
		}
		return refs
	}
	if e.replica.pointDue(false) {
		t.Error("a second point is due at once")
	}
	ahead.Add(int64(2 * time.Hour))
	if e.replica.pointDue(false) {
		t.Error("a point is due, and nothing was committed")
	}
	putKey(t, e, "a")
	for n := len(points()); n < 2; n = len(points()) { // made by itself
		time.Sleep(time.Millisecond)
	}
	if n := len(e.manifest.State().Segments); n > 0 {
		t.Errorf("%d segments", n)
	}
	ahead.Add(int64(4 * time.Hour))
	putKey(t, e, "b")
	for points()[0].LSN == 0 { // the floor rises to the second one
		time.Sleep(time.Millisecond)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestReplicaDeposedWhileStarved deposes a leader whose chunks do not get through, but which reads HEAD: it acknowledges nothing more.
func TestReplicaDeposedWhileStarved(t *testing.T) {
	var blocked atomic.Bool
	sim := buckettest.NewSim(func(c buckettest.Call) buckettest.Fate {
		if blocked.Load() && c.Client == "m" && c.Op == buckettest.Put && strings.HasPrefix(c.Key, "e0") {
			return buckettest.NotApplied
		}
		return buckettest.Applied
	})
	opts := Options{Replica: Replica{Bucket: sim.Client("m"), Interval: time.Millisecond, TTL: 50 * time.Millisecond, queueBytes: 1000}}
	e, err := Open(filepath.Join(t.TempDir(), "s"), opts)
	if err != nil {
		t.Fatal(err)
	}
	<-e.replica.seeded
	putKey(t, e, "first")
	if err := e.SyncReplica(t.Context()); err != nil {
		t.Fatal(err)
	}
	blocked.Store(true)
	for i := 0; e.replica.hasAll(); i++ { // until the leader has no room
		putKey(t, e, fmt.Sprint(i))
	}
	at := e.replica.leader.SyncedAt()
	other := e.replica.ro
	other.Bucket, other.Dir, other.Owner = sim.Client("other"), "other", "other"
	f, err := replica.Follow(t.Context(), other, &localChain{from: at.LSN, chains: []replica.Chain{at.Chain}}, at)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.TakeOver(t.Context(), replica.TakeOver{Mode: replica.Async, Force: true, LoseTail: true}, nil); err != nil {
		t.Fatal(err)
	}
	for !e.replica.leader.Lost() { // it reads HEAD when it renews its lease
		time.Sleep(time.Millisecond)
	}
	if err := tryPut(t.Context(), e, "late"); !errors.Is(err, fault.ErrFenced) {
		t.Errorf("it acknowledges: %v", err)
	}
	e.replica.mu.Lock()
	next := e.replica.given + 1
	e.replica.mu.Unlock()
	if err := e.replica.append([]replica.Batch{{First: next, Records: [][]byte{{1}}}}, next); !errors.Is(err, fault.ErrFenced) {
		t.Errorf("what was under way is acknowledged: %v", err)
	}
	<-e.RoleOver()
	if err := e.RoleEnd(); !errors.Is(err, fault.ErrFenced) {
		t.Error(err)
	}
	_ = e.Close() // it has given the log a record that is not there
}

// meeting is a bucket in which the first gets of files of a point wait for one another.
type meeting struct {
	bucket.Bucket
	t    *testing.T
	left atomic.Int64
	all  chan struct{}
	once sync.Once
}

func (m *meeting) Get(ctx context.Context, key string, o bucket.GetOptions) (*bucket.Object, error) {
	if strings.HasPrefix(key, "file/") && o.Length > 0 {
		if m.left.Add(-1) == 0 {
			m.once.Do(func() { close(m.all) })
		}
		select {
		case <-m.all:
		case <-time.After(30 * time.Second):
			m.t.Error("the others do not come")
			m.once.Do(func() { close(m.all) })
		}
	}
	return m.Bucket.Get(ctx, key, o)
}

// TestRestoreTogether restores a point of many files: eight of them are got at the same time.
func TestRestoreTogether(t *testing.T) {
	sim := buckettest.NewSim(nil)
	e, err := Open(filepath.Join(t.TempDir(), "s"), Options{ManualWork: true, LogFileSize: minLogFile, Replica: Replica{Bucket: sim, Interval: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; len(e.manifest.State().Logs) < 12; i++ {
		putKey(t, e, fmt.Sprint(i, strings.Repeat("x", 500)))
	}
	<-e.replica.seeded
	if err := e.replica.makePoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := e.Index.LSN()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	m := &meeting{Bucket: sim, t: t, all: make(chan struct{})}
	m.left.Store(8)
	if got, err := RestoreStore(t.Context(), m, "restored", 0, time.Time{}, Options{FS: crashfs.New()}); err != nil || got != want {
		t.Errorf("restored %d of %d, %v", got, want, err)
	}
}

// stores is a bucket that counts the bytes of files of points.
type stores struct {
	bucket.Bucket
	bytes atomic.Int64
}

func (s *stores) Put(ctx context.Context, key string, body *io.SectionReader, cond bucket.Condition) (bucket.ETag, error) {
	if strings.HasPrefix(key, "file/") {
		s.bytes.Add(body.Size())
	}
	return s.Bucket.Put(ctx, key, body, cond)
}

// TestPointStoresLogOnce has points of a store that does not flush by itself: what is much of its log is stored once, and not again with
// each of them.
func TestPointStoresLogOnce(t *testing.T) {
	to := &stores{Bucket: buckettest.NewSim(nil)}
	var ahead atomic.Int64
	began := time.Now()
	clock := func() time.Duration { return time.Since(began) + time.Duration(ahead.Load()) }
	e, err := Open(filepath.Join(t.TempDir(), "s"), Options{Clock: func() time.Time { return began.Add(clock()) },
		Replica: Replica{Bucket: to, Interval: time.Millisecond, PointEvery: time.Hour, TTL: 24 * time.Hour, Clock: clock}})
	if err != nil {
		t.Fatal(err)
	}
	<-e.replica.seeded
	const much = 4 << 20
	b := make([]byte, much) // which nothing makes smaller
	for i := range b {
		b[i] = byte(e.Opts.Rand())
	}
	v, err := NewValue(b)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Commit(t.Context(), []string{"p"}, func(tx *Tx) error { return tx.Put("p", "much", 0, []SlotIn{{Name: "v", Value: &v}}) }); err != nil {
		t.Fatal(err)
	}
	for n := range 5 {
		putKey(t, e, fmt.Sprint(n))
		ahead.Add(int64(2 * time.Hour))
		for {
			refs, err := replica.Points(t.Context(), e.replica.ro)
			if err != nil {
				t.Fatal(err)
			}
			if len(refs) == n+2 {
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
	if n := to.bytes.Load(); n < much || n > much+much/2 {
		t.Errorf("5 points of %d bytes have stored %d", much, n)
	}
	want := e.Index.LSN()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := RestoreStore(t.Context(), to, "restored", 0, time.Time{}, Options{FS: crashfs.New()}); err != nil || got != want {
		t.Errorf("restored %d of %d, %v", got, want, err)
	}
}

// TestApplyTogether: a follower waits for its disk once for many commits, though each is a moment of its own.
func TestApplyTogether(t *testing.T) {
	sim, clock, root := buckettest.NewSim(nil), new(ticks), t.TempDir()
	e, err := Open(filepath.Join(root, "s"), Options{Clock: clock.tell, Replica: Replica{Bucket: sim.Client("m"), Interval: time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	<-e.replica.seeded
	follow := func() *Engine {
		t.Helper()
		f, err := FollowStore(filepath.Join(root, "f"), Options{Replica: Replica{Bucket: sim}})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	if err := follow().Close(); err != nil { // else it is made by a restore, which does not wait for the disk
		t.Fatal(err)
	}
	sim.Disconnect("m")
	const n = 300
	for i := range n {
		putKey(t, e, fmt.Sprintf("%03d", i))
	}
	sim.Connect("m")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	f := follow()
	if got := f.Index.LSN(); got != n {
		t.Errorf("it has %d records", got)
	}
	if syncs := f.log.Metrics().Syncs; syncs > n/4 {
		t.Errorf("%d syncs for %d records", syncs, n)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestTailIsKeptOnce saves a tail that an earlier build has saved with other batches.
func TestTailIsKeptOnce(t *testing.T) {
	root, sim := t.TempDir(), buckettest.NewSim(nil)
	e, err := Open(filepath.Join(root, "s"), Options{Replica: Replica{Bucket: sim}})
	if err != nil {
		t.Fatal(err)
	}
	<-e.replica.seeded
	keep := func(batches ...replica.Batch) {
		t.Helper()
		b, err := replica.EncodeTail(e.replica.ro, replica.Position{Epoch: 1}, batches)
		if err == nil {
			err = e.keepTail(e.replica.ro, batches, b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	keep(replica.Batch{First: 1, Stamp: 2, Records: [][]byte{{1}, {2}}})
	keep(replica.Batch{First: 1, Stamp: 1, Records: [][]byte{{1}}}, replica.Batch{First: 2, Stamp: 2, Records: [][]byte{{2}}})
	tails := func() int {
		names, err := filepath.Glob(filepath.Join(root, "s", "*"+TailSuffix))
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	if n := tails(); n != 1 {
		t.Errorf("%d files of the same records", n)
	}
	keep(replica.Batch{First: 1, Stamp: 2, Records: [][]byte{{1}, {3}}})
	if n := tails(); n != 2 {
		t.Errorf("%d files of two tails", n)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestBatchesAreMoments: what becomes durable together is given in batches of one time each, and one begins at a cut.
func TestBatchesAreMoments(t *testing.T) {
	r := newReplication(&Engine{Store: &Store{}})
	r.cut.Store(15)
	var records [][]byte
	for _, at := range []int64{1, 1, 2, 3, 3, 3, 2} {
		records = append(records, appendRecordHeader(nil, &logRecord{time: at}))
	}
	batches, n := r.batch(11, records)
	if n != len(records) {
		t.Errorf("%d records of %d", n, len(records))
	}
	want := []replica.Batch{{First: 11, Stamp: 1, Records: records[:2]}, {First: 13, Stamp: 2, Records: records[2:3]}, {First: 14, Stamp: 3, Records: records[3:4]},
		{First: 15, Stamp: 3, Cut: true, Records: records[4:6]}, {First: 17, Stamp: 2, Records: records[6:]}}
	if !reflect.DeepEqual(batches, want) {
		t.Errorf("%v, and %v is wanted", batches, want)
	}
}
