package rewrite

import (
	"context"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/engine/files"
	"github.com/stele-go/stele/engine/storage"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/snapshot"
)

// Outputs are the segments that a flush or a compaction writes. Another one is begun
// when the last has become large, or has a part of a family that is too large for
// one. Until the manifest names them, a crash or an error leaves files nobody knows,
// which the next Open removes.
type Outputs struct {
	*storage.Store
	From  map[base.FileNum]bool // files whose values are taken
	Quick bool                  // a compaction will write it again: compress quickly, as segment.BuilderOptions has it, and try fewer patches
	limit func(int)
	reads *storage.Reader // of all values that are moved

	segments []*output // the last one may be unfinished
	infos    []snapshot.SegmentInfo

	earlier int64 // bytes of those that are part of the store already
}

// NewOutputs returns outputs that take the values of the files from. limit may be nil; else
// it is called for the bytes that are read and written, and between them with 0.
func NewOutputs(s *storage.Store, from map[base.FileNum]bool, limit func(int)) *Outputs {
	return &Outputs{Store: s, From: from, limit: limit, reads: s.OnceReader()}
}

// Empty reports whether nothing was written.
func (o *Outputs) Empty() bool { return len(o.segments) == 0 }

// Written is the number of bytes written so far.
func (o *Outputs) Written() int64 {
	n := o.earlier
	for _, j := range o.segments {
		n += j.b.Size()
	}
	return n
}

// Yield is called between two pieces of work that read and write nothing.
func (o *Outputs) Yield() {
	if o.limit != nil {
		o.limit(0)
	}
}

// Full reports whether the last segment is large enough.
func (o *Outputs) Full() bool {
	return !o.Empty() && o.segments[len(o.segments)-1].b.Size() >= o.Opts.SegmentSize
}

// ValueBytes is the size of the values written so far, whole.
func (o *Outputs) ValueBytes() int64 {
	var n int64
	for _, j := range o.segments {
		n += j.values
	}
	return n
}

// begin finishes the last segment, if there is one, and starts another.
func (o *Outputs) begin() error {
	if err := o.End(nil); err != nil {
		return err
	}
	j, err := o.startSegment()
	if err == nil {
		o.segments = append(o.segments, j)
	}
	return err
}

// End finishes the last segment if it is not.
func (o *Outputs) End(tombs []index.Tombstone) error {
	if len(o.infos) == len(o.segments) {
		return nil
	}
	info, err := o.segments[len(o.segments)-1].finish(tombs)
	if err == nil {
		o.infos = append(o.infos, info)
	}
	return err
}

// Add writes one family: the values plan names, and the page. Beginning with the
// second, each part of a family that is divided has a segment of its own to end.
func (o *Outputs) Add(ctx context.Context, w storage.Family, p Plan, page *index.Page, minLSN, maxLSN base.LSN) error {
	for i, part := range divide(p, page, o.DirectoryLimit) {
		if o.Empty() || i > 0 || o.Full() {
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
func (o *Outputs) Finish(tombs []index.Tombstone) ([]snapshot.SegmentInfo, error) {
	if o.Empty() && len(tombs) > 0 {
		if err := o.begin(); err != nil {
			return nil, err
		}
	}
	err := o.End(tombs)
	return o.infos, err
}

// Segments are those that are complete.
func (o *Outputs) Segments() []snapshot.SegmentInfo { return o.infos }

// Taken says that the segments so far are part of the store, or were withdrawn. The next
// one begins anew.
func (o *Outputs) Taken() {
	o.earlier = o.Written()
	o.segments, o.infos = nil, nil
}

// Abandon removes the files after a failure; the first cause is what counts.
func (o *Outputs) Abandon(err error) error {
	for i, j := range o.segments {
		if i < len(o.infos) {
			j.discard()
		} else {
			j.abandon()
		}
	}
	return err
}

// Register makes the files known, so that what is published can be read at once.
func (o *Outputs) Register() {
	for _, j := range o.segments {
		o.Files.AddKeyed(files.Segment, j.num, j.b.KeyID())
	}
}

// Placed is where the families lie.
func (o *Outputs) Placed() []Placed {
	var done []Placed
	for _, j := range o.segments {
		done = append(done, j.done...)
	}
	return done
}

// RemoveUnlessApplied removes the complete segments if err says that they surely did not
// become part of the store. The next try makes others.
func (o *Outputs) RemoveUnlessApplied(err error) {
	for _, j := range o.segments {
		j.removeUnlessApplied(err)
	}
}

// Install tells the families where the values of the published segments lie now, and forgets
// what is left behind in the old files, unless a view may need it. "The life of a place" in
// package storage has the protocol.
func (o *Outputs) Install() {
	views := o.OtherViews()
	for _, j := range o.segments {
		j.install()
	}
	if views {
		return
	}
	for _, j := range o.segments {
		for _, pl := range j.done {
			if fam := o.Index.HeldFamily(pl.Fam); fam != nil {
				fam.Forget(o.From)
			}
		}
	}
}
