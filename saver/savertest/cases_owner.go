package savertest

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/stele-go/stele/saver"
)

// own asks for a thread without waiting for it.
func (e *env) own(threadID string) (release func(), err error) {
	e.Helper()
	return e.s.(saver.Coordinator).Own(e.ctx, threadID, false)
}

// owns is own of a thread that must be free.
func (e *env) owns(threadID string) (release func()) {
	e.Helper()
	release, err := e.own(threadID)
	e.ok("own "+threadID, err)
	return release
}

// owned checks that somebody has the thread.
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
	{id: "owner", name: "one at a time, thread by thread", needs: PowerCoordinator, fn: func(e *env) {
		first := e.owns("t")
		e.owned("t")
		other := e.owns("u")
		first()
		e.owned("u")
		second := e.owns("t")
		first() // once more does nothing
		e.owned("t")
		second()
		other()
		e.owns("t")()
		e.owns("u")()
	}},
	{id: "owner", name: "it binds nobody else", needs: PowerCoordinator, fn: func(e *env) {
		defer e.owns("t")()
		e.chain(1, 2)
		e.write(at(2), "task", "ch", 1)
		e.listed(saver.Query{ThreadID: "t"}, 2, 1)
		e.ok("delete", e.s.DeleteThread(e.ctx, "t"))
		e.owned("t")
	}},
	{id: "owner", name: "who waits gets it, one after another", needs: PowerCoordinator, fn: func(e *env) {
		release := e.owns("t")
		var inside atomic.Int32
		begun := make(chan struct{}, 8)
		ended := make(chan []error)
		go func() {
			ended <- e.concurrently(8, func(int) error {
				begun <- struct{}{}
				release, err := e.s.(saver.Coordinator).Own(e.ctx, "t", true)
				if err != nil {
					return err
				}
				defer release()
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
		release()
		for _, err := range <-ended {
			e.ok("wait", err)
		}
		e.owns("t")()
	}},
	{id: "owner", name: "waiting ends with the context", needs: PowerCoordinator, fn: func(e *env) {
		release := e.owns("t")
		ctx, cancel := context.WithCancel(e.ctx)
		ended := make(chan error, 1)
		go func() {
			_, err := e.s.(saver.Coordinator).Own(ctx, "t", true)
			ended <- err
		}()
		cancel()
		e.fails("wait", <-ended, context.Canceled)
		release()
		_, err := e.s.(saver.Coordinator).Own(ctx, "t", false)
		e.fails("own", err, context.Canceled)
		e.owns("t")()
	}},
}
