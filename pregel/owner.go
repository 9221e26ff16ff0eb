package pregel

import (
	"context"
	"errors"

	"github.com/stele-go/stele/saver"
)

// ownership is a run's claim to be the only one on its thread. Three things guard it. First,
// the saver's Own decides before the thread is loaded, so the loser has done nothing yet. Second, every save has the epoch of
// the lease: a run that lost the thread to another, because its process was stopped for
// longer than its lease lasts, stores nothing any more. Third, every checkpoint is stored on
// condition that the head is the one this run knows. That catches those who did not ask:
// UpdateState, forks, runs with Options.LangGraph and programs in other languages.
type ownership struct {
	// again: the run lost the thread before and starts over. It waits for the thread.
	again bool
	lease *saver.Lease // nil: nothing to release
	// taken is why the thread is not this run's; only a fork goes on with it.
	taken error
	// head is the newest checkpoint that this run knows. checked: checkpoints are stored on
	// condition that it is still the newest.
	head    string
	checked bool
}

// own acquires the thread for this run. A run that is addressed to a checkpoint may be a fork, which
// only loading it can tell. Then ownHead decides whether a thread that is taken matters.
func (s *saves) own(ctx context.Context, addressed bool) (err error) {
	o := &s.owned
	switch lease := s.run.opts.Lease; {
	case s.run.nested() || s.run.saver == nil:
		return nil
	case lease != nil:
		s.run.lease, s.run.epoch, o.checked = lease, lease.Epoch(), !s.run.ways.langGraph
		return nil
	case s.run.ways.langGraph:
		return nil
	}
	o.checked = true
	// A node that waits for the thread of its own run would wait for ever.
	_, outside := runFrom(ctx)
	wait := o.again && outside != nil
	switch o.lease, err = s.run.saver.Own(ctx, s.run.thread, wait); {
	case err == nil:
		s.run.lease, s.run.epoch = o.lease, o.lease.Epoch()
	case errors.Is(err, ErrConflict):
		o.taken = err
		if addressed {
			return nil
		}
		return err
	case err != nil && ctx.Err() == nil:
		return &PersistError{Op: "own thread " + s.run.thread, Err: err}
	}
	return err
}

// ownHead decides, once the thread is loaded, whether the run may go on: because it owns
// the thread, or because it is a fork. A fork deliberately leaves a checkpoint that is not
// the newest. It goes on beside other runs, which notice when they store their next
// checkpoint.
func (s *saves) ownHead(saved *saver.Tuple, from origin) error {
	o := &s.owned
	if saved != nil {
		o.head = saved.Config.CheckpointID
	}
	if from == originOld || from == originMissing {
		o.checked = false
		return nil
	}
	return o.taken
}

// expected is the head on which the next checkpoint is conditional; nil for no condition.
func (s *saves) expected() *string {
	if !s.owned.checked {
		return nil
	}
	return saver.Head(s.owned.head)
}

// untilLost is ctx until stop is called or the run's lease is lost. Then somebody else may
// be running the thread: what this run stores is refused, and its tasks should not go on.
func (r *runConfig) untilLost(ctx context.Context) (_ context.Context, stop func()) {
	lease := r.lease
	if r.nested() || lease == nil || lease.Lost() == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-lease.Lost():
			cancel(&saver.FencedError{ThreadID: lease.ThreadID(), Epoch: lease.Epoch()})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// fenced is the error of a task that must not run: another process may have taken the thread
// over while this one was stopped, and have run the task already.
func (r *runConfig) fenced() error {
	if r.lease == nil || r.lease.Held() {
		return nil
	}
	return &saver.FencedError{ThreadID: r.thread, Epoch: r.epoch}
}

// disown releases the thread. It is called when the run's saves have ended.
func (s *saves) disown() {
	if s.owned.lease != nil {
		s.owned.lease.Release()
	}
}
