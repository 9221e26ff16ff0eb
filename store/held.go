package store

import (
	"context"
	"fmt"

	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/saver/layout"
)

// Held returns which items of namespaces were there when the store was restored, unchanged, by key; nil if the store is not held
// (disk.Saver.Release). Whoever executes what items say leaves those alone until then. It has a key for each item; of one key in several
// namespaces the last one that has it counts.
func (s *Local) Held(ctx context.Context, namespaces ...Namespace) (map[string]bool, error) {
	if err := ctx.Err(); err != nil || s.disk == nil {
		return nil, err
	}
	if err := s.disk.e.Enter(); err != nil {
		return nil, fmt.Errorf("held items: %w", err)
	}
	if s.disk.e.Leave(); !s.IsHeld() {
		return nil, nil
	}
	held := map[string]bool{}
	for _, ns := range namespaces {
		t, err := s.disk.e.Partition(partitionOf(idOf(ns)))
		if err != nil {
			return nil, fmt.Errorf("held items of %v: %w", ns, err)
		}
		if t == nil {
			continue
		}
		upTo := s.disk.e.HeldUpTo(layout.ReleasePartition)
		t.Ascend(prefixItem, func(it *index.Entry) bool {
			held[it.Key[len(prefixItem):]] = it.LSN <= upTo
			return true
		})
	}
	return held, nil
}

// Current returns nil once what reads show is not older than the call. On a saver that leads in mode sync it asks for the lease, as each
// read does, and waits as long; else it looks at ctx alone. With WithoutLease a call asks before it takes a lock, and not while it has it.
// Errors: those of a read.
func (s *Local) Current(ctx context.Context) error {
	if s.disk == nil {
		return ctx.Err()
	}
	if err := s.disk.e.Enter(); err != nil {
		return err
	}
	defer s.disk.e.Leave()
	return s.disk.e.Current(ctx)
}

// WithoutLease returns a context with which reads of a Local do not ask for the lease of a leader in mode sync, and do not wait for it.
// They may show what was there before another saver took over. A change that rests on them is then refused with saver.ErrFenced.
func WithoutLease(ctx context.Context) context.Context { return engine.WithoutLease(ctx) }

// IsHeld reports whether the store was restored, and is to be released before what waited then goes on.
func (s *Local) IsHeld() bool { return s.disk != nil && s.disk.e.HeldUpTo(layout.ReleasePartition) > 0 }
