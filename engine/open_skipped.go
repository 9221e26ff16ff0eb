package engine

import (
	"errors"
	"sync"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
)

// skipped is what AllowDamage went past.
type skipped struct {
	mu        sync.Mutex
	damage    []error
	seen      map[string]bool // by text: a damaged page is met again and again
	recent    []error         // since the last look, repeated ones too
	deletions bool            // what was skipped may have held deletions
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

// pastDamage is nil for damage that may be gone past, which it notes; any other
// error stays one.
func (s *Store) pastDamage(err error) error {
	if err == nil || !s.Opts.AllowDamage || !errors.Is(err, fault.ErrCorrupt) {
		return err
	}
	s.skip(err)
	return nil
}

// Skipped returns what was gone past so far, at Open and since, each damage once,
// and whether it may have held deletions, so that something deleted is back. Both
// are zero without Options.AllowDamage.
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

// maybeUndeleted says that what was skipped may have held deletions.
func (s *Store) maybeUndeleted() {
	s.skipped.mu.Lock()
	defer s.skipped.mu.Unlock()
	s.skipped.deletions = true
}

// forgetSkipped begins anew: the store is read again.
func (s *Store) forgetSkipped() { s.skipped = skipped{} }

// RecentlySkipped is what was gone past since the last call: one damaged file costs
// many families something, and each of them has to know.
func (s *Store) RecentlySkipped() []error {
	s.skipped.mu.Lock()
	defer s.skipped.mu.Unlock()
	r := s.skipped.recent
	s.skipped.recent = nil
	return r
}
