package engine

import (
	"sync"

	"github.com/stele-go/stele/base/fault"
)

// calls are the calls in progress, which Close waits for.
type calls struct {
	life   sync.RWMutex // guards closed against new calls
	closed bool
	wg     sync.WaitGroup
}

// Enter counts a call in, so that Close waits for it; ErrClosed after Close. If it returns
// nil, the call ends with Leave.
func (s *Store) Enter() error {
	s.calls.life.RLock()
	defer s.calls.life.RUnlock()
	if s.calls.closed {
		return fault.ErrClosed
	}
	s.calls.wg.Add(1)
	return nil
}

// enterToWrite is Enter for a call that writes: ErrReadOnly for a store that is only read.
func (s *Store) enterToWrite() error {
	if s.Opts.ReadOnly {
		return fault.ErrReadOnly
	}
	return s.Enter()
}

// Leave ends a call.
func (s *Store) Leave() { s.calls.wg.Done() }

// refuseCalls makes Enter fail from now on.
func (s *Store) refuseCalls() {
	s.calls.life.Lock()
	defer s.calls.life.Unlock()
	s.calls.closed = true
}

// awaitCalls returns when no call is in progress.
func (s *Store) awaitCalls() { s.calls.wg.Wait() }

// closed reports whether refuseCalls was called.
func (s *Store) closed() bool {
	s.calls.life.RLock()
	defer s.calls.life.RUnlock()
	return s.calls.closed
}
