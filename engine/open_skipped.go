package engine

import (
	"errors"
	"sync"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
)

// skipped is the damage that AllowDamage ignored.
type skipped struct {
	mu        sync.Mutex
	damage    []error
	seen      map[string]bool // by text: a damaged page is met again and again
	recent    []error         // since the last call of RecentlySkipped, repeated ones too
	deletions bool            // the damage may have hidden deletions
}

// maxSkipped bounds the list of what was skipped.
const maxSkipped = 10000

// skip notes damage that AllowDamage goes past.
func (s *Store) skip(err error) {
	s.skipped.mu.Lock()
	defer s.skipped.mu.Unlock()
	if s.skipped.seen == nil {
		s.skipped.seen = map[string]bool{}
	}
	if len(s.skipped.recent) < maxSkipped {
		s.skipped.recent = append(s.skipped.recent, err)
	}
	if text := err.Error(); !s.skipped.seen[text] && len(s.skipped.damage) < maxSkipped {
		s.skipped.seen[text] = true
		s.skipped.damage = append(s.skipped.damage, err)
	}
}

// pastDamage notes damage that may be ignored and returns nil; it returns any other error.
func (s *Store) pastDamage(err error) error {
	if err == nil || !s.Opts.AllowDamage || !errors.Is(err, fault.ErrCorrupt) {
		return err
	}
	s.skip(err)
	return nil
}

// Skipped returns the damage that was ignored so far, at Open and since, each once. deletions says that
// the damage may have hidden deletions, so that deleted data may be visible again. Both are zero
// without Options.AllowDamage.
func (s *Store) Skipped() (damage []error, deletions bool) {
	s.skipped.mu.Lock()
	defer s.skipped.mu.Unlock()
	deletions = s.skipped.deletions
	for _, err := range s.skipped.damage {
		var c *fault.CorruptionError
		if errors.As(err, &c) {
			_, inLog := base.LogFile.Parse(c.File)
			deletions = deletions || inLog
		}
	}
	return append([]error(nil), s.skipped.damage...), deletions
}

// maybeUndeleted notes that the damage may have hidden deletions.
func (s *Store) maybeUndeleted() {
	s.skipped.mu.Lock()
	defer s.skipped.mu.Unlock()
	s.skipped.deletions = true
}

// forgetSkipped clears the list: the store is read again.
func (s *Store) forgetSkipped() { s.skipped = skipped{} }

// RecentlySkipped returns the damage that was ignored since the last call. Damage that was met before
// is repeated: one damaged file costs many families something, and each has to know.
func (s *Store) RecentlySkipped() []error {
	s.skipped.mu.Lock()
	defer s.skipped.mu.Unlock()
	r := s.skipped.recent
	s.skipped.recent = nil
	return r
}
