package disk_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/methods"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// plausible are arguments with which calls get as far as they can.
var plausible = []any{"t", saver.Config{ThreadID: "t", CheckpointID: "1f0f5200-24f1-6000-8000-bde4e02ab92a"}, saver.Checkpoint{V: 4, ID: "1f0f5200-24f1-6000-8000-bde4e02ab92b"}, []string{"t"},
	saver.PutRequest{Config: saver.Config{ThreadID: "t"}, Checkpoint: saver.Checkpoint{V: 4, ID: "1f0f5200-24f1-6000-8000-bde4e02ab92b"}},
	saver.RetentionPolicy{KeepLast: 1}, saver.PruneAll, []saver.Write{{Channel: "c", Value: saver.ValueOf(1)}}}

func opened(t *testing.T) *disk.Saver {
	s, err := disk.Open("store", disk.Options{}.In(disk.Simulation{FS: vfs.NewMem(vfs.MemOptions{})}))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestAfterClose: every method of a Saver that was closed says so, and none panics or waits.
func TestAfterClose(t *testing.T) {
	s := opened(t)
	if _, err := s.Own(t.Context(), "held", false); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	methods.Closed(t, s, map[string]string{"Close": "a second one does nothing", "NextVersion": "mints, and stores nothing"}, plausible, saver.ErrClosed)
	if _, err := s.Own(t.Context(), "held", true); !errors.Is(err, saver.ErrClosed) {
		t.Errorf("a thread that somebody had: %v", err)
	}
}

// TestOwnEndsWithClose: who waits for a thread is told that the store was closed.
func TestOwnEndsWithClose(t *testing.T) {
	s := opened(t)
	lease, err := s.Own(t.Context(), "t", false)
	if err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() {
		_, err := s.Own(context.Background(), "t", true)
		waited <- err
	}()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; !errors.Is(err, saver.ErrClosed) {
		t.Errorf("the error is %v", err)
	}
	lease.Release()
}

// TestEndedContext: every call whose context has ended fails, and none panics or waits, with arguments
// that make sense and with none.
func TestEndedContext(t *testing.T) {
	s := opened(t)
	defer s.Close()
	methods.Ended(t, s, map[string]string{"Close": "ends the Saver"}, plausible)
}

// TestFollowerAfterClose is TestAfterClose for a follower, of which writes may say that it never took any.
func TestFollowerAfterClose(t *testing.T) {
	writes := map[string]bool{"Compact": true, "CopyThread": true, "CountAttempt": true, "DeleteForRuns": true, "DeleteThread": true, "Flush": true, "Prune": true, "Put": true, "PutRequest": true, "PutWrites": true, "Release": true, "Retain": true, "SetTTL": true, "Sweep": true}
	p := newPair(t, disk.Replica{})
	put(t, p.leader, "t")
	f := mustFollow(t, p, "follower", disk.Options{})
	methods.Ended(t, f, map[string]string{"Close": "ends the Saver"}, plausible)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	methods.Each(t, f, t.Context(), map[string]string{"Close": "a second one does nothing", "NextVersion": "mints, and stores nothing"}, plausible, func(t *testing.T, a methods.Answer) {
		if a.Says && !errors.Is(a.Err, saver.ErrClosed) && !(writes[a.Method] && errors.Is(a.Err, fault.ErrFollower)) { // which it was, too
			t.Errorf("the error is %v", a.Err)
		}
	})
}
