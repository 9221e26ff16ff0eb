package storage

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

// EnterToWrite is Enter for a call that writes: ErrReadOnly for a store that is only read.
func (s *Store) EnterToWrite() error {
	if s.Opts.ReadOnly {
		return fault.ErrReadOnly
	}
	return s.Enter()
}

// Leave ends a call.
func (s *Store) Leave() { s.calls.wg.Done() }

// RefuseCalls makes Enter fail from now on.
func (s *Store) RefuseCalls() {
	s.calls.life.Lock()
	defer s.calls.life.Unlock()
	s.calls.closed = true
}

// AwaitCalls returns when no call is in progress.
func (s *Store) AwaitCalls() { s.calls.wg.Wait() }

// Closed reports whether RefuseCalls was called.
func (s *Store) Closed() bool {
	s.calls.life.RLock()
	defer s.calls.life.RUnlock()
	return s.calls.closed
}
