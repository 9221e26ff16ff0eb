package saver

import (
	"context"
	"fmt"
	"sync"
)

// Owner is a saver that gives a thread to one run at a time, so that of several
// runs on a thread all but one learn that they lost before they do anything. An
// engine asks it before it loads the thread. A saver without this power is left
// with Config.ExpectHead, which tells a run so when it stores a checkpoint.
type Owner interface {
	// Own gives the thread to the caller until release is called; calling it again
	// does nothing. While somebody else has the thread, Own fails at once with an
	// OwnedError, or, if wait is set, waits until the thread is free or ctx ends, and
	// then fails with the error of ctx. Nobody is promised an order.
	//
	// It counts between all processes that can write to the store, and a process
	// that dies has nothing any more. It binds those who ask: calls that read or
	// write work as ever, whoever owns the thread. Nothing is stored.
	Own(ctx context.Context, threadID string, wait bool) (release func(), err error)
}

// OwnedError is the answer to Own while somebody else has the thread. It matches
// ErrConflict.
type OwnedError struct{ ThreadID string }

// Error names the thread.
func (e *OwnedError) Error() string {
	return fmt.Sprintf("thread %q: another run is under way on it", e.ThreadID)
}

// Is makes every OwnedError match ErrConflict.
func (e *OwnedError) Is(target error) bool { return target == ErrConflict }

// Owners is an Owner within one process: what a saver needs whose store no other
// process can write to. The zero Owners is ready; it must not be copied. It is
// safe for concurrent use, and keeps nothing of threads that nobody owns.
type Owners struct {
	mu sync.Mutex
	// held has the threads that somebody owns. The channel is closed when that ends.
	held map[string]chan struct{}
}

// Own implements Owner.
func (o *Owners) Own(ctx context.Context, threadID string, wait bool) (release func(), err error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		ended, taken := o.take(threadID)
		switch {
		case !taken:
			return sync.OnceFunc(func() { o.free(threadID, ended) }), nil
		case !wait:
			return nil, &OwnedError{ThreadID: threadID}
		}
		select {
		case <-ended:
		case <-ctx.Done():
		}
	}
}

// take takes the thread if it is free. It returns the channel that is closed when
// the thread is free again.
func (o *Owners) take(threadID string) (ended chan struct{}, taken bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if ended, taken = o.held[threadID]; taken {
		return ended, true
	}
	if o.held == nil {
		o.held = map[string]chan struct{}{}
	}
	ended = make(chan struct{})
	o.held[threadID] = ended
	return ended, false
}

func (o *Owners) free(threadID string, ended chan struct{}) {
	o.mu.Lock()
	delete(o.held, threadID)
	o.mu.Unlock()
	close(ended)
}
