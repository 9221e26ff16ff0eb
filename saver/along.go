package saver

import (
	"fmt"

	"github.com/stele-go/stele/internal/engine"
)

// Along is a change of another part of the same store, made ready, that a
// PutRequest takes along: it becomes durable and visible with the checkpoint, or
// not at all. Package store makes them; see store.Local.Prepare. It is used once.
type Along struct {
	engine *engine.Engine
	part   engine.Part
	apply  func()
}

// NewAlong is a change of the store on e. It is for other parts of a durable
// store; its types are internal.
func NewAlong(e *engine.Engine, p engine.Part) Along { return Along{engine: e, part: p} }

// NewMemoryAlong is a change in memory that apply makes, which cannot fail and
// must not call the saver. Package saver/memory takes it along.
func NewMemoryAlong(apply func()) Along { return Along{apply: apply} }

// Apply makes a change in memory. It is for savers in memory, which call it with
// the checkpoint, under their lock; see CheckAlong.
func (a Along) Apply() { a.apply() }

// CheckAlong refuses changes that are not in memory, with an InvalidError. It is
// for savers in memory.
func CheckAlong(along []Along) error {
	for i, a := range along {
		if a.apply == nil {
			return invalidf(fmt.Sprintf("along[%d]", i), "is no change in memory; prepare it with a store in memory")
		}
	}
	return nil
}

// checkAlong refuses changes of another store.
func (s *Disk) checkAlong(along []Along) error {
	for i, a := range along {
		if a.engine != s.e {
			return invalidf(fmt.Sprintf("along[%d]", i), "belongs to another store; prepare it with one on this saver")
		}
	}
	return nil
}
