package pregel

import (
	"context"
	"errors"
	"reflect"
	"sync"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/rules"
)

// ownership is a run's claim to be the only one on its thread. Three things guard it. First,
// the saver's Own, or a table in this process if the saver has none, decides before the
// thread is loaded, so the loser has done nothing yet. Second, every save has the epoch of
// the lease: a run that lost the thread to another, because its process was stopped for
// longer than its lease lasts, stores nothing any more. Third, every checkpoint is stored on
// condition that the head is the one this run knows. That catches those who did not ask:
// UpdateState, forks, Shared runs and programs in other languages.
type ownership struct {
	// again: the run lost the thread before and starts over. It waits for the thread.
	again bool
	lease *saver.Lease // nil: nothing to release
	// under is the lease of this run, of its caller, or of the graph around, and epoch that
	// of it: every save has it. nil and 0 are for forks, shared runs, and savers that know
	// of none.
	under *saver.Lease
	epoch int64
	// taken is why the thread is not this run's; only a fork goes on with it.
	taken error
	// head is the newest checkpoint that this run knows. checked: checkpoints are stored on
	// condition that it is still the newest.
	head    string
	checked bool
}

// own acquires the thread for this run. A run at a named checkpoint may be a fork, which
// only loading it can tell. Then ownHead decides whether a thread that is taken matters.
func (l *loop) own(ctx context.Context) (err error) {
	o := &l.owned
	switch lease := l.opts.Lease; {
	case l.nested() || l.saver == nil:
		return nil
	case lease != nil:
		o.under, o.epoch, o.checked = lease, lease.Epoch(), !l.ways.shared
		return nil
	case l.ways.shared:
		return nil
	}
	o.checked = true
	// A node that waits for the thread of its own run would wait for ever.
	_, outside := runFrom(ctx)
	wait := o.again && outside != nil
	s, ok := l.saver.(saver.Coordinator)
	if ok {
		o.lease, err = s.Own(ctx, l.thread, wait)
	} else {
		o.lease, err = tables.own(ctx, l.g, l.saver, l.thread, wait)
	}
	switch {
	case err == nil && ok:
		o.under, o.epoch = o.lease, o.lease.Epoch()
	case errors.Is(err, ErrConflict):
		o.taken = err
		if l.addressed() {
			return nil
		}
		return err
	case err != nil && ctx.Err() == nil:
		return &PersistError{Op: "own thread " + l.thread, Err: err}
	}
	return err
}

// ownHead decides, once the thread is loaded, whether the run may go on: because it owns
// the thread, or because it is a fork. A fork deliberately leaves a checkpoint that is not
// the newest. It goes on beside other runs, which notice when they store their next
// checkpoint.
func (l *loop) ownHead(saved *saver.Tuple) error {
	o := &l.owned
	if saved != nil {
		o.head = saved.Config.CheckpointID
	}
	if l.from == originOld || l.from == originMissing {
		o.checked = false
		return nil
	}
	return o.taken
}

// expected is the head on which the next checkpoint is conditional; nil for no condition.
func (l *loop) expected() *string {
	if !l.owned.checked {
		return nil
	}
	return saver.Head(l.owned.head)
}

// untilLost is ctx until stop is called or the run's lease is lost. Then somebody else may
// be running the thread: what this run stores is refused, and its tasks should not go on.
func (l *loop) untilLost(ctx context.Context) (_ context.Context, stop func()) {
	lease := l.owned.under
	if l.nested() || lease == nil || lease.Lost() == nil {
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
func (o *ownership) fenced() error {
	if o.under == nil || o.under.Held() {
		return nil
	}
	return &saver.FencedError{ThreadID: o.under.ThreadID(), Epoch: o.epoch}
}

// disown releases the thread. It is called when the run's saves have ended.
func (l *loop) disown() {
	if l.owned.lease != nil {
		l.owned.lease.Release()
	}
}

// ownerTables record, within this process, who owns the threads of savers that are not
// saver.Coordinators. A table exists while somebody uses it.
type ownerTables struct {
	mu sync.Mutex
	by map[any]*ownerTable
}

type ownerTable struct {
	rules.Owners
	users int // guarded by ownerTables.mu
}

var tables = ownerTables{by: map[any]*ownerTable{}}

// own does what saver.Coordinator.Own does, for a saver that is not a Coordinator and looks at
// no epochs. For a saver that is not comparable, the graph is the key.
func (ts *ownerTables) own(ctx context.Context, g *Graph, s saver.Saver, threadID string, wait bool) (*saver.Lease, error) {
	var key any = s
	if !reflect.ValueOf(s).Comparable() {
		key = g
	}
	t := ts.use(key)
	lease, err := t.Own(ctx, threadID, wait)
	if err != nil {
		ts.leave(key)
		return nil, err
	}
	return saver.NewLease(threadID, lease.Epoch(), nil, nil, func() {
		lease.Release()
		ts.leave(key)
	}), nil
}

func (ts *ownerTables) use(key any) *ownerTable {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.by[key]
	if t == nil {
		t = &ownerTable{}
		ts.by[key] = t
	}
	t.users++
	return t
}

func (ts *ownerTables) leave(key any) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.by[key]; t.users == 1 {
		delete(ts.by, key)
	} else {
		t.users--
	}
}
