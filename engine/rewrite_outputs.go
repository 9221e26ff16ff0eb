package engine

import (
	"context"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/snapshot"
)

// segmentOutputs are the segments that a flush or a compaction writes: from the log, or from older
// segments.
//
// The unit is the family: partitions that share values, one and its copies. For each family there is a
// page, which lists entries, and a plan, which says what values are written, in which order: those that
// are read often whole, older versions of a series as patches against newer ones. Another segment is
// begun when the last has become large, or has a part of a family that is too large for one. Until the
// manifest names them, a crash or an error leaves files that nobody knows, which the next Open removes.
type segmentOutputs struct {
	*Store
	from  map[base.FileNum]bool // files whose values are taken
	quick bool                  // a compaction will write it again: compress quickly, as segment.BuilderOptions has it, and try fewer patches
	limit func(int)
	reads *Reader // of all values that are moved

	segments []*segmentOutput // the last one may be unfinished
	infos    []snapshot.SegmentInfo

	earlier int64 // bytes of those that are part of the store already
}

// newOutputs returns outputs that take the values of the files from. limit may be nil; else
// it is called for the bytes that are read and written, and between them with 0.
func newOutputs(s *Store, from map[base.FileNum]bool, limit func(int)) *segmentOutputs {
	return &segmentOutputs{Store: s, from: from, limit: limit, reads: s.onceReader()}
}

// empty reports whether nothing was written.
func (o *segmentOutputs) empty() bool { return len(o.segments) == 0 }

// written is the number of bytes written so far.
func (o *segmentOutputs) written() int64 {
	n := o.earlier
	for _, j := range o.segments {
		n += j.b.Size()
	}
	return n
}

// yield is called between two pieces of work that read and write nothing.
func (o *segmentOutputs) yield() {
	if o.limit != nil {
		o.limit(0)
	}
}

// full reports whether the last segment is large enough.
func (o *segmentOutputs) full() bool {
	return !o.empty() && o.segments[len(o.segments)-1].b.Size() >= o.Opts.SegmentSize
}

// valueBytes returns the size of the values written so far, before patches and compression.
func (o *segmentOutputs) valueBytes() int64 {
	var n int64
	for _, j := range o.segments {
		n += j.values
	}
	return n
}

// begin finishes the last segment, if there is one, and starts another.
func (o *segmentOutputs) begin() error {
	if err := o.end(nil); err != nil {
		return err
	}
	j, err := o.startSegment()
	if err == nil {
		o.segments = append(o.segments, j)
	}
	return err
}

// end finishes the last segment if it is not.
func (o *segmentOutputs) end(tombs []index.Tombstone) error {
	if len(o.infos) == len(o.segments) {
		return nil
	}
	info, err := o.segments[len(o.segments)-1].finish(tombs)
	if err == nil {
		o.infos = append(o.infos, info)
	}
	return err
}

// add writes one family: the values that the plan names, and the page. If the family is divided, each
// part after the first begins a new segment.
func (o *segmentOutputs) add(ctx context.Context, w Family, p rewritePlan, page *index.Page, minLSN, maxLSN base.LSN) error {
	for i, part := range divide(p, page, o.directoryLimit) {
		if o.empty() || i > 0 || o.full() {
			if err := o.begin(); err != nil {
				return err
			}
		}
		if err := o.segments[len(o.segments)-1].add(ctx, w, part.plan, part.page, minLSN, maxLSN); err != nil {
			return err
		}
	}
	return nil
}

// Finish completes the last segment, which gets the tombstones, and returns them all.
func (o *segmentOutputs) Finish(tombs []index.Tombstone) ([]snapshot.SegmentInfo, error) {
	if o.empty() && len(tombs) > 0 {
		if err := o.begin(); err != nil {
			return nil, err
		}
	}
	err := o.end(tombs)
	return o.infos, err
}

// Segments returns the complete ones.
func (o *segmentOutputs) Segments() []snapshot.SegmentInfo { return o.infos }

// taken starts a new list: the segments so far are part of the store, or were withdrawn.
func (o *segmentOutputs) taken() {
	o.earlier = o.written()
	o.segments, o.infos = nil, nil
}

// abandon removes the files after a failure; the first cause is what counts.
func (o *segmentOutputs) abandon(err error) error {
	for i, j := range o.segments {
		if i < len(o.infos) {
			j.discard()
		} else {
			j.abandon()
		}
	}
	return err
}

// register adds the files to the store's, so that they can be read as soon as they are published.
func (o *segmentOutputs) register() {
	for _, j := range o.segments {
		o.Files.addKeyed(base.SegmentFile, j.num, j.b.KeyID())
	}
}

// placed returns where the families lie.
func (o *segmentOutputs) placed() []placed {
	var done []placed
	for _, j := range o.segments {
		done = append(done, j.done...)
	}
	return done
}

// removeUnlessApplied removes the complete segments if err says that they surely did not
// become part of the store. The next try makes others.
func (o *segmentOutputs) removeUnlessApplied(err error) {
	for _, j := range o.segments {
		j.removeUnlessApplied(err)
	}
}

// install tells the families where the values of the published segments lie now, and makes them forget
// values left in the old files, unless a view may need them. "The life of a place" in Store has the
// protocol.
func (o *segmentOutputs) install() {
	views := o.otherViews()
	for _, j := range o.segments {
		j.install()
	}
	if views {
		return
	}
	for _, j := range o.segments {
		for _, pl := range j.done {
			if fam := o.Index.HeldFamily(pl.fam); fam != nil {
				fam.Forget(o.from)
			}
		}
	}
}
