package bolt_test

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/savertest"
	"github.com/stele-go/stele/test/bolt"
	"github.com/stele-go/stele/test/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a file, which is closed with the test.
func open(t *testing.T, path string, opts bolt.Options) *bolt.Saver {
	t.Helper()
	s, err := bolt.Open(path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// file is the path of a file that is not there yet.
func file(t *testing.T) string { return filepath.Join(t.TempDir(), "threads") }

func TestConformance(t *testing.T) {
	savertest.RunWith(t, func(t *testing.T) saver.Saver {
		return bolt.Unsynced(open(t, file(t), bolt.Options{}))
	}, savertest.Options{Without: []savertest.Power{savertest.PowerEraser}})
}

// TestModel runs random programs on the saver and on the one in memory: every answer must be the
// same, also when the file was closed and opened in between.
func TestModel(t *testing.T) {
	model.Run(t, "bbolt", func(env model.Env) (model.Subject, error) {
		path := file(t)
		var s *bolt.Saver
		open := func() (saver.Saver, error) {
			var err error
			if s, err = bolt.Open(path, bolt.Options{Clock: env.Clock, Random: env.Random, DeletedMemory: env.DeletedMemory}); err != nil {
				return nil, err
			}
			return bolt.Unsynced(s), nil
		}
		first, err := open()
		env.Cleanup(func() { _ = s.Close() })
		return model.Subject{Saver: first, Reopen: func() (saver.Saver, error) {
			if err := s.Close(); err != nil {
				return nil, err
			}
			return open()
		}}, err
	})
}

// put stores checkpoint id of thread t, with a value that is its id.
func put(t *testing.T, s saver.Saver, id, parent string) error {
	t.Helper()
	versions := map[string]saver.Version{"ch": saver.StringVersion(id)}
	cp := saver.Checkpoint{V: 4, ID: id, Versions: versions, Values: map[string]saver.Value{"ch": saver.ValueOf(id)}}
	_, err := s.Put(t.Context(), saver.Config{ThreadID: "t", CheckpointID: parent}, cp, nil, versions)
	return err
}

func mustPut(t *testing.T, s saver.Saver, id, parent string) {
	t.Helper()
	if err := put(t, s, id, parent); err != nil {
		t.Fatal(err)
	}
}

// TestOneProcess: who opens the file a second time is told so at once, and what is stored is
// there for the next who opens it.
func TestOneProcess(t *testing.T) {
	path := file(t)
	s := open(t, path, bolt.Options{})
	mustPut(t, s, "c1", "")
	lease, err := s.Own(t.Context(), "t", false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bolt.Open(path, bolt.Options{}); !errors.Is(err, fault.ErrLocked) {
		t.Fatalf("open again: %v", err)
	}
	before, err := s.GetTuple(t.Context(), saver.Config{ThreadID: "t"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := before.Checkpoint.Values["ch"].Any(); !errors.Is(err, saver.ErrClosed) {
		t.Errorf("a value after Close: %v", err)
	}
	s = open(t, path, bolt.Options{})
	after, err := s.GetTuple(t.Context(), saver.Config{ThreadID: "t"})
	if err != nil {
		t.Fatal(err)
	}
	if v, err := after.Checkpoint.Values["ch"].Any(); v != "c1" || err != nil {
		t.Errorf("value %v, %v", v, err)
	}
	if !reflect.DeepEqual(after.Checkpoint.Versions, before.Checkpoint.Versions) {
		t.Errorf("versions %v, and before %v", after.Checkpoint.Versions, before.Checkpoint.Versions)
	}
	// The lease ended with its process, and its epoch is never used again.
	if _, err := s.CountAttempt(t.Context(), saver.Config{ThreadID: "t", Epoch: lease.Epoch()}); !errors.Is(err, saver.ErrFenced) {
		t.Errorf("the epoch of a lease of before: %v", err)
	}
	again, err := s.Own(t.Context(), "t", false)
	if err != nil || again.Epoch() <= lease.Epoch() {
		t.Errorf("epoch %d after %d, %v", again.Epoch(), lease.Epoch(), err)
	}
}

// TestNothingIsLeft: removals free the values that nothing reads, and of a thread that is gone
// nothing stays but its deletion, for as long as that is remembered.
func TestNothingIsLeft(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	s := bolt.Unsynced(open(t, file(t), bolt.Options{Clock: func() time.Time { return now }, DeletedMemory: time.Hour}))
	values := func(want int) {
		t.Helper()
		if n, err := s.Values("t", ""); n != want || err != nil {
			t.Errorf("%d values, %v; want %d", n, err, want)
		}
	}
	for i, id := range []string{"c1", "c2", "c3", "c3"} {
		mustPut(t, s, id, []string{"", "c1", "c2", "c2"}[i])
	}
	values(3) // one was replaced
	if rep, err := s.Retain(t.Context(), saver.RetentionPolicy{KeepLast: 2}, false); rep.Checkpoints != 1 || err != nil {
		t.Fatal(rep, err)
	}
	values(2)
	if err := s.CopyThread(t.Context(), "t", "copy"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Prune(t.Context(), []string{"t"}, saver.KeepLatest); err != nil {
		t.Fatal(err)
	}
	values(1)
	for _, id := range []string{"t", "copy"} {
		if err := s.DeleteThread(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if threads, deleted, err := s.Keys(); threads != 0 || deleted != 2 || err != nil {
		t.Errorf("%d keys of threads and %d of deletions, %v", threads, deleted, err)
	}
	if err := put(t, s, "c4", "c3"); !errors.Is(err, saver.ErrThreadDeleted) {
		t.Errorf("put upon a deleted checkpoint: %v", err)
	}
	now = now.Add(time.Hour + time.Microsecond)
	if _, err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if threads, deleted, err := s.Keys(); threads != 0 || deleted != 0 || err != nil {
		t.Errorf("%d keys of threads and %d of deletions, %v", threads, deleted, err)
	}
	mustPut(t, s, "c4", "c3")
}

// TestFailedCommit: after a commit that failed nothing is written any more, Sync says so, and
// what was stored before can be read.
func TestFailedCommit(t *testing.T) {
	path := file(t)
	s := bolt.Unsynced(open(t, path, bolt.Options{}))
	mustPut(t, s, "c1", "")
	s.Fill()
	big := saver.Checkpoint{V: 4, ID: "c2", Versions: map[string]saver.Version{"ch": saver.IntVersion(2)}, Values: map[string]saver.Value{"ch": saver.ValueOf(make([]byte, 1<<20))}}
	if _, err := s.Put(t.Context(), saver.Config{ThreadID: "t", CheckpointID: "c1"}, big, nil, big.Versions); !errors.Is(err, fault.ErrPoisoned) {
		t.Fatalf("put into a full file: %v", err)
	}
	if err := s.Sync(t.Context()); !errors.Is(err, fault.ErrPoisoned) {
		t.Errorf("sync: %v", err)
	}
	if err := put(t, s, "c3", "c1"); !errors.Is(err, fault.ErrPoisoned) {
		t.Errorf("put: %v", err)
	}
	head := func(s *bolt.Saver) {
		t.Helper()
		tup, err := s.GetTuple(t.Context(), saver.Config{ThreadID: "t"})
		if err != nil || tup.Config.CheckpointID != "c1" {
			t.Errorf("head %+v, %v", tup, err)
		}
	}
	head(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = bolt.Unsynced(open(t, path, bolt.Options{}))
	head(s)
	mustPut(t, s, "c2", "c1")
}

// TestWaitingForAWriterEnds: a call waits for other writers no longer than its context lasts,
// and has then written nothing.
func TestWaitingForAWriterEnds(t *testing.T) {
	s := bolt.Unsynced(open(t, file(t), bolt.Options{}))
	mustPut(t, s, "c1", "")
	ctx, cancel := context.WithCancel(t.Context())
	err := s.Hold(func() error {
		ended := make(chan error, 1)
		go func() { ended <- s.DeleteThread(ctx, "t") }()
		cancel()
		return <-ended
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a call that waits: %v", err)
	}
	if _, err := s.GetTuple(t.Context(), saver.Config{ThreadID: "t"}); err != nil {
		t.Error(err)
	}
}
