package disk_test

import (
	"context"
	"errors"
	"iter"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/replica"
	"github.com/stele-go/stele/replica/bucket/buckettest"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/savertest"
	"github.com/stele-go/stele/store"
)

// TestRestoredConforms runs the conformance kit on stores that were restored from a bucket, and go on in it.
func TestRestoredConforms(t *testing.T) {
	t.Parallel()
	savertest.Run(t, func(t *testing.T) saver.Saver {
		root, sim := t.TempDir(), buckettest.NewSim(nil)
		opts := disk.Options{Replica: disk.Replica{Bucket: sim, Mode: "sync", TTL: time.Minute}}
		d, err := disk.Open("old", opts.In(disk.Simulation{FS: vfs.NewMem(vfs.MemOptions{})}))
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := d.Put(t.Context(), saver.Config{ThreadID: "before"}, saver.Checkpoint{ID: "1"}, nil, nil)
		if err == nil {
			err = d.DeleteThread(t.Context(), cfg.ThreadID)
		}
		if err == nil {
			err = d.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		rep, err := admin.RestoreBucket(t.Context(), sim, filepath.Join(root, "new"), admin.Moment{}, admin.BackupOptions{})
		if err != nil || rep.LastLSN != 2 {
			t.Fatalf("restored %+v, %v", rep, err)
		}
		if d, err = disk.Open(filepath.Join(root, "new"), opts); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		return d
	})
}

// TestSyncReplica: SyncReplica returns when the bucket has what was put before, in each mode; and says that it does not know while the
// bucket is away.
func TestSyncReplica(t *testing.T) {
	for _, mode := range []replica.Mode{"", replica.Async, replica.Bounded, replica.Sync} {
		root, sim := t.TempDir(), buckettest.NewSim(nil)
		var opts disk.Options
		if mode != "" {
			opts.Replica = disk.Replica{Bucket: sim.Client("m"), Mode: mode, Interval: time.Hour, TTL: time.Hour}
		}
		s, err := disk.Open(filepath.Join(root, "s"), opts)
		if err != nil {
			t.Fatal(err)
		}
		put(t, s, "1")
		if err := s.SyncReplica(t.Context()); err != nil {
			t.Fatalf("mode %q: %v", mode, err)
		}
		if mode == replica.Async || mode == replica.Bounded {
			sim.Disconnect("m")
			put(t, s, "2")
			short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			if err := s.SyncReplica(short); !errors.Is(err, saver.ErrOutcomeUnknown) {
				t.Errorf("mode %q: the bucket is away: %v", mode, err)
			}
			cancel()
			sim.Connect("m")
			if err := s.SyncReplica(t.Context()); err != nil {
				t.Errorf("mode %q: the bucket is back: %v", mode, err)
			}
		}
		if mode != "" {
			seeded(s)
			rep, err := admin.RestoreBucket(t.Context(), sim, filepath.Join(root, "r"), admin.Moment{}, admin.BackupOptions{})
			if want := s.Stats().LastLSN; err != nil || rep.LastLSN != want {
				t.Errorf("mode %q: restored %+v, %v, want record %d", mode, rep, err, want)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestReadsHoldTheLease: a leader in mode sync whose lease has ended renews it before it answers a read, and else says
// that its answer may be old; once another leads it says that. Other modes answer, and so does one that may be stale.
func TestReadsHoldTheLease(t *testing.T) {
	for name, c := range map[string]struct {
		mode     replica.Mode
		maxStale time.Duration
		asks     bool
	}{"sync": {replica.Sync, 0, true}, "sync, stale": {replica.Sync, -1, false}, "async": {replica.Async, 0, false}, "bounded": {replica.Bounded, 0, false}} {
		var ahead atomic.Int64
		root, sim := t.TempDir(), buckettest.NewSim(nil)
		opts := disk.Options{Replica: disk.Replica{Bucket: sim.Client("m"), Mode: c.mode, Interval: time.Millisecond, TTL: ttl, MaxStale: c.maxStale,
			Clock: func() time.Duration { return time.Since(started) + time.Duration(ahead.Load()) }}}
		s, err := disk.Open(filepath.Join(root, "s"), opts.In(disk.Simulation{Inline: true})) // it tries once
		if err != nil {
			t.Fatal(err)
		}
		items, err := store.On(s, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		seeded(s)
		put(t, s, "t")
		if err := items.Put(t.Context(), store.Namespace{"n"}, "k", map[string]any{"x": 1}); err != nil {
			t.Fatal(err)
		}
		if err := s.SyncReplica(t.Context()); err != nil {
			t.Fatal(err)
		}
		first := func(list iter.Seq2[*saver.Tuple, error]) (err error) {
			for _, err = range list {
				break
			}
			return err
		}
		reads := map[string]func(ctx context.Context) error{
			"get":  func(ctx context.Context) error { return has(ctx, s, "t") },
			"list": func(ctx context.Context) error { return first(s.List(ctx, saver.Query{ThreadID: "t"})) },
			"threads": func(ctx context.Context) (err error) {
				for _, err = range s.Threads(ctx, saver.ThreadQuery{ThreadID: "t"}) {
					break
				}
				return err
			},
			"ttl": func(ctx context.Context) error { _, err := s.TTL(ctx, "t"); return err },
			"history": func(ctx context.Context) error {
				_, err := s.DeltaChannelHistory(ctx, saver.Config{ThreadID: "t"}, []string{"c"})
				return err
			},
			"item": func(ctx context.Context) error { _, err := items.Get(ctx, store.Namespace{"n"}, "k"); return err },
			"search": func(ctx context.Context) error {
				_, err := items.Search(ctx, store.Query{Prefix: store.Namespace{"n"}})
				return err
			},
		}
		all := func(when string, want error) {
			t.Helper()
			for what, read := range reads {
				if err := read(t.Context()); !errors.Is(err, want) || want == nil && err != nil {
					t.Errorf("%s: %s, %s: %v, want %v", name, what, when, err, want)
				}
			}
		}
		all("with the lease", nil)
		ahead.Add(int64(ttl))
		all("a lease later", nil)
		sim.Disconnect("m")
		all("the bucket is away", nil)
		if ahead.Add(int64(ttl)); !c.asks {
			all("the lease has ended", nil)
		} else {
			all("the lease has ended", fault.ErrStale)
			if n, err := items.Sweep(t.Context()); n != 0 || err != nil {
				t.Errorf("%s: a sweep asks for the lease: %d, %v", name, n, err)
			}
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			if err := has(gone, s, "t"); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: the caller has gone: %v", name, err)
			}
			sim.Connect("m")
			all("the bucket is back", nil)
			sim.Disconnect("m")
			lead := opts
			lead.Replica.Bucket = sim.Client("other")
			lead.Replica.Clock = func() time.Duration { return time.Duration(ahead.Add(int64(ttl))) }
			if _, err := admin.RestoreBucket(t.Context(), sim, filepath.Join(root, "other"), admin.Moment{}, admin.BackupOptions{}); err != nil {
				t.Fatal(err)
			}
			other, err := disk.Open(filepath.Join(root, "other"), lead)
			if err != nil {
				t.Fatal(err)
			}
			sim.Connect("m")
			all("another leads", fault.ErrFenced)
			if err := other.Close(); err != nil {
				t.Error(err)
			}
		}
		sim.Connect("m")
		_ = errors.Join(items.Close(), s.Close()) // it may be fenced
	}
}

// TestReadsWaitForTheLease: while the bucket is away a read of a leader in mode sync whose lease has ended waits, until its
// caller does not any more, the store is closed, or the bucket is back.
func TestReadsWaitForTheLease(t *testing.T) {
	for _, end := range []string{"the bucket is back", "the caller leaves", "the store is closed"} {
		var ahead atomic.Int64
		sim := buckettest.NewSim(nil)
		s, err := disk.Open(filepath.Join(t.TempDir(), "s"), disk.Options{Replica: disk.Replica{Bucket: sim.Client("m"), Mode: replica.Sync, TTL: ttl, Deadline: ttl,
			Clock: func() time.Duration { return time.Since(started) + time.Duration(ahead.Load()) }}})
		if err != nil {
			t.Fatal(err)
		}
		seeded(s)
		put(t, s, "t")
		sim.Disconnect("m")
		ahead.Add(int64(ttl))
		ctx, leave := context.WithCancel(t.Context())
		read := make(chan error)
		go func() { read <- has(ctx, s, "t") }()
		looks(sim, "m", 1)
		select {
		case err := <-read:
			t.Errorf("%s: it did not wait: %v", end, err)
		default:
		}
		closed := make(chan error, 1)
		var want error
		switch end {
		case "the caller leaves":
			leave()
			want = context.Canceled
		case "the store is closed":
			go func() { closed <- s.Close() }()
			want = saver.ErrClosed
		default:
			sim.Connect("m")
		}
		if err := <-read; !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%s: %v", end, err)
		}
		leave()
		sim.Connect("m")
		if end != "the store is closed" {
			closed <- s.Close()
		}
		if err := <-closed; err != nil {
			t.Errorf("%s: %v", end, err)
		}
	}
}
