package engine

import (
	"context"
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

// EnterToRead is Enter for a call that reads: fault.ErrStale at a follower that has not heard of its leader.
func (s *Store) EnterToRead() error {
	if s.fresh != nil {
		if err := s.fresh(); err != nil {
			return err
		}
	}
	return s.Enter()
}

// Current returns nil once what the store shows is not older than the call: a call that answers what the store holds begins with it.
// Of a leader in mode Sync it asks for the lease, and else for nothing but ctx: a store without a replica has one writer, the other
// modes promise no more than a prefix, and a follower is behind by design; see EnterToRead. It does not ask for a call within
// WithoutLease.
//
// Errors: see replication.current.
func (s *Store) Current(ctx context.Context) error {
	if err := ctx.Err(); err != nil || s.current == nil || ctx.Value(leaseless{}) != nil {
		return err
	}
	if err := s.Enter(); err != nil {
		return err
	}
	defer s.Leave()
	return s.current(ctx)
}

type leaseless struct{}

// WithoutLease returns a context with which Current does not ask for the lease: for reads of work in the background, and of calls that
// have asked, and now hold a lock. Changes that rest on them rest on the fence.
func WithoutLease(ctx context.Context) context.Context {
	return context.WithValue(ctx, leaseless{}, true)
}

// enterToWrite is Enter for a call that writes.
func (s *Store) enterToWrite() error {
	if err := s.MayWrite(); err != nil {
		return err
	}
	return s.Enter()
}

// MayWrite returns ErrReadOnly for a store that is only read, ErrFollower for one that another writes, and
// ErrBucketAway for one that waits for its bucket.
func (s *Store) MayWrite() error {
	switch {
	case s.Away():
		return fault.ErrBucketAway
	case s.Opts.ReadOnly:
		return fault.ErrReadOnly
	case s.Opts.follows:
		return fault.ErrFollower
	}
	return nil
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
