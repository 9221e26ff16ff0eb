package disk_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/group"
)

// changed is a saver that does something else with a checkpoint.
type changed struct{ *disk.Saver }

func (c changed) PutRequest(context.Context, saver.PutRequest) (saver.Config, error) {
	return saver.Config{}, errors.New("not today")
}

// Who embeds a disk saver and changes its PutRequest is asked for each checkpoint.
func TestNoGroupPastAWrapper(t *testing.T) {
	s := openFor(t, "store", disk.Options{ManualWork: true}, disk.Simulation{FS: vfs.NewMem(vfs.MemOptions{}), Inline: true})
	if group.Of(s) == nil {
		t.Error("a disk saver takes no group")
	}
	if group.Of(changed{s}) != nil {
		t.Error("what embeds a disk saver takes a group past its own PutRequest")
	}
	must(t, s.Close())
}

// Checkpoints that are stored at once share a batch and a sync, or with DeferSync none. The first
// that is refused, by what is stored or before anything is looked at, takes those behind it along.
func TestPutGroup(t *testing.T) {
	s := openFor(t, "store", disk.Options{ManualWork: true}, disk.Simulation{FS: vfs.NewMem(vfs.MemOptions{}), Inline: true})
	chain := func(thread string, n int) []saver.PutRequest {
		var reqs []saver.PutRequest
		parent := ""
		for i := range n {
			id, head := fmt.Sprintf("%04d", i), parent
			reqs = append(reqs, saver.PutRequest{Config: saver.Config{ThreadID: thread, CheckpointID: parent, ExpectHead: &head}, Checkpoint: saver.Checkpoint{V: 4, ID: id},
				Metadata: saver.Metadata{"step": i}, Writes: []saver.TaskWrites{{CheckpointID: parent, TaskID: "task", Writes: []saver.Write{{Channel: "x", Value: saver.ValueOf(i)}}}}})
			parent = id
		}
		reqs[0].Writes = nil
		return reqs
	}
	holds := func(thread, head string, n int) {
		t.Helper()
		tup, err := s.GetTuple(t.Context(), saver.Config{ThreadID: thread})
		must(t, err)
		if tup.Config.CheckpointID != head {
			t.Errorf("%s: the head is %s, want %s", thread, tup.Config.CheckpointID, head)
		}
		for _, err := range s.List(t.Context(), saver.Query{ThreadID: thread}) {
			must(t, err)
			n--
		}
		if n != 0 {
			t.Errorf("%s: %d checkpoints too few", thread, n)
		}
	}
	put := func(ctx context.Context, reqs []saver.PutRequest) (int, error) {
		return group.Of(s).PutGroup(ctx, reqs)
	}
	_, err := put(t.Context(), chain("first", 1)) // makes the log's file
	must(t, err)
	for deferred, syncs := range map[bool]int64{false: 1, true: 0} {
		ctx, thread := t.Context(), fmt.Sprint("deferred ", deferred)
		if deferred {
			ctx = saver.DeferSync(ctx)
		}
		before := s.Metrics().Log
		if n, err := put(ctx, chain(thread, 5)); n != 5 || err != nil {
			t.Fatal(n, err)
		}
		m := s.Metrics().Log
		if m.Batches-before.Batches != 1 || m.Syncs-before.Syncs != syncs {
			t.Errorf("deferred %v: %d batches, %d syncs", deferred, m.Batches-before.Batches, m.Syncs-before.Syncs)
		}
		holds(thread, "0004", 5)
	}
	other := "other"
	reqs := chain("conflict", 5)
	reqs[2].Config.ExpectHead = &other
	if n, err := put(t.Context(), reqs); n != 2 || !errors.Is(err, saver.ErrConflict) {
		t.Errorf("conflict: %d, %v", n, err)
	}
	holds("conflict", "0001", 2)
	reqs = chain("invalid", 5)
	reqs[3].Checkpoint.ID = ""
	if n, err := put(t.Context(), reqs); n != 3 || !errors.Is(err, saver.ErrInvalid) {
		t.Errorf("invalid: %d, %v", n, err)
	}
	holds("invalid", "0002", 3)
	must(t, s.Close())
}

// What is too much for one group is left to the next. A group that has to wait for an empty queue of
// the log would wait for as long as others commit.
func TestLargeGroupIsNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openFor(t, "store", disk.Options{ManualWork: true}, disk.Simulation{FS: vfs.NewMem(vfs.MemOptions{})})
		var reqs []saver.PutRequest
		parent, large := "", make([]byte, 4500<<10)
		for i := range 16 { // 70 MiB, and the queue takes 64
			id := fmt.Sprintf("%04d", i)
			reqs = append(reqs, saver.PutRequest{Config: saver.Config{ThreadID: "t", CheckpointID: parent}, Checkpoint: saver.Checkpoint{V: 4, ID: id},
				Writes: []saver.TaskWrites{{CheckpointID: id, TaskID: "task", Writes: []saver.Write{{Channel: "x", Value: saver.ValueOf(large)}}}}})
			parent = id
		}
		e, next := s.Inside().Engine, make(chan bool)
		other := func() {
			_ = e.CommitWith(t.Context(), engine.CommitOptions{Size: 2 << 20}, nil, func(tx *engine.Tx) error { <-next; return tx.Put("other", "k", 0, nil) })
		}
		go other()
		synctest.Wait()
		go other()
		synctest.Wait()
		stored := 0
		go func() {
			for stored < len(reqs) {
				n, err := group.Of(s).PutGroup(t.Context(), reqs[stored:])
				if n == 0 || err != nil {
					t.Error(n, err)
					return
				}
				stored += n
			}
		}()
		for range 40 { // one is always in the queue
			synctest.Wait()
			go other()
			synctest.Wait()
			next <- true
		}
		synctest.Wait()
		if stored != len(reqs) {
			t.Errorf("%d of %d checkpoints are stored", stored, len(reqs))
		}
		close(next)
		synctest.Wait()
		must(t, s.Close())
	})
}
