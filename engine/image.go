package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/snapshot"
)

// The stack of images that Open reads is a full one and deltas. The cost of a full one grows with the
// number of partitions, so it is written only when the tables of the deltas have grown to nearly the
// size of its own: then Open reads at most about twice the needed bytes.
const (
	minImages = 6 // a shorter chain grows
	// loneImages is the same for an image that is written without a flush or a compaction. A full one
	// would also have pages for all entries that only the log holds, which the next flush makes
	// useless. Nor should a Close wait for it.
	loneImages = 4 * minImages
	maxImages  = 64
)

// stackSize is the size of the tables of a stack of images, as they are in memory.
type stackSize struct{ full, deltas int64 }

// add counts one image more.
func (c *stackSize) add(t *index.Table, full bool) {
	if full {
		*c = stackSize{full: t.Size()}
	} else {
		c.deltas += t.Size()
	}
}

// imageStack saves the index. An image is a file with the rows of all partitions, or of
// those that changed since the image before: a stack of images is what Open reads instead of
// the log. Entries that only the log holds have pages in it.
//
// Every change of the segments and images of a store is published here, since the index that
// knows of it has to be saved with it: one edit of the manifest names the new segments and
// the image that leads to them. A crash before the edit leaves files that nobody names, which
// the next Open removes; a crash after it finds all of them durable.
//
// Other edits of the manifest concern none of these files. They name a new log file (the
// engine's logCreated), reserve file numbers (Store.newFileNum), and say that the store was
// closed (Engine.Close).
type imageStack struct {
	*Store
	garbage *garbageEstimate
	// onPublish is called after segments were published. It is set before there is work.
	onPublish func()
	// keep returns the place in the lineage for the next edit, if there is one, and which log files of a flush go. See
	// replication.keep.
	keep  func(st snapshot.State, finished []base.FileNum) (*snapshot.Replica, []base.FileNum)
	bytes atomic.Int64 // committed since the last image

	// mu lets one flush, image or end of a compaction publish at a time. It guards the rest.
	mu        sync.Mutex
	bad       bool // the stack of images could not be read
	size      stackSize
	forgotten bool // the manifest names no image, because of badPages
}

// newImageStack returns the stack of a store that has no images yet.
func newImageStack(s *Store, g *garbageEstimate) *imageStack {
	return &imageStack{Store: s, garbage: g}
}

// committed adds n bytes to the log since the last image. Open replays that log; the next image spares it.
func (c *imageStack) committed(n int64) { c.bytes.Add(n) }

// unsaved returns how many bytes of log were committed since the last image.
func (c *imageStack) unsaved() int64 { return c.bytes.Load() }

// due reports whether the log has grown enough for an image.
func (c *imageStack) due() bool { return c.unsaved() >= c.Opts.ImageBytes && !c.unproven() }

// unproven reports whether the index may have records that nobody acknowledged: the store is to follow, and its
// directory led last. They are in no image: shownAway says why.
func (c *imageStack) unproven() bool {
	if !c.Opts.follows {
		return false
	}
	r := c.manifest.State().Replica
	return r != nil && !r.Restored
}

// setBad notes that Open could not read the stack of images.
func (c *imageStack) setBad() { c.bad = true }

// loaded notes that Open read an image of the chain.
func (c *imageStack) loaded(t *index.Table, full bool) { c.size.add(t, full) }

// fullDue reports whether the next image is to be a full one. A chain of fewer than grows
// images grows.
func (c *imageStack) fullDue(chain []snapshot.ImageInfo, grows int) bool {
	if len(chain) == 0 || c.bad || len(chain) >= maxImages {
		return true
	}
	return len(chain) >= grows && c.size.deltas >= c.size.full
}

// replacedSegments says which parts of families a flush or a compaction adds and removes.
type replacedSegments struct {
	placed   []placed                               // parts the new state adds
	drop     func(family uint64, p index.Part) bool // parts it no longer has
	families map[uint64]bool                        // all that may have either
}

// Write writes an image, so that the next Open replays less of the log. It is a delta to the last
// image; with all, or if there is none to be a delta to, it is a full one. mu is held. A failure loses
// nothing: the log still has everything.
func (c *imageStack) Write(all bool) error {
	if err := c.checkPages(); err != nil {
		return err
	}
	return c.put(all || c.fullDue(c.manifest.State().Images, loneImages), 0)
}

// writeBeside writes an image beside a flush of the records up to cut, if one is due and there
// are records behind it. Commits go on while a flush works, and neither Close nor the next Open
// should find all of them unsaved. An image that would be a full one is left to the flush. Mu
// is held. A failure loses nothing.
func (c *imageStack) writeBeside(cut base.LSN) error {
	if !c.due() || c.Index.LSN() <= cut || c.fullDue(c.manifest.State().Images, loneImages) {
		return nil
	}
	return c.put(false, cut)
}

// put writes a delta image, or a full one; see task.cut.
func (c *imageStack) put(full bool, cut base.LSN) error {
	st := c.manifest.State()
	imaged, place := c.bytes.Load(), c.logPlace()
	v, dirty := c.viewDirty()
	defer v.Release()
	if dirty.Empty() && !full {
		return nil
	}
	mark, _ := c.keep(st, nil)
	old, err := c.putImage(task{v: v, dirty: dirty, floor: st.FloorLSN, place: place, edit: snapshot.Edit{Replica: mark}, full: full, cut: cut}, st)
	if err != nil {
		return fmt.Errorf("image: %w", err)
	}
	c.Files.retire(old...)
	c.bytes.Add(-imaged) // what was committed since is for the next image
	c.imagesWritten.Add(1)
	return nil
}

// publish makes segments that are written part of the store, together with an
// image that knows them, in one manifest edit. It returns the files the edit
// replaced besides those it names. Mu is held.
func (c *imageStack) publish(edit snapshot.Edit, r replacedSegments, floor base.LSN) ([]base.FileNum, error) {
	imaged, place := c.bytes.Load(), c.logPlace()
	v, dirty := c.viewDirty()
	defer v.Release()
	st := c.manifest.State()
	full := c.fullDue(st.Images, minImages)
	old, err := c.putImage(task{v: v, dirty: dirty, floor: floor, place: place, edit: edit, full: full, replacedSegments: r}, st)
	if err == nil {
		c.onPublish()
		c.bytes.Add(-imaged) // what was committed since is for the next image
	}
	return old, err
}

// putImage writes an image and makes it part of the store, whose files are those of st. It
// returns the images it replaces.
func (c *imageStack) putImage(t task, st snapshot.State) (old []base.FileNum, err error) {
	j := imageWriter{imageStack: c, task: t, st: c.usableImages(st), parts: map[uint64][]index.Part{}}
	for _, pl := range t.placed {
		j.parts[pl.fam] = append(j.parts[pl.fam], pl.part)
	}
	// Everything the image names must survive with it, or an Open after a power
	// cut would find an index that is ahead of its log.
	var info snapshot.ImageInfo
	if err = c.log.Sync(context.Background()); err == nil {
		info, err = j.write()
	}
	if err != nil {
		c.Index.MarkDirty(t.dirty)
		return nil, err
	}
	info.Log = t.place
	left := slices.DeleteFunc(slices.Clone(st.Segments), func(s snapshot.SegmentInfo) bool { return slices.Contains(t.edit.RemoveSegments, s.Num) })
	t.edit.SetDead = c.garbage.news(append(left, t.edit.AddSegments...), t.v.LSN())
	chain := append(slices.Clone(st.Images), info)
	if j.full {
		chain, old = chain[len(chain)-1:], st.ImageNums()
	}
	t.edit.SetImages = &chain
	if err := j.apply(t.edit); err != nil {
		return nil, err
	}
	table := j.w.Table()
	c.size.add(table, j.full)
	c.Index.Install(table, j.full, j.v.LSN(), t.dirty)
	c.bad = false
	return old, nil
}

// logPlace returns the place where replay can start for an image whose view is taken after the call.
// The caller syncs the log before the manifest names it.
func (c *imageStack) logPlace() snapshot.LogPlace {
	at := c.log.Position()
	return snapshot.LogPlace{File: at.File, Offset: at.Offset, Chain: at.Chain, NextLSN: at.NextLSN}
}

// apply makes the image part of the store. If it cannot, what changed since the
// last image still has to go into the next.
func (j *imageWriter) apply(edit snapshot.Edit) error {
	_, err := j.manifest.Apply(edit)
	if err == nil {
		return nil
	}
	j.Index.MarkDirty(j.dirty)
	if notApplied(err) {
		j.withdraw(base.ImageFile, j.num)
	}
	return err
}

// checkPages returns errBadPages for work that needs whole images if one is damaged, and removes the
// images from the manifest. mu is held.
func (c *imageStack) checkPages() error {
	if !c.badPages.Load() {
		return nil
	}
	if err := c.forget(); err != nil {
		return err
	}
	return errBadPages
}

// checkPagesNow is checkPages for a caller that does not hold mu.
func (c *imageStack) checkPagesNow() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.checkPages()
}

// errBadPages is the error of flush, image and compaction when a page of the saved index is damaged.
var errBadPages = fmt.Errorf("the saved index is damaged; close the store and open it again to rebuild it: %w", fault.ErrCorrupt)

// forget takes the images out of the manifest. Their files stay until the
// next Open: partitions whose pages are whole are still read from them.
func (c *imageStack) forget() error {
	if c.forgotten {
		return nil
	}
	if _, err := c.manifest.Apply(snapshot.Edit{SetImages: &[]snapshot.ImageInfo{}}); err != nil {
		return fmt.Errorf("forget damaged images: %w", err)
	}
	c.forgotten = true
	return nil
}

// usableImages returns st without images that Open could not read: the next image is made from segments
// and log alone.
func (c *imageStack) usableImages(st snapshot.State) snapshot.State {
	if c.bad {
		st.Images = nil
	}
	return st
}

// renewKeys rewrites image and manifest under the current key if they are under another. It comes after
// a compaction, which has rewritten the other files.
func (c *imageStack) renewKeys() error {
	if c.Keys == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	id, err := c.Keys.CurrentID()
	if err != nil {
		return err
	}
	for _, im := range c.manifest.State().Images {
		if c.Files.keyID(im.Num) == id {
			continue
		}
		if err := c.Write(true); err != nil {
			return err
		}
		break
	}
	if c.manifest.KeyID() == id {
		return nil
	}
	return c.manifest.Renew()
}
