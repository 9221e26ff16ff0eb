package rules

import (
	"context"
	"sync"

	"github.com/stele-go/stele/saver"
)

// Owners implements Own within one process, for savers whose store no other process can
// write to. The zero Owners is ready to use and must not be copied. It is safe for
// concurrent use and keeps nothing of threads that nobody owns.
type Owners struct {
	mu sync.Mutex
	// held has a channel for each thread that is owned. It is closed when the owner
	// releases the thread.
	held map[string]chan struct{}
}

// Own implements saver.Coordinator.
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
			return nil, &saver.OwnedError{ThreadID: threadID}
		}
		select {
		case <-ended:
		case <-ctx.Done():
		}
	}
}

// take takes the thread if it is free; else taken is true. ended is closed when the thread
// is free again.
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
