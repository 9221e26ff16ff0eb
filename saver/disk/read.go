package disk

import (
	"context"
	"errors"

	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/layout"
	"github.com/stele-go/stele/saver/rules"
)

// GetTuple implements Saver.
func (s *Saver) GetTuple(ctx context.Context, cfg saver.Config) (*saver.Tuple, error) {
	begin := engine.Now()
	tup, err := s.getTuple(ctx, cfg)
	s.m.loaded(begin, err)
	return tup, err
}

func (s *Saver) getTuple(ctx context.Context, cfg saver.Config) (*saver.Tuple, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := s.e.Current(ctx); err != nil {
		return nil, err
	}
	t, it, first, err := s.lookUp(cfg)
	for it != nil {
		r := s.one(t)
		r.readTogether(ctx, it, !first) // a cold thread's newest values are read once, as a rule
		tup, rerr := r.read(ctx, it)
		if !errors.Is(rerr, engine.ErrNoValue) {
			return tup, rerr
		}
		// No view holds the value. If it was replaced or deleted, and a flush removed its bytes, the
		// present state is the answer.
		was := it
		if t, it, first, err = s.lookUp(cfg); it.Same(was) {
			return nil, rerr
		}
	}
	if err != nil {
		return nil, err
	}
	return nil, rules.NotFound(cfg)
}

// lookUp finds the checkpoint that cfg names, or the newest; nil if there is none. first reports
// whether this call loaded the thread: then its newest values are usually read only once.
func (s *Saver) lookUp(cfg saver.Config) (t *index.Partition, it *index.Entry, first bool, err error) {
	t, first, err = s.e.PartitionFirst(layout.ThreadKey(cfg.ThreadID))
	if err != nil {
		return nil, nil, false, err
	}
	return t, findCheckpoint(t, cfg), first, nil
}

// findCheckpoint is the checkpoint cfg names, or the newest; nil if there is none.
func findCheckpoint(t *index.Partition, cfg saver.Config) *index.Entry {
	if t == nil {
		return nil
	}
	if cfg.CheckpointID == "" {
		return t.Last(layout.CheckpointPrefix(cfg.Namespace))
	}
	return t.Get(layout.CheckpointKey(cfg.Namespace, cfg.CheckpointID))
}

// DeltaChannelHistory implements saver.Saver. It reads no value.
func (s *Saver) DeltaChannelHistory(ctx context.Context, cfg saver.Config, channels []string) (map[string]saver.DeltaHistory, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := s.e.Current(ctx); err != nil {
		return nil, err
	}
	t, it, _, err := s.lookUp(cfg)
	if err != nil {
		return nil, err
	}
	walk := rules.NewDeltaWalk(channels)
	if it == nil {
		return walk.Result(), nil
	}
	r := s.one(t)
	for seen := map[string]bool{it.Key: true}; !walk.Done(); {
		parent := it.Slots.At(0).Name
		if parent == "" {
			break
		}
		key := layout.CheckpointKey(cfg.Namespace, parent)
		if seen[key] {
			return nil, threadError(cfg.ThreadID, "checkpoint "+parent, saver.ErrAncestorCycle)
		}
		seen[key] = true
		if it = t.Get(key); it == nil {
			break
		}
		writes, err := r.pendingWrites(cfg.Namespace, parent)
		if err != nil {
			return nil, err
		}
		walk.Visit(r.storedValues(it, channels), writes)
	}
	return walk.Result(), nil
}
