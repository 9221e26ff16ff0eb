package engine

import (
	"sync"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/snapshot"
)

// numbers hands out the numbers of files. Each is below the number up to which the manifest has
// reserved: so a file with a reserved number that no manifest names is known to be a leftover. While
// the store is being opened there may be no manifest to write to, and only one goroutine: the methods
// of Store from startNumbers to numbersToReserve are for it, and take no lock. After reserveTaken only
// newFileNum is used, which is safe for concurrent use.
type numbers struct {
	mu       sync.Mutex
	next     base.FileNum
	reserved base.FileNum
}

// reserveNums is how many file numbers one edit of the manifest reserves.
const reserveNums = 64

// newFileNum returns a number that no file of the store has had.
func (s *Store) newFileNum() (base.FileNum, error) {
	s.nums.mu.Lock()
	defer s.nums.mu.Unlock()
	if err := s.reserveBelow(s.nums.next + 1); err != nil {
		return 0, err
	}
	s.nums.next++
	return s.nums.next - 1, nil
}

// reserveBelow reserves the numbers below next, and some more. The lock is held.
func (s *Store) reserveBelow(next base.FileNum) error {
	if next <= s.nums.reserved {
		return nil
	}
	next += reserveNums - 1
	if _, err := s.manifest.Apply(snapshot.Edit{NextFileNum: next}); err != nil {
		return err
	}
	s.nums.reserved = next
	return nil
}

// startNumbers begins with the first number that the manifest says is free.
func (s *Store) startNumbers(next base.FileNum) {
	s.nums.next, s.nums.reserved = next, next
}

// skipNumber leaves out a number that an unknown file has.
func (s *Store) skipNumber(n base.FileNum) { s.nums.next = max(s.nums.next, n+1) }

// nextNumber returns the number that takeNumber hands out next.
func (s *Store) nextNumber() base.FileNum { return s.nums.next }

// takeNumber hands out a number before there is a manifest to reserve it.
func (s *Store) takeNumber() { s.nums.next++ }

// numbersToReserve returns the number up to which a new manifest has to reserve, so that the next file
// needs no edit of it.
func (s *Store) numbersToReserve() base.FileNum { return s.nums.next + reserveNums }

// reserveTaken reserves the numbers that were handed out before there was a manifest to write to: a
// manifest that was closed cleanly is continued, and may not have reserved them.
func (s *Store) reserveTaken() error {
	s.nums.mu.Lock()
	defer s.nums.mu.Unlock()
	s.nums.reserved = max(s.nums.reserved, s.manifest.State().NextFileNum)
	return s.reserveBelow(s.nums.next)
}
