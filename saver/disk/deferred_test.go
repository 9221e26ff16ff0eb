package disk_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stele-go/stele/replica/bucket/buckettest"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
)

// Deferred writes are stored and visible at once, cost no sync of their own, and
// are durable with the checkpoint that follows, or after Sync.
func TestDeferSync(t *testing.T) {
	s, err := disk.Open(t.TempDir(), disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx := context.Background()
	put := func(parent saver.Config, id string) saver.Config {
		t.Helper()
		at, err := s.Put(ctx, parent, saver.Checkpoint{V: 4, ID: id}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	deferred := func(at saver.Config, task string) error {
		return s.PutWrites(saver.DeferSync(ctx), at, []saver.Write{{Channel: "c", Value: saver.ValueOf(task)}}, task, "")
	}
	durable := func() bool { st := s.Stats(); return st.DurableLSN == st.LastLSN }
	at := put(saver.Config{ThreadID: "t"}, "c1")
	for _, task := range []string{"a", "b", "c"} {
		if err := deferred(at, task); err != nil {
			t.Fatal(err)
		}
	}
	tup, err := s.GetTuple(ctx, at)
	if err != nil || len(tup.PendingWrites) != 3 {
		t.Fatalf("%+v, %v", tup, err)
	}
	at = put(at, "c2")
	if !durable() {
		t.Errorf("a checkpoint is durable and the writes before it are not: %+v", s.Stats())
	}
	if err := deferred(at, "d"); err != nil {
		t.Fatal(err)
	}
	if err := s.Sync(ctx); err != nil || !durable() {
		t.Errorf("after Sync: %v, %+v", err, s.Stats())
	}
	at, err = s.Put(saver.DeferSync(ctx), at, saver.Checkpoint{V: 4, ID: "c3"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if tup, err := s.GetTuple(ctx, at); err != nil || tup.Config.CheckpointID != "c3" {
		t.Errorf("a deferred checkpoint: %+v, %v", tup, err)
	}
	if err := s.Sync(ctx); err != nil || !durable() {
		t.Errorf("after Sync: %v, %+v", err, s.Stats())
	}
	if err := deferred(saver.Config{ThreadID: "t"}, "e"); !errors.Is(err, saver.ErrInvalid) {
		t.Errorf("deferred writes without a checkpoint: %v", err)
	}
}

// TestDeferSyncReplica: in mode sync a deferred call is seen at once, though the bucket is away. The promise begins with the next call
// that is not deferred, or Sync: both wait for the bucket, which then has all.
func TestDeferSyncReplica(t *testing.T) {
	root, sim := t.TempDir(), buckettest.NewSim(nil)
	s, err := disk.Open(filepath.Join(root, "s"), disk.Options{Replica: disk.Replica{Bucket: sim.Client("m"), Mode: "sync", TTL: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	at, err := s.Put(ctx, saver.Config{ThreadID: "t"}, saver.Checkpoint{ID: "1"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	write := func(ctx context.Context, task string) error {
		return s.PutWrites(ctx, at, []saver.Write{{Channel: "c", Value: saver.ValueOf(task)}}, task, "")
	}
	writes := func(s *disk.Saver) int {
		t.Helper()
		tup, err := s.GetTuple(ctx, saver.Config{ThreadID: "t"})
		if err != nil {
			t.Fatal(err)
		}
		return len(tup.PendingWrites)
	}
	sim.Disconnect("m")
	if err := write(saver.DeferSync(ctx), "a"); err != nil || writes(s) != 1 {
		t.Fatalf("a deferred call, with the bucket away: %v, %d writes are seen", err, writes(s))
	}
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if err := s.Sync(short); err == nil {
		t.Error("Sync does not wait for the bucket")
	}
	sim.Connect("m")
	if err := write(ctx, "b"); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.RestoreBucket(ctx, sim, filepath.Join(root, "r"), admin.Moment{}, admin.BackupOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	r, err := disk.Open(filepath.Join(root, "r"), disk.Options{Replica: disk.Replica{Bucket: sim, Mode: "sync", TTL: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	if n := writes(r); n != 2 {
		t.Errorf("the bucket has %d writes", n)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}
