package rules

import (
	"fmt"

	"github.com/stele-go/stele/saver"
)

// Check refuses a plan because of what is stored: a checkpoint or writes upon something deleted, values
// from a checkpoint that is not there, and then another head than the request expects. A saver calls it
// in the transaction that stores the plan, after Owners.Check, and before it changes anything. deleted
// is the memory of the thread's deletion, nil if there is none or if it has expired. exists reports
// whether the plan's namespace has a checkpoint, and head returns the greatest checkpoint id in it, ""
// for none.
func (p *PutPlan) Check(deleted *Deleted, exists func(id string) bool, head func() string) error {
	at, parent := p.Target, p.Record.Parent
	if deleted != nil {
		if err := deleted.CheckPut(at.ThreadID, parent, parent != "" && exists(parent)); err != nil {
			return err
		}
		for _, w := range p.Writes { // the checkpoint being put counts as there
			there := w.CheckpointID == at.CheckpointID || exists(w.CheckpointID)
			if err := deleted.CheckWrites(at.ThreadID, w.CheckpointID, true, there); err != nil {
				return err
			}
		}
	}
	if from := p.Record.ValuesFrom; from != "" && !exists(from) {
		return NotFound(at.At(from))
	}
	if p.ExpectHead == nil {
		return nil
	}
	if have := head(); have != *p.ExpectHead {
		return &saver.ConflictError{ThreadID: at.ThreadID, Namespace: at.Namespace, Expected: *p.ExpectHead, Head: have}
	}
	return nil
}

// NotFound is the error of a checkpoint that is not there.
func NotFound(cfg saver.Config) error {
	return fmt.Errorf("thread %q namespace %q checkpoint %q: %w", cfg.ThreadID, cfg.Namespace, cfg.CheckpointID, saver.ErrNotFound)
}
