package disk_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stele-go/stele/saver"
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
