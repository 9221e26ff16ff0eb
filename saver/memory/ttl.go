package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/rules"
)

// SetTTL implements saver.Saver.
func (s *Saver) SetTTL(ctx context.Context, threadID string, ttl time.Duration) error {
	if err := saver.ValidateTTL(threadID, ttl); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return err
	}
	t := s.threads[threadID]
	if t == nil {
		return fmt.Errorf("set the TTL of thread %q: %w", threadID, saver.ErrNotFound)
	}
	t.ttl = ttl
	return nil
}

// TTL returns the TTL that SetTTL has set for a thread; 0 if the thread has the default, or is not
// there.
func (s *Saver) TTL(ctx context.Context, threadID string) (time.Duration, error) {
	if err := saver.ValidateThreadID(threadID); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return 0, err
	}
	t := s.threads[threadID]
	if t == nil {
		return 0, nil
	}
	return t.ttl, nil
}

// Sweep implements saver.Saver. No goroutine calls it.
func (s *Saver) Sweep(ctx context.Context) (saver.SweepReport, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return saver.SweepReport{}, err
	}
	rep, now := saver.SweepReport{}, s.now()
	for id, t := range s.threads {
		if rules.Expired(now, t.updated, t.ttl, s.opts.DefaultTTL) {
			s.deleteThread(id)
			rep.Expired++
		}
	}
	return rep, nil
}
