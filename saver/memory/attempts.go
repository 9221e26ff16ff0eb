package memory

import (
	"cmp"
	"context"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/rules"
)

// CountAttempt implements saver.Saver.
func (s *Saver) CountAttempt(ctx context.Context, cfg saver.Config) (int, error) {
	if err := cfg.Validate(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(ctx); err != nil {
		return 0, err
	}
	if err := s.owned.Check(cfg.ThreadID, cfg.Epoch); err != nil {
		return 0, err
	}
	n := s.namespace(cfg.ThreadID, cfg.Namespace)
	id := cmp.Or(cfg.CheckpointID, n.newest)
	if n.checkpoints[id] == nil {
		return 0, rules.NotFound(cfg)
	}
	n = s.makeNamespace(cfg.ThreadID, cfg.Namespace) // notes the time of the write
	n.attempts[id]++
	return n.attempts[id], nil
}
