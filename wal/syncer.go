package wal

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stele-go/stele/base/fault"
)

// syncer syncs in the background, in the modes in which commits do not: when the interval is over, and
// for Log.Sync.
type syncer struct {
	l     *Log
	dirty chan struct{} // capacity 1: something was written (SyncInterval)
	ask   chan struct{} // capacity 1: somebody waits
	stop  chan struct{}
	done  chan struct{}

	mu struct {
		sync.Mutex
		waiters []chan error
		closed  bool
	}
}

func newSyncer(l *Log) *syncer {
	s := &syncer{
		l:     l,
		dirty: make(chan struct{}, 1),
		ask:   make(chan struct{}, 1),
		stop:  make(chan struct{}),
		done:  make(chan struct{}),
	}
	go s.run()
	return s
}

func (s *syncer) run() {
	defer close(s.done)
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	defer timer.Stop()
	armed := false
	for {
		select {
		case <-s.dirty:
			// The interval begins with the first write after a sync. If each write began
			// it anew, a steady writer would never be synced.
			if !armed {
				timer.Reset(s.l.opts.Interval)
				armed = true
			}
		case <-timer.C:
			armed = false
			s.answer()
		case <-s.ask:
			s.answer()
		case <-s.stop:
			s.answer()
			return
		}
	}
}

// wrote tells the syncer that a batch was committed.
func (s *syncer) wrote() {
	if s.l.opts.Mode != SyncInterval {
		return
	}
	select {
	case s.dirty <- struct{}{}:
	default:
	}
}

// barrier waits until all that is applied now is durable.
func (s *syncer) barrier(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ch := make(chan error, 1)
	s.mu.Lock()
	if s.mu.closed {
		s.mu.Unlock()
		return fault.ErrClosed
	}
	s.mu.waiters = append(s.mu.waiters, ch)
	s.mu.Unlock()
	select {
	case s.ask <- struct{}{}:
	default:
	}
	select {
	case err := <-ch:
		return err
	case <-ctx.Done():
		return fmt.Errorf("wait for the log to sync: %w", ctx.Err())
	}
}

// answer syncs and wakes the waiters. It takes the waiters before it determines how far to sync. So a
// waiter that comes later is left to the next round, and none is answered by a sync that does not cover
// its records.
func (s *syncer) answer() {
	s.mu.Lock()
	waiters := s.mu.waiters
	s.mu.waiters = nil
	s.mu.Unlock()
	err := s.sync()
	for _, ch := range waiters {
		ch <- err
	}
}

func (s *syncer) sync() error {
	f, pos := s.l.hold()
	if f == nil {
		// Nothing written, or finished and therefore synced.
		return s.l.checkGuard()
	}
	defer f.busy.Done()
	// A batch that is written but not applied yet may lie behind pos; one that
	// opened f leaves pos in the file before, which rotation has synced.
	if pos.File != f.info.Num || f.synced.Load() >= pos.Offset {
		return s.l.checkGuard()
	}
	return s.l.syncFile(f, pos.Offset, pos.NextLSN-1)
}

// close serves the last waiters and ends the goroutine.
func (s *syncer) close() {
	s.mu.Lock()
	s.mu.closed = true
	s.mu.Unlock()
	close(s.stop)
	<-s.done
}
