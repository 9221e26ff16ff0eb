package disk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/replica"
	"github.com/stele-go/stele/replica/bucket"
	"github.com/stele-go/stele/replica/bucket/buckettest"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/savertest"
)

// pair is a leader and its follower, with one bucket.
type pair struct {
	root   string
	sim    *buckettest.Sim
	leader *disk.Saver
	opts   disk.Options
}

func newPair(t *testing.T, r disk.Replica) *pair {
	t.Helper()
	return newPairIn(t, r, t.TempDir(), disk.Simulation{})
}

func newPairIn(t *testing.T, r disk.Replica, root string, in disk.Simulation) *pair {
	t.Helper()
	p := &pair{root: root, sim: buckettest.NewSim(nil)}
	r.Bucket, r.Interval = p.sim.Client("leader"), time.Millisecond
	p.opts = disk.Options{Replica: r, Simulation: in}
	p.leader = p.lead(t, "leader")
	return p
}

func (p *pair) lead(t *testing.T, name string) *disk.Saver {
	t.Helper()
	s, err := disk.Open(filepath.Join(p.root, name), p.opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// follow opens a follower, once the bucket can be restored.
func (p *pair) follow(t *testing.T, name string, o disk.Options) (*disk.Saver, error) {
	t.Helper()
	for !p.leader.Health().Replica.Seeded {
		time.Sleep(time.Millisecond)
	}
	o.Replica.Bucket = p.sim.Client("follower")
	if o.Replica.Interval == 0 {
		o.Replica.Interval = 2 * time.Millisecond
	}
	s, err := disk.OpenFollower(filepath.Join(p.root, name), o)
	if err == nil {
		t.Cleanup(func() { _ = s.Close() })
	}
	return s, err
}

func mustFollow(t *testing.T, p *pair, name string, o disk.Options) *disk.Saver {
	t.Helper()
	s, err := p.follow(t, name, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t *testing.T, s *disk.Saver, thread string) {
	t.Helper()
	if _, err := s.Put(t.Context(), saver.Config{ThreadID: thread}, saver.Checkpoint{ID: "1"}, nil, nil); err != nil {
		t.Fatal(err)
	}
}

func has(ctx context.Context, s *disk.Saver, thread string) error {
	_, err := s.GetTuple(ctx, saver.Config{ThreadID: thread})
	return err
}

// TestFollower reads at a follower what is written at the leader, and writes nothing there.
func TestFollower(t *testing.T) {
	p := newPair(t, disk.Replica{})
	put(t, p.leader, "before")
	f := mustFollow(t, p, "follower", disk.Options{})
	for i := range 20 {
		put(t, p.leader, fmt.Sprint("t", i))
		if err := f.Await(t.Context(), p.leader.Stats().LastLSN); err != nil {
			t.Fatal(err)
		}
		if err := has(t.Context(), f, fmt.Sprint("t", i)); err != nil {
			t.Fatal(err)
		}
	}
	before := f.Stats()
	cfg := saver.Config{ThreadID: "t1"}
	_, putErr := f.Put(t.Context(), cfg, saver.Checkpoint{ID: "2"}, nil, nil)
	_, retainErr := f.Retain(t.Context(), saver.RetentionPolicy{KeepLast: 1}, false)
	_, sweepErr := f.Sweep(t.Context())
	_, pruneErr := f.Prune(t.Context(), []string{"t1"}, saver.PruneAll)
	_, countErr := f.CountAttempt(t.Context(), saver.Config{ThreadID: "t1", CheckpointID: "1"})
	for name, err := range map[string]error{
		"Put": putErr, "Retain": retainErr, "Sweep": sweepErr, "Prune": pruneErr, "CountAttempt": countErr,
		"PutWrites":    f.PutWrites(t.Context(), saver.Config{ThreadID: "t1", CheckpointID: "1"}, []saver.Write{{Channel: "c", Value: saver.ValueOf(1)}}, "task", ""),
		"DeleteThread": f.DeleteThread(t.Context(), "t1"), "CopyThread": f.CopyThread(t.Context(), "t1", "u"), "SetTTL": f.SetTTL(t.Context(), "t1", time.Hour),
		"Erase": f.Erase(t.Context(), "t1"), "Flush": f.Flush(t.Context()), "Compact": f.Compact(t.Context()),
	} {
		if !errors.Is(err, fault.ErrFollower) || !errors.Is(err, saver.ErrReadOnly) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after := f.Stats(); after.LastLSN != before.LastLSN || after.LogBytes != before.LogBytes {
		t.Errorf("something was written: %+v, then %+v", before, after)
	}
	if err := f.Sync(t.Context()); err != nil {
		t.Error(err)
	}
	h := f.Health()
	if h.Replica == nil || h.Replica.Follower == nil || h.Replica.Follower.LSN != before.LastLSN || h.Replica.Epoch != 1 || h.Status != metrics.StatusOK {
		t.Errorf("health %+v, %+v", h, h.Replica)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := f.Await(ctx, 1000); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("awaited what is not there: %v", err)
	}
	if err := p.leader.Await(t.Context(), 1000); !errors.Is(err, fault.ErrNotFound) {
		t.Errorf("a leader awaits others: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Await(t.Context(), 1000); !errors.Is(err, saver.ErrClosed) {
		t.Errorf("awaited after Close: %v", err)
	}
}

// TestFollowerRequests counts what a follower asks the bucket for: it lists nothing, and writes nothing but the pin of its seed.
func TestFollowerRequests(t *testing.T) {
	p := newPair(t, disk.Replica{})
	f := mustFollow(t, p, "follower", disk.Options{})
	for i := range 5 {
		put(t, p.leader, fmt.Sprint("t", i))
		if err := f.Await(t.Context(), p.leader.Stats().LastLSN); err != nil {
			t.Fatal(err)
		}
	}
	idle := len(p.sim.History())
	for gets := 0; gets < 20; time.Sleep(time.Millisecond) {
		gets = 0
		for _, c := range p.sim.History()[idle:] {
			if c.Client == "follower" {
				gets++
			}
		}
	}
	heads := 0
	for i, c := range p.sim.History() {
		if c.Client != "follower" {
			continue
		}
		if c.Op == buckettest.Get && i >= idle && c.Key != "head" {
			heads++ // a look at the name of the next chunk
		}
		pin := len(c.Key) > 4 && c.Key[:4] == "pin/"
		if c.Op == buckettest.List || c.Op != buckettest.Get && !pin {
			t.Errorf("%v", c)
		}
	}
	if heads == 0 {
		t.Error("it does not look for the next chunk")
	}
}

// TestFollowerConforms runs the conformance kit on a leader, and reads all that it reads at a follower. An erasure deletes what a
// follower needs that has not caught up, so the kit makes none.
func TestFollowerConforms(t *testing.T) {
	t.Parallel()
	savertest.RunWith(t, func(t *testing.T) saver.Saver {
		in := disk.Simulation{FS: vfs.NewMem(vfs.MemOptions{})}
		p := newPairIn(t, disk.Replica{Mode: replica.Sync}, "stores", in)
		return &readElsewhere{p.leader, p.leader, mustFollow(t, p, "follower", disk.Options{Simulation: in})}
	}, savertest.Options{Without: []savertest.Power{savertest.PowerEraser}})
}

// readElsewhere reads at a follower.
type readElsewhere struct {
	saver.Saver
	leader, f *disk.Saver
}

func (r *readElsewhere) Close() error { return errors.Join(r.leader.Close(), r.f.Close()) }

func (r *readElsewhere) GetTuple(ctx context.Context, cfg saver.Config) (*saver.Tuple, error) {
	if err := r.f.Await(context.WithoutCancel(ctx), r.leader.Stats().LastLSN); err != nil {
		return nil, err
	}
	return r.f.GetTuple(ctx, cfg)
}

func (r *readElsewhere) List(ctx context.Context, q saver.Query) iter.Seq2[*saver.Tuple, error] {
	return func(yield func(*saver.Tuple, error) bool) {
		if err := r.f.Await(context.WithoutCancel(ctx), r.leader.Stats().LastLSN); err != nil {
			yield(nil, err)
			return
		}
		r.f.List(ctx, q)(yield)
	}
}

func (r *readElsewhere) Threads(ctx context.Context, q saver.ThreadQuery) iter.Seq2[saver.ThreadInfo, error] {
	return func(yield func(saver.ThreadInfo, error) bool) {
		if err := r.f.Await(context.WithoutCancel(ctx), r.leader.Stats().LastLSN); err != nil {
			yield(saver.ThreadInfo{}, err)
			return
		}
		r.f.Threads(ctx, q)(yield)
	}
}

func (r *readElsewhere) DeltaChannelHistory(ctx context.Context, cfg saver.Config, channels []string) (map[string]saver.DeltaHistory, error) {
	if err := r.f.Await(context.WithoutCancel(ctx), r.leader.Stats().LastLSN); err != nil {
		return nil, err
	}
	return r.f.DeltaChannelHistory(ctx, cfg, channels)
}

// TestFollowerStale reads at a follower that has not heard of its leader for an hour, and once it has.
func TestFollowerStale(t *testing.T) {
	p := newPair(t, disk.Replica{TTL: 30 * time.Millisecond})
	put(t, p.leader, "t")
	var now atomic.Int64
	f := mustFollow(t, p, "follower", disk.Options{Replica: disk.Replica{Clock: func() time.Duration { return time.Duration(now.Load()) }}})
	if err := f.Await(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	reads := func() (errs []error) {
		errs = append(errs, has(t.Context(), f, "t"))
		for _, err := range f.List(t.Context(), saver.Query{}) {
			errs = append(errs, err)
		}
		for _, q := range []saver.ThreadQuery{{}, {ThreadID: "t"}} {
			for _, err := range f.Threads(t.Context(), q) {
				errs = append(errs, err)
			}
		}
		_, err := f.DeltaChannelHistory(t.Context(), saver.Config{ThreadID: "t"}, []string{"c"})
		return append(errs, err)
	}
	if errs := reads(); len(errs) != 5 || errors.Join(errs...) != nil {
		t.Fatal(errs)
	}
	p.sim.Disconnect("follower")
	for f.Health().Status != metrics.StatusDegraded { // a look that was under way has ended
		time.Sleep(time.Millisecond)
	}
	now.Add(int64(time.Hour))
	errs := reads()
	for _, err := range errs {
		if !errors.Is(err, fault.ErrStale) {
			t.Errorf("a stale read: %v", err)
		}
	}
	if len(errs) != 5 {
		t.Errorf("%d reads", len(errs))
	}
	if h := f.Health(); h.Status != metrics.StatusFailed || !errors.Is(h.Problems[0].Err, fault.ErrStale) {
		t.Errorf("health %+v", h)
	}
	p.sim.Connect("follower")
	for f.Health().Status != metrics.StatusOK {
		time.Sleep(time.Millisecond)
	}
	if errs := reads(); len(errs) != 5 || errors.Join(errs...) != nil {
		t.Fatal(errs)
	}
}

// TestFollowerAway follows while the bucket does not answer, and once it does again.
func TestFollowerAway(t *testing.T) {
	p := newPair(t, disk.Replica{TTL: 30 * time.Millisecond})
	put(t, p.leader, "t")
	f := mustFollow(t, p, "follower", disk.Options{Replica: disk.Replica{MaxStale: time.Hour}})
	if err := f.Await(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	p.sim.Disconnect("follower")
	put(t, p.leader, "u")
	for f.Health().Status != metrics.StatusDegraded {
		time.Sleep(time.Millisecond)
	}
	if err := has(t.Context(), f, "t"); err != nil {
		t.Fatal(err)
	}
	p.sim.Connect("follower")
	if err := f.Await(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	for f.Health().Status != metrics.StatusOK {
		time.Sleep(time.Millisecond)
	}
}

// TestFollowerTakesOver hands a store over to a warm follower: nothing is made anew. It does so while the leader is lost, too.
func TestFollowerTakesOver(t *testing.T) {
	for _, mode := range []replica.Mode{replica.Async, replica.Sync} {
		t.Run(string(mode), func(t *testing.T) {
			p := newPair(t, disk.Replica{Mode: mode, TTL: time.Second})
			for i := range 50 {
				put(t, p.leader, fmt.Sprint("t", i))
			}
			f := mustFollow(t, p, "follower", disk.Options{})
			put(t, p.leader, "last")
			if err := p.leader.Close(); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			asked := len(p.sim.History())
			p.opts.Replica.Bucket = p.sim.Client("second")
			s := p.lead(t, "follower")
			if err := has(t.Context(), s, "last"); err != nil {
				t.Fatal(err)
			}
			put(t, s, "next")
			for _, c := range p.sim.History()[asked:] {
				if c.Op == buckettest.Get && len(c.Key) > 5 && (c.Key[:5] == "file/" || c.Key[:5] == "point") {
					t.Errorf("it was made anew: %v", c)
				}
			}
			// The old leader's directory follows the new one.
			p.leader = s
			old := mustFollow(t, p, "leader", disk.Options{})
			if err := old.Await(t.Context(), s.Stats().LastLSN); err != nil {
				t.Fatal(err)
			}
			if err := has(t.Context(), old, "next"); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestFollowerLosesNothing: what a lost leader acknowledged in mode async, and the bucket may not have, is not given up unless the caller
// says so; a restore says so.
func TestFollowerLosesNothing(t *testing.T) {
	p := newPair(t, disk.Replica{TTL: 20 * time.Millisecond})
	put(t, p.leader, "t")
	f := mustFollow(t, p, "follower", disk.Options{})
	if err := f.Await(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	p.sim.Disconnect("leader")
	put(t, p.leader, "lost")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	p.opts.Replica.Bucket = p.sim.Client("second")
	for range 2 {
		if _, err := disk.Open(filepath.Join(p.root, "follower"), p.opts); !errors.Is(err, replica.ErrLosesTail) {
			t.Fatalf("it leads: %v", err)
		}
	}
	p.opts.Replica.AcceptLoss = true
	s := p.lead(t, "follower")
	put(t, s, "next")
	// The old leader is back. Its directory has a record that nobody else has.
	p.sim.Connect("leader")
	_ = p.leader.Close()
	p.leader = s
	if _, err := p.follow(t, "leader", disk.Options{}); !errors.Is(err, replica.ErrDiverged) {
		t.Fatalf("it follows: %v", err)
	}
	if err := os.WriteFile(filepath.Join(p.root, "leader", "FOLLOWER"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := p.follow(t, "leader", disk.Options{}); !errors.Is(err, replica.ErrDiverged) {
		t.Fatalf("it follows: %v", err)
	}
	rep, err := admin.RejoinBucket(t.Context(), p.sim, filepath.Join(p.root, "leader"), admin.Access{})
	if err != nil || rep.First != 2 {
		t.Fatalf("%+v, %v", rep, err)
	}
	if _, err := os.Stat(filepath.Join(p.root, "leader", "diverged-00000000000000000002.tail")); err != nil {
		t.Error(err)
	}
	old := mustFollow(t, p, "leader", disk.Options{})
	if err := old.Await(t.Context(), s.Stats().LastLSN); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(has(t.Context(), old, "t"), has(t.Context(), old, "next")); err != nil {
		t.Error(err)
	}
	if err := has(t.Context(), old, "lost"); !errors.Is(err, saver.ErrNotFound) {
		t.Errorf("what diverged is there: %v", err)
	}
}

// TestFollowerRefuses opens followers where there is none.
func TestFollowerRefuses(t *testing.T) {
	p := newPair(t, disk.Replica{})
	if _, err := disk.OpenFollower(filepath.Join(p.root, "none"), disk.Options{}); err == nil {
		t.Error("without a bucket")
	}
	if _, err := p.follow(t, "leader", disk.Options{}); !errors.Is(err, fault.ErrLocked) {
		t.Errorf("the directory of the leader: %v", err)
	}
	own, err := disk.Open(filepath.Join(p.root, "own"), disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	put(t, own, "t")
	if err := own.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.follow(t, "own", disk.Options{}); !errors.Is(err, replica.ErrDiverged) {
		t.Errorf("a store of its own: %v", err)
	}
	o := disk.Options{Replica: disk.Replica{Bucket: buckettest.NewSim(nil)}}
	if _, err := disk.OpenFollower(filepath.Join(p.root, "new"), o); !errors.Is(err, replica.ErrNoLineage) {
		t.Errorf("an empty bucket: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(p.root, "foreign"), 0o700); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(p.root, "foreign", "thesis.txt")
	if err := os.WriteFile(name, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := p.follow(t, "foreign", disk.Options{}); !errors.Is(err, fault.ErrNotStore) {
		t.Errorf("a directory of others: %v", err)
	}
	if b, err := os.ReadFile(name); err != nil || string(b) != "mine" {
		t.Errorf("it has %q, %v", b, err)
	}
	f := mustFollow(t, p, "follower", disk.Options{})
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := disk.Open(filepath.Join(p.root, "follower"), disk.Options{}); !errors.Is(err, fault.ErrReplicated) {
		t.Errorf("it opens for writing without the bucket: %v", err)
	}
	o.Replica.Bucket = p.sim
	other := buckettest.NewSim(nil)
	second, err := disk.Open(filepath.Join(p.root, "second"), disk.Options{Replica: disk.Replica{Bucket: other}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = second.Close() }()
	o.Replica.Bucket = other
	if _, err := disk.OpenFollower(filepath.Join(p.root, "follower"), o); !errors.Is(err, replica.ErrOtherStore) {
		t.Errorf("another store's bucket: %v", err)
	}
	if _, err := os.Stat(filepath.Join(p.root, "follower", "LOCK")); errors.Is(err, fs.ErrNotExist) {
		t.Error("it was made anew of another store")
	}
}

// TestFollowerBelowFloor has the leader erase, and drop what a follower would have read next: it says so, and opened again it is made
// anew.
func TestFollowerBelowFloor(t *testing.T) {
	p := newPair(t, disk.Replica{Mode: replica.Sync})
	put(t, p.leader, "t")
	put(t, p.leader, "u")
	f := mustFollow(t, p, "follower", disk.Options{})
	p.sim.Disconnect("follower")
	if err := p.leader.Erase(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	p.sim.Connect("follower")
	if err := f.Await(t.Context(), p.leader.Stats().LastLSN); !errors.Is(err, replica.ErrPointGone) {
		t.Fatalf("awaited what is gone: %v", err)
	}
	if err := f.Following(); !errors.Is(err, replica.ErrPointGone) {
		t.Errorf("it follows: %v", err)
	}
	if h := f.Health(); h.Status != metrics.StatusFailed || !errors.Is(h.Problems[0].Err, replica.ErrPointGone) {
		t.Errorf("health %+v", h)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	notes := filepath.Join(p.root, "follower", "notes.txt")
	if err := os.WriteFile(notes, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	f = mustFollow(t, p, "follower", disk.Options{})
	if _, err := os.Stat(notes); err != nil {
		t.Error(err)
	}
	if err := f.Following(); err != nil {
		t.Error(err)
	}
	if err := has(t.Context(), f, "t"); !errors.Is(err, saver.ErrNotFound) {
		t.Errorf("what was erased is there: %v", err)
	}
	if err := has(t.Context(), f, "u"); err != nil {
		t.Error(err)
	}
}

// BenchmarkHandOver hands a store over between two warm directories. The time is that in which nobody acknowledges: from Close of the
// leader to the first Put at the new one.
func BenchmarkHandOver(b *testing.B) {
	root := b.TempDir()
	bucket, err := bucket.Dir(b.Context(), b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	open := func(name string, how func(string, disk.Options) (*disk.Saver, error)) *disk.Saver {
		s, err := how(filepath.Join(root, name), disk.Options{Replica: disk.Replica{Bucket: bucket, Mode: replica.Sync}})
		if err != nil {
			b.Fatal(err)
		}
		return s
	}
	put := func(s *disk.Saver, i int) {
		_, err := s.Put(b.Context(), saver.Config{ThreadID: fmt.Sprint("t", i%1000)}, saver.Checkpoint{ID: fmt.Sprintf("%09d", i)}, nil, nil)
		if err != nil {
			b.Fatal(err)
		}
	}
	names := [2]string{"a", "b"}
	lead := open(names[0], disk.Open)
	n := 0
	for ; n < 3000; n++ {
		put(lead, n)
	}
	follow := open(names[1], disk.OpenFollower)
	var worst time.Duration
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		put(lead, n)
		b.StartTimer()
		begun := time.Now()
		if err := errors.Join(lead.Close(), follow.Close()); err != nil {
			b.Fatal(err)
		}
		lead = open(names[1-i%2], disk.Open)
		put(lead, n+1)
		worst = max(worst, time.Since(begun))
		b.StopTimer()
		n += 2
		follow = open(names[i%2], disk.OpenFollower)
		b.StartTimer()
	}
	b.ReportMetric(float64(worst.Milliseconds()), "worst-ms")
	if err := errors.Join(follow.Close(), lead.Close()); err != nil {
		b.Fatal(err)
	}
}

// TestFollowerSealed follows an encrypted store, is opened again, takes over, and has no follower without the keys.
func TestFollowerSealed(t *testing.T) {
	keys, err := disk.StaticKeys("k", map[string][]byte{"k": bytes.Repeat([]byte{9}, 32)})
	if err != nil {
		t.Fatal(err)
	}
	p := &pair{root: t.TempDir(), sim: buckettest.NewSim(nil)}
	p.opts = disk.Options{Keys: keys, Replica: disk.Replica{Bucket: p.sim, Mode: replica.Sync}}
	p.leader = p.lead(t, "leader")
	put(t, p.leader, "t")
	if _, err := p.follow(t, "follower", disk.Options{}); !errors.Is(err, fault.ErrKey) {
		t.Fatalf("without the keys: %v", err)
	}
	for _, thread := range []string{"u", "v"} {
		f := mustFollow(t, p, "follower", disk.Options{Keys: keys})
		put(t, p.leader, thread)
		if err := f.Await(t.Context(), p.leader.Stats().LastLSN); err != nil {
			t.Fatal(err)
		}
		if err := has(t.Context(), f, thread); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := p.follow(t, "follower", disk.Options{}); !errors.Is(err, fault.ErrKey) {
			t.Fatalf("without the keys: %v", err)
		}
	}
	if err := p.leader.Close(); err != nil {
		t.Fatal(err)
	}
	s := p.lead(t, "follower")
	put(t, s, "next")
	if err := has(t.Context(), s, "v"); err != nil {
		t.Fatal(err)
	}
}
