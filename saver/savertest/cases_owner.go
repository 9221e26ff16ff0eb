package savertest

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/stele-go/stele/saver"
)

// own tries to own a thread without waiting for it.
func (e *env) own(threadID string) (*saver.Lease, error) {
	e.Helper()
	return e.s.Own(e.ctx, threadID, false)
}

// owns is own of a thread that must be free.
func (e *env) owns(threadID string) *saver.Lease {
	e.Helper()
	lease, err := e.own(threadID)
	e.ok("own "+threadID, err)
	e.equal("the thread of the lease", lease.ThreadID(), threadID)
	return lease
}

// fenced checks that nothing can be written with the epoch of a lease that is gone, and
// that nothing was.
func (e *env) fenced(head saver.Config, epoch int64) {
	e.Helper()
	refused := func(what string, err error) {
		e.Helper()
		e.fails(what, err, saver.ErrFenced)
		var f *saver.FencedError
		if !errors.As(err, &f) || f.ThreadID != head.ThreadID || f.Epoch != epoch {
			e.Fatalf("%s: error %v (%T) is no FencedError of thread %q and epoch %d", what, err, err, head.ThreadID, epoch)
		}
	}
	at := head
	at.Epoch = epoch
	e.unchanged("a call with an epoch that is gone", func() {
		cp := saver.Checkpoint{V: 4, ID: "999999", Versions: map[string]saver.Version{}}
		_, err := e.s.Put(e.ctx, at, cp, saver.Metadata{}, nil)
		refused("put", err)
		_, err = e.s.PutRequest(e.ctx, saver.PutRequest{Config: at, Checkpoint: cp, Writes: []saver.TaskWrites{
			{TaskID: "task", Writes: []saver.Write{{Channel: "ch", Value: saver.ValueOf(1)}}}}})
		refused("put with writes", err)
		refused("put writes", e.s.PutWrites(e.ctx, at, []saver.Write{{Channel: "ch", Value: saver.ValueOf(1)}}, "late", ""))
		refused("put no writes", e.s.PutWrites(e.ctx, at, nil, "late", ""))
		_, err = e.s.CountAttempt(e.ctx, at)
		refused("count an attempt", err)
		_, err = e.s.DeleteForRuns(e.ctx, []string{"run"}, saver.NewLease(head.ThreadID, epoch, nil, nil, func() {}))
		refused("delete for runs", err)
	})
}

// owned checks that the thread has an owner.
func (e *env) owned(threadID string) {
	e.Helper()
	_, err := e.own(threadID)
	e.fails("own "+threadID, err, saver.ErrConflict)
	var o *saver.OwnedError
	if !errors.As(err, &o) || o.ThreadID != threadID {
		e.Fatalf("error %v (%T) is no OwnedError of thread %q", err, err, threadID)
	}
}

var ownerCases = []testCase{
	{id: "owner", name: "one at a time, thread by thread", fn: func(e *env) {
		first := e.owns("t")
		e.owned("t")
		other := e.owns("u")
		first.Release()
		e.owned("u")
		second := e.owns("t")
		first.Release() // once more does nothing
		e.owned("t")
		second.Release()
		other.Release()
		e.owns("t").Release()
		e.owns("u").Release()
	}},
	{id: "owner", name: "it binds nobody else", fn: func(e *env) {
		defer e.owns("t").Release()
		e.chain(1, 2)
		e.write(at(2), "task", "ch", 1)
		e.listed(saver.Query{ThreadID: "t"}, 2, 1)
		e.ok("delete", e.s.DeleteThread(e.ctx, "t"))
		e.owned("t")
	}},
	{id: "owner", name: "who waits gets it, one after another", fn: func(e *env) {
		lease := e.owns("t")
		var inside atomic.Int32
		begun := make(chan struct{}, 8)
		ended := make(chan []error)
		go func() {
			ended <- e.concurrently(8, func(int) error {
				begun <- struct{}{}
				lease, err := e.s.Own(e.ctx, "t", true)
				if err != nil {
					return err
				}
				defer lease.Release()
				if n := inside.Add(1); n != 1 {
					return errors.New("two have the thread")
				}
				inside.Add(-1)
				return nil
			})
		}()
		for range 8 {
			<-begun
		}
		e.owned("t")
		lease.Release()
		for _, err := range <-ended {
			e.ok("wait", err)
		}
		e.owns("t").Release()
	}},
	{id: "owner", name: "waiting ends with the context", fn: func(e *env) {
		lease := e.owns("t")
		ctx, cancel := context.WithCancel(e.ctx)
		ended := make(chan error, 1)
		go func() {
			_, err := e.s.Own(ctx, "t", true)
			ended <- err
		}()
		cancel()
		e.fails("wait", <-ended, context.Canceled)
		lease.Release()
		_, err := e.s.Own(ctx, "t", false)
		e.fails("own", err, context.Canceled)
		e.owns("t").Release()
	}},
	{id: "owner", name: "the owner writes with its epoch", fn: func(e *env) {
		lease := e.owns("t")
		e.equal("held", lease.Held(), true)
		defer func() {
			lease.Release()
			e.equal("held after the release", lease.Held(), false)
		}()
		at := saver.Config{ThreadID: "t", Epoch: lease.Epoch()}
		put, err := e.s.Put(e.ctx, at, saver.Checkpoint{V: 4, ID: id(1)}, saver.Metadata{}, nil)
		e.ok("put", err)
		e.equal("where", put, saver.Config{ThreadID: "t", CheckpointID: id(1)})
		at.CheckpointID = id(1)
		e.ok("put writes", e.s.PutWrites(e.ctx, at, []saver.Write{{Channel: "ch", Value: saver.ValueOf(1)}}, "task", ""))
		n, err := e.s.CountAttempt(e.ctx, at)
		e.ok("count an attempt", err)
		e.equal("attempts", n, 1)
		at.Namespace = "node:1"
		at.CheckpointID = ""
		_, err = e.s.Put(e.ctx, at, saver.Checkpoint{V: 4, ID: id(1)}, saver.Metadata{}, nil)
		e.ok("put in another namespace", err)
		tup, err := e.s.GetTuple(e.ctx, saver.Config{ThreadID: "t", CheckpointID: id(1), Epoch: 1 << 40})
		e.ok("reads ignore epochs", err)
		e.equal("where", tup.Config, saver.Config{ThreadID: "t", CheckpointID: id(1)})
		e.pending(tup, "task", "ch", 1)
		_, err = e.s.DeleteForRuns(e.ctx, []string{"run"}, lease)
		e.ok("delete for runs", err)
	}},
	{id: "owner", name: "an epoch that is gone writes nothing", fn: func(e *env) {
		e.chain(1, 2)
		first := e.owns("t")
		other := e.owns("u")
		first.Release()
		e.fenced(at(2), first.Epoch()) // nobody has the thread
		second := e.owns("t")
		if second.Epoch() <= first.Epoch() || first.Epoch() <= 0 {
			e.Fatalf("epochs %d, %d do not grow", first.Epoch(), second.Epoch())
		}
		e.fenced(at(2), first.Epoch()) // another has it
		e.fenced(at(2), second.Epoch()+1)
		e.fenced(at(2), -1)
		e.fenced(at(2), other.Epoch())  // of another thread
		e.write(at(2), "task", "ch", 1) // without an epoch
	}},
	{id: "owner", name: "epochs outlive the thread", fn: func(e *env) {
		e.chain(1, 2)
		first := e.owns("t")
		first.Release()
		e.ok("delete", e.s.DeleteThread(e.ctx, "t"))
		_, err := e.s.Sweep(e.ctx)
		e.ok("sweep", err)
		second := e.owns("t")
		if second.Epoch() <= first.Epoch() {
			e.Fatalf("epochs %d, %d do not grow", first.Epoch(), second.Epoch())
		}
		e.put(step{id: id(3)})
		e.fenced(at(3), first.Epoch())
	}},
}
