package disk

import (
	"context"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/saver/layout"
)

// A store that was restored may be a second one beside its original. So what waited when it was restored is held: queued
// runs, schedules, timers and unfinished threads, each until it is changed or the store is released. engine.Engine.HeldUpTo
// tells when; saver.ThreadInfo.Held, store.Local.Held and Health tell those who ask.

// heldDetail says that a store is held.
const heldDetail = "the store was restored, and holds the queued runs, schedules, timers and unfinished threads of then until it is released: stele release DIR"

// heldUpTo is the last record that was there when the store was restored; 0 if nothing is held.
func (s *Saver) heldUpTo() base.LSN { return s.e.HeldUpTo(layout.ReleasePartition) }

// Release lets a store that was restored go on with what waited then: what has become due meanwhile is due at once. Queues and
// servers that have the store open notice it within a minute. It is durable when it returns nil, in the store's bucket too as any
// commit, and does nothing in a store that is not held. Errors: saver.ErrReadOnly; those of a commit. After an error the same
// call goes on.
func (s *Saver) Release(ctx context.Context) error { return s.e.Release(ctx, layout.ReleasePartition) }

// judgeHeld adds to h that the store is held.
func (s *Saver) judgeHeld(h *metrics.Health) {
	if s.heldUpTo() == 0 || len(h.Problems) > 0 && h.Problems[0].Kind == metrics.TroubleClosed {
		return
	}
	h.Problems = append(h.Problems, metrics.Problem{Kind: metrics.TroubleHeld, Status: metrics.StatusDegraded, Detail: heldDetail})
	h.Status = max(h.Status, metrics.StatusDegraded)
}
