package pregel

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func taskContextOf(outer context.Context) *taskContext {
	c := &taskContext{outer: outer}
	c.run = &taskAttempt{}
	return c
}

// A task's context behaves like one made by context.WithCancel, whether or not
// anybody listened to it before its end.
func TestTaskContext(t *testing.T) {
	errWhy := errors.New("why")
	for _, listened := range []bool{false, true} {
		type key struct{}
		outer, cancel := context.WithCancelCause(context.WithValue(t.Context(), key{}, 1))
		c := taskContextOf(outer)
		if listened {
			c.Done()
		}
		if c.Err() != nil || context.Cause(c) != nil || c.Value(key{}) != 1 || c.Value(taskAttemptKey{}) != c.run {
			t.Errorf("listened %v: %v, %v, %v", listened, c.Err(), context.Cause(c), c.Value(key{}))
		}
		cancel(errWhy)
		if !errors.Is(c.Err(), context.Canceled) || !errors.Is(context.Cause(c), errWhy) {
			t.Errorf("listened %v, cancelled: %v, %v", listened, c.Err(), context.Cause(c))
		}
		c.end()
		if !errors.Is(context.Cause(c), errWhy) {
			t.Errorf("listened %v: its end changed the cause to %v", listened, context.Cause(c))
		}
		c = taskContextOf(t.Context())
		if listened {
			c.Done()
		}
		c.end()
		<-c.Done()
		if !errors.Is(c.Err(), context.Canceled) || !errors.Is(context.Cause(c), context.Canceled) || c.Value(key{}) != nil {
			t.Errorf("listened %v, ended: %v, %v", listened, c.Err(), context.Cause(c))
		}
	}
}

// What is derived from a task's context ends with it, without a goroutine that
// watches.
func TestTaskContextEndsWhatIsDerived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := taskContextOf(t.Context())
		child, cancel := context.WithTimeout(c, time.Hour)
		defer cancel()
		called := make(chan struct{})
		context.AfterFunc(c, func() { close(called) })
		synctest.Wait()
		if child.Err() != nil {
			t.Fatal(child.Err())
		}
		c.end()
		<-called
		if !errors.Is(child.Err(), context.Canceled) {
			t.Errorf("derived: %v", child.Err())
		}
	})
}
