package disk

import (
	"context"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/engine"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/group"
	"github.com/stele-go/stele/saver/layout"
)

// Simulation replaces the environment of a store: file system, clock, randomness. The zero value
// replaces nothing. It is for this repository's own tests, and makes no promise to others.
type Simulation struct {
	// FS replaces the operating system's file system.
	FS vfs.FS
	// Rand makes salts and ids.
	Rand func() uint64
	// Entropy replaces crypto/rand in encryption. Set it only in a simulation.
	Entropy func([]byte)
	// Inline keeps background goroutines from touching files, so that the order of file
	// operations depends on the calls alone.
	Inline bool
	// PatchMin and PatchRun make patches of small values and of few versions happen; 0
	// keeps the defaults. See the engine's options of the same names.
	PatchMin, PatchRun int
	// Opening, if not nil, ends the opening of the store when it ends.
	Opening context.Context
	// SegmentSize makes compaction write several segments; 0 keeps the default.
	SegmentSize int64
}

// In returns the options with a simulation.
func (o Options) In(sim Simulation) Options {
	o.Simulation = sim
	return o
}

// Inside gives access to the engine of a Saver, for packages of this repository that store their own
// data in it or maintain it. It makes no promise to others.
type Inside struct {
	// Engine is the store below the saver.
	Engine *engine.Engine
	// Counters count reads of items and of cached results of nodes.
	Counters *engine.ReadCounts

	s *Saver
}

// Inside returns the engine of the saver and what belongs to it.
func (s *Saver) Inside() Inside { return Inside{s.e, &s.m.beside, s} }

// MetadataMatcher returns a function that reports whether any checkpoint of a thread in v
// matches filter; an empty filter matches every thread. The function is not safe for
// concurrent use. Call end when done with it.
func (in Inside) MetadataMatcher(v *engine.View, filter map[string]any) (matches func(context.Context, *index.Partition) (bool, error), end func()) {
	return in.s.metadataMatcher(v, filter)
}

// DescribeThread sets Held of info, and Graph and Next from the record of thread t in v, if the record has them.
func (in Inside) DescribeThread(ctx context.Context, v *engine.View, t *index.Partition, info *saver.ThreadInfo) error {
	return in.s.describeThread(ctx, v, t, info)
}

// WritesAlone are the pending writes of a thread against checkpoints that it does not have: for each checkpoint a tuple with
// Config and PendingWrites alone.
func (in Inside) WritesAlone(threadID string) ([]*saver.Tuple, error) {
	t, _, err := in.s.e.PartitionFirst(layout.ThreadKey(threadID))
	if err != nil || t == nil {
		return nil, err
	}
	var alone []*saver.Tuple
	t.Ascend(string(layout.KeyWrites), func(it *index.Entry) bool {
		ns, id, ok := layout.ParseWritesKey(it.Key)
		if n := len(alone); !ok || n > 0 && alone[n-1].Config.Namespace == ns && alone[n-1].Config.CheckpointID == id {
			return true
		}
		if t.Get(layout.CheckpointKey(ns, id)) == nil {
			alone = append(alone, &saver.Tuple{Config: saver.Config{ThreadID: threadID, Namespace: ns, CheckpointID: id}})
		}
		return true
	})
	r := in.s.one(t)
	for _, tup := range alone {
		if tup.PendingWrites, err = r.pendingWrites(tup.Config.Namespace, tup.Config.CheckpointID); err != nil {
			return nil, err
		}
	}
	return alone, nil
}

// AdoptErasures makes a store that was salvaged from another remember the threads that were
// erased there. Call it before any other use of the new store. It is durable when it returns
// nil.
func (in Inside) AdoptErasures(ctx context.Context, from *Saver) error {
	return in.s.adoptErasures(ctx, from)
}

// Grouped implements group.Grouper: whoever embeds a Saver and changes its PutRequest is
// another saver, and gets none.
func (s *Saver) Grouped(whole saver.Saver) group.Putter {
	if whole == saver.Saver(s) {
		return putter{s}
	}
	return nil
}
