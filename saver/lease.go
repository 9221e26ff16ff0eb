package saver

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// ErrFenced matches every FencedError.
var ErrFenced = errors.New("the lease of the thread is lost")

// FencedError is returned by a call whose Config.Epoch is not that of the lease by which
// the thread is owned now. It matches ErrFenced. Nothing was written, and nothing of the
// lease's owner will be: another run may have gone on from where this one was.
type FencedError struct {
	ThreadID string
	Epoch    int64
}

// Error names the thread and the epoch.
func (e *FencedError) Error() string {
	return fmt.Sprintf("thread %q: the lease with epoch %d is lost or released", e.ThreadID, e.Epoch)
}

// Is makes every FencedError match ErrFenced.
func (e *FencedError) Is(target error) bool { return target == ErrFenced }

// Lease is the ownership of a thread, as Saver.Own returns it. Its epoch is a fencing
// token: each lease of a thread has a greater one than those before it. A call with this
// epoch in Config.Epoch succeeds only while the lease holds the thread. The saver looks in
// the transaction that writes. So an owner that was stopped for longer than its lease lasts
// writes nothing any more once somebody else owns the thread, whatever it believes, and
// however late its calls arrive.
//
// Until somebody else owns the thread, an owner that was late may go on: time decides who
// may take a thread over, epochs decide who may write.
//
// A Lease is safe for concurrent use.
type Lease struct {
	threadID string
	epoch    int64
	lost     <-chan struct{}
	held     func() bool
	release  func()
	released atomic.Bool
}

// NewLease is a Lease for implementers of Saver. lost is closed when the saver finds
// out that the lease is lost, and held reports, by the clock of this process, whether it certainly
// still holds; both are nil if that cannot happen. release is called once, at the first Release.
func NewLease(threadID string, epoch int64, lost <-chan struct{}, held func() bool, release func()) *Lease {
	l := &Lease{threadID: threadID, epoch: epoch, lost: lost, held: held}
	l.release = sync.OnceFunc(func() {
		l.released.Store(true)
		release()
	})
	return l
}

// ThreadID is the thread that is owned.
func (l *Lease) ThreadID() string { return l.threadID }

// Epoch is the fencing token, for Config.Epoch. It is greater than 0. Services outside of
// the store can compare it as well: one that has seen an epoch refuses smaller ones.
func (l *Lease) Epoch() int64 { return l.epoch }

// Lost is closed when somebody else may own the thread: another owner was seen, or the lease
// could not be renewed in time. An owner should stop then. It is no more than a hint, since
// it may come late; what protects the thread is the epoch. Lost is nil where a lease ends
// only with its process.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// Held reports whether the lease holds for certain, as far as this process knows without
// asking: it was renewed within its time, by a clock that goes on while the process is
// stopped, and it was not released. So an owner that wakes up late sees it at once, before
// Lost is closed. An engine asks before it runs a task.
func (l *Lease) Held() bool {
	select {
	case <-l.lost:
		return false
	default:
		return !l.released.Load() && (l.held == nil || l.held())
	}
}

// Release gives the thread back. Calls with the epoch of the lease should have returned.
// Those that come later fail with a FencedError. Releasing again does nothing.
func (l *Lease) Release() { l.release() }
