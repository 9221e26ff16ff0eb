// Package diskhook is how this module's own packages and tests reach what package
// saver/disk does not export: the engine below a saver, and what can be replaced around a
// store. The variables are filled in when saver/disk is initialized. It imports this
// package, so this one cannot name its types: a parameter opts is a *disk.Options, one
// named saver, to or from is a *disk.Saver.
package diskhook

import (
	"context"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/engine"
	"github.com/stele-go/stele/internal/metric"
	"github.com/stele-go/stele/internal/storage"
	"github.com/stele-go/stele/internal/vfs"
	"github.com/stele-go/stele/saver"
)

// Simulation replaces what is around a store. The zero value replaces nothing.
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

var (
	// SimulationOf returns the simulation that opts carry, to be read or changed.
	SimulationOf func(opts any) *Simulation
	// EngineOptions returns the options with which disk.Open opens the engine.
	EngineOptions func(opts any) storage.Options
	// Engine returns the engine below a saver.
	Engine func(saver any) *engine.Engine
	// Counters returns where packages store and cache count what they read.
	Counters func(saver any) *metric.Beside
	// MetadataMatcher returns a function that reports whether any checkpoint of a thread
	// in v matches filter; an empty filter matches every thread. The function is not
	// safe for concurrent use. Call end when done with it.
	MetadataMatcher func(saver any, v *storage.View, filter map[string]any) (matches func(context.Context, *index.Partition) (bool, error), end func())
	// DescribeThread fills in Graph and Next of a thread in v, where its record has them.
	DescribeThread func(ctx context.Context, saver any, v *storage.View, t *index.Partition, info *saver.ThreadInfo) error
	// AdoptErasures makes a store that was salvaged from another remember the threads
	// that were erased there. Call it before any other use of the new store. It is
	// durable when it returns nil.
	AdoptErasures func(ctx context.Context, to, from any) error
)

// Simulate returns opts, which are disk.Options, with the simulation in place.
func Simulate[Options any](opts Options, sim Simulation) Options {
	*SimulationOf(&opts) = sim
	return opts
}
