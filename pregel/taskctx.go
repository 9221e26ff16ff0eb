package pregel

import (
	"context"
	"sync"
	"time"
)

// taskContext is the context of one attempt of a task. It carries the attempt and is cancelled
// when the attempt is over. Most nodes never call Done, so the inner context, which can be
// cancelled, is made on demand.
type taskContext struct {
	outer context.Context // the superstep's
	run   *taskAttempt

	// mu guards the fields below.
	mu     sync.Mutex
	inner  context.Context // nil until it is first needed
	cancel context.CancelFunc
	over   bool
}

// Deadline implements context.Context.
func (c *taskContext) Deadline() (time.Time, bool) { return c.outer.Deadline() }

// Done implements context.Context.
func (c *taskContext) Done() <-chan struct{} { return c.listen().Done() }

// Err implements context.Context.
func (c *taskContext) Err() error {
	if inner := c.made(); inner != nil {
		return inner.Err()
	}
	return c.outer.Err()
}

// Value implements context.Context. Package context uses private keys to find the context to
// cancel. Without an inner context that is the superstep's, which is right because this one
// has not been cancelled separately.
func (c *taskContext) Value(key any) any {
	if _, own := key.(taskAttemptKey); own {
		return c.run
	}
	if inner := c.made(); inner != nil {
		return inner.Value(key)
	}
	return c.outer.Value(key)
}

// made returns the inner context; nil if it was not needed so far.
func (c *taskContext) made() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		c.make()
	}
	return c.inner
}

func (c *taskContext) listen() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.make()
	return c.inner
}

// make makes the inner context. The caller holds mu.
func (c *taskContext) make() {
	if c.inner != nil {
		return
	}
	c.inner, c.cancel = context.WithCancel(c.outer)
	if c.over {
		c.cancel()
	}
}

// end cancels the context: the attempt is over.
func (c *taskContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.cancel != nil {
		c.cancel()
	}
}
