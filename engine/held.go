package engine

import (
	"cmp"
	"context"
	"fmt"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/snapshot"
)

// A restored store may be a second one beside its original, so what was waiting when it was restored is held: nobody is to
// send a reminder twice. snapshot.State.Held is the last record of that time. It is set by the edit of the manifest that makes the
// restored directory a store, so no crash leaves a store that should be held and is not. An entry is held if its own LSN is not
// greater: whoever changes it afterwards wants it. Who executes runs and timers asks HeldUpTo.
//
// A release is a commit: an entry in a partition that nothing else writes to. So it reaches the bucket and its followers in the
// order of commits, and a point from before it, whose manifest says that the store is held, does not hold who restores from the point
// and applies the release. Then the manifest is told. A crash in between leaves a store that is released; a second release tells
// the manifest.

// HeldUpTo is the last record that was there when the store was restored, if what waited then is held; else 0. released is the partition
// of releases.
func (e *Engine) HeldUpTo(released string) base.LSN {
	held := e.Found.Held
	if e.manifest != nil {
		held = e.manifest.Held()
	}
	if held == 0 || e.EnterToRead() != nil {
		return held
	}
	defer e.Leave()
	if t, err := e.Index.Partition(released); err == nil && t != nil && t.LSN > held {
		return 0
	}
	return held
}

// Release ends that what waited when the store was restored is held, and is durable when it returns nil. Of a store that is not held it
// does nothing.
func (e *Engine) Release(ctx context.Context, released string) error {
	if err := cmp.Or(ctx.Err(), e.MayWrite()); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	if err := e.Enter(); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	held := e.manifest.Held()
	if e.Leave(); held == 0 {
		return nil
	}
	if e.HeldUpTo(released) != 0 {
		err := e.Commit(ctx, []string{released}, func(tx *Tx) error { return tx.Put(released, "", 0, nil) })
		if err == nil {
			err = e.Sync(ctx)
		}
		if err != nil {
			return fmt.Errorf("release: %w", err)
		}
	}
	if err := e.enterToWrite(); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	defer e.Leave()
	if _, err := e.manifest.Apply(snapshot.Edit{SetHeld: new(base.LSN)}); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return nil
}
