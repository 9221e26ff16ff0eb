package engine

import (
	"slices"

	"github.com/stele-go/stele/internal/record"
)

// scratch is the memory that the operations of a commit are collected in until its
// record is encoded: of one commit after the other. It is used by the committer only.
type scratch struct {
	ops   []record.Op
	slots []record.Slot // of ops
}

// keptScratch is how many slots, or operations, are kept room for.
const keptScratch = 4096

// room is n slots more, all of them zero.
func (s *scratch) room(n int) []record.Slot {
	at := len(s.slots)
	s.slots = slices.Grow(s.slots, n)[:at+n]
	return s.slots[at : at+n : at+n]
}

// reset forgets the commit, which put together ops: neither its strings nor more
// room than most commits need are kept.
func (s *scratch) reset(ops []record.Op) {
	clear(ops)
	clear(s.slots)
	s.ops, s.slots = ops[:0], s.slots[:0]
	if cap(s.ops) > keptScratch {
		s.ops = nil
	}
	if cap(s.slots) > keptScratch {
		s.slots = nil
	}
}
