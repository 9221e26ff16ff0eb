package rules

import (
	"context"
	"sync"

	"github.com/stele-go/stele/saver"
)

// Owners implements Own within one process, for savers whose store no other process can
// write to. A lease lasts until it is released. The zero Owners is ready to use and must
// not be copied. It is safe for concurrent use and keeps nothing of threads that nobody
// owns.
type Owners struct {
	mu sync.Mutex
	// epoch is that of the last lease.
	epoch  int64
	held   map[string]*heldLease
	closed bool
}

// heldLease is a lease that was not released.
type heldLease struct {
	epoch int64
	ended chan struct{} // closed when the thread is free again, or nobody gets it any more
}

// NewOwners is an Owners whose epochs are greater than after. A store that outlives its
// process gives the time in microseconds: no process takes leases faster.
func NewOwners(after int64) *Owners { return &Owners{epoch: max(after, 0)} }

// Close makes Own fail with saver.ErrClosed, also for those who wait. Leases that are held may be
// released later.
func (o *Owners) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	o.closed = true
	for _, by := range o.held {
		close(by.ended)
	}
}

// Own implements saver.Saver.
func (o *Owners) Own(ctx context.Context, threadID string, wait bool) (*saver.Lease, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		by, taken := o.take(threadID)
		switch {
		case by == nil:
			return nil, saver.ErrClosed
		case !taken:
			return saver.NewLease(threadID, by.epoch, nil, nil, func() { o.free(threadID, by) }), nil
		case !wait:
			return nil, &saver.OwnedError{ThreadID: threadID}
		}
		select {
		case <-by.ended:
		case <-ctx.Done():
		}
	}
}

// Check returns a saver.FencedError if the thread is not owned by the lease with this
// epoch; 0 is the epoch of calls that are not fenced. A call asks in the transaction that
// writes, so that it is before or behind all calls of the next owner.
func (o *Owners) Check(threadID string, epoch int64) error {
	if epoch == 0 {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if by := o.held[threadID]; by == nil || by.epoch != epoch {
		return &saver.FencedError{ThreadID: threadID, Epoch: epoch}
	}
	return nil
}

// CheckLease is Check of a lease; nil is not fenced.
func (o *Owners) CheckLease(l *saver.Lease) error {
	if l == nil {
		return nil
	}
	return o.Check(l.ThreadID(), l.Epoch())
}

// take takes the thread if it is free; else taken is true, and by has it. by is nil after Close.
func (o *Owners) take(threadID string) (by *heldLease, taken bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, false
	}
	if by, taken = o.held[threadID]; taken {
		return by, true
	}
	if o.held == nil {
		o.held = map[string]*heldLease{}
	}
	o.epoch++
	by = &heldLease{epoch: o.epoch, ended: make(chan struct{})}
	o.held[threadID] = by
	return by, false
}

func (o *Owners) free(threadID string, by *heldLease) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.held, threadID)
	if !o.closed {
		close(by.ended)
	}
}
