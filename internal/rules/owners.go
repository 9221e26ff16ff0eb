package rules

import (
	"context"
	"sync"

	"github.com/stele-go/stele/saver"
)

// Owners is an Owner within one process: what a saver needs whose store no other
// process can write to. The zero Owners is ready; it must not be copied. It is
// safe for concurrent use, and keeps nothing of threads that nobody owns.
type Owners struct {
	mu sync.Mutex
	// held has the threads that somebody owns. The channel is closed when that ends.
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
