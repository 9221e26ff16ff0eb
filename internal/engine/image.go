package engine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/stele-go/stele/fault"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/internal/files"
	"github.com/stele-go/stele/internal/storage"
	"github.com/stele-go/stele/snapshot"
)

// The chain of images that Open reads is a full one and deltas. A full one costs what
// the store has of partitions, so it is written when the tables of the deltas have
// come near its own: then Open reads at most about twice what there is.
const (
	minImages = 6 // a shorter chain grows
	maxImages = 64
)

// chainSize is the size of the tables of a chain of images, as they are in memory.
type chainSize struct{ full, deltas int64 }

// add counts one image more.
func (c *chainSize) add(t *index.Table, full bool) {
	if full {
		*c = chainSize{full: t.Size()}
	} else {
		c.deltas += t.Size()
	}
}

// images writes the images of a store. Each is published with one edit of the manifest, which
// may change more than that: a flush and a compaction publish their segments so.
type images struct {
	*storage.Store
	onPublish func()       // called after segments were published
	bytes     atomic.Int64 // committed since the last image

	// mu lets one flush, image or end of a compaction publish at a time. It guards the rest.
	mu        sync.Mutex
	bad       bool // the chain of images could not be read
	size      chainSize
	forgotten bool // the manifest names no image, because of badPages
}

// setBad says that Open could not read the chain of images.
func (c *images) setBad() { c.bad = true }

// loaded says that Open read an image of the chain.
func (c *images) loaded(t *index.Table, full bool) { c.size.add(t, full) }

// fullDue reports whether the next image is to be a full one.
func (c *images) fullDue(chain []snapshot.ImageInfo) bool {
	if len(chain) == 0 || c.bad || len(chain) >= maxImages {
		return true
	}
	return len(chain) >= minImages && c.size.deltas >= c.size.full
}

// replaced is what a flush or a compaction changes in where pages lie.
type replaced struct {
	placed   []placed                               // parts the new state adds
	drop     func(family uint64, p index.Part) bool // parts it no longer has
	families map[uint64]bool                        // all that may have either
}

// writeImage writes what changed since the last image, so that the next Open
// replays less of the log; with all, or where there is nothing it could be a delta
// to, a full one. mu is held. A failure loses nothing: the log
// still has it all.
func (c *images) writeImage(all bool) error {
	if err := c.checkPages(); err != nil {
		return err
	}
	st := c.Manifest.State()
	full := all || c.fullDue(st.Images)
	imaged, place := c.bytes.Load(), c.logPlace()
	v, dirty := c.ViewDirty()
	defer v.Release()
	if dirty.Empty() && !full {
		return nil
	}
	old, err := c.putImage(imageTask{v: v, dirty: dirty, floor: st.FloorLSN, place: place, full: full})
	if err != nil {
		return fmt.Errorf("image: %w", err)
	}
	c.Files.Retire(old...)
	c.bytes.Add(-imaged) // what was committed since is for the next image
	c.Written.Add(1)
	return nil
}

// publish makes segments that are written part of the store, together with an
// image that knows them, in one manifest edit. It returns the files the edit
// replaced besides those it names. mu is held.
func (c *images) publish(edit snapshot.Edit, r replaced, floor base.LSN) ([]base.FileNum, error) {
	imaged, place := c.bytes.Load(), c.logPlace()
	v, dirty := c.ViewDirty()
	defer v.Release()
	old, err := c.putImage(imageTask{v: v, dirty: dirty, floor: floor, place: place, edit: edit, replaced: r})
	if err == nil {
		c.onPublish()
		c.bytes.Add(-imaged) // what was committed since is for the next image
	}
	return old, err
}

// imageTask says what an image is of, and what else its manifest edit changes.
type imageTask struct {
	v     *storage.View
	dirty index.Dirty // as of the view
	floor base.LSN    // records below it are in segments once this is published
	place snapshot.LogPlace
	edit  snapshot.Edit
	full  bool // even if none is due
	replaced
}

// putImage writes an image and makes it part of the store. It returns the images it
// replaces.
func (c *images) putImage(t imageTask) (old []base.FileNum, err error) {
	st := c.Manifest.State()
	t.full = t.full || c.fullDue(st.Images)
	j := imageJob{images: c, imageTask: t, st: c.usableImages(st), parts: map[uint64][]index.Part{}}
	for _, pl := range t.placed {
		j.parts[pl.fam] = append(j.parts[pl.fam], pl.part)
	}
	// Everything the image names must survive with it, or an Open after a power
	// cut would find an index that is ahead of its log.
	var info snapshot.ImageInfo
	if err = c.Log.Sync(context.Background()); err == nil {
		info, err = j.write()
	}
	if err != nil {
		c.Index.MarkDirty(t.dirty)
		return nil, err
	}
	info.Log = t.place
	chain := append(slices.Clone(st.Images), info)
	if j.full {
		chain, old = chain[len(chain)-1:], imageNums(st.Images)
	}
	t.edit.SetImages = &chain
	if err := j.enter(t.edit); err != nil {
		return nil, err
	}
	table := j.w.Table()
	c.size.add(table, j.full)
	c.Index.Install(table, j.full, j.v.LSN(), t.dirty)
	c.bad = false
	return old, nil
}

func imageNums(images []snapshot.ImageInfo) []base.FileNum {
	var out []base.FileNum
	for _, im := range images {
		out = append(out, im.Num)
	}
	return out
}

// logPlace is where replay can start for an image whose view is taken after the
// call. The caller syncs the log before it tells the manifest.
func (c *images) logPlace() snapshot.LogPlace {
	at := c.Log.Position()
	return snapshot.LogPlace{File: at.File, Offset: at.Offset, Chain: at.Chain, NextLSN: at.NextLSN}
}

// enter makes the image part of the store. If it cannot, what changed since the
// last image still has to go into the next.
func (j *imageJob) enter(edit snapshot.Edit) error {
	_, err := j.Manifest.Apply(edit)
	if err == nil {
		return nil
	}
	j.Index.MarkDirty(j.dirty)
	if storage.NotApplied(err) {
		j.Withdraw(files.Image, j.num)
	}
	return err
}

// checkPages refuses work that needs whole images if one is damaged, and lets the
// manifest forget them. mu is held.
func (c *images) checkPages() error {
	if !c.BadPages.Load() {
		return nil
	}
	if err := c.forgetImages(); err != nil {
		return err
	}
	return errBadPages
}

// checkPagesNow is checkPages for who does not hold mu.
func (c *images) checkPagesNow() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.checkPages()
}

// errBadPages is the answer of flush, image and compaction when a page of the
// saved index is damaged.
var errBadPages = fmt.Errorf("the saved index is damaged; close the store and open it again to rebuild it: %w", fault.ErrCorrupt)

// forgetImages takes the images out of the manifest. Their files stay until the
// next Open: partitions whose pages are whole are still read from them.
func (c *images) forgetImages() error {
	if c.forgotten {
		return nil
	}
	if _, err := c.Manifest.Apply(snapshot.Edit{SetImages: &[]snapshot.ImageInfo{}}); err != nil {
		return fmt.Errorf("forget damaged images: %w", err)
	}
	c.forgotten = true
	return nil
}

// usableImages is st without images that Open could not read: the next image is
// made from segments and log alone.
func (c *images) usableImages(st snapshot.State) snapshot.State {
	if c.bad {
		st.Images = nil
	}
	return st
}

// imageJob writes one image file.
type imageJob struct {
	imageTask
	*images
	st    snapshot.State
	parts map[uint64][]index.Part // of families: what placed adds
	num   base.FileNum
	w     *snapshot.ImageWriter
}

// last is the record up to which earlier images and segments hold everything.
func (j *imageJob) last() base.LSN {
	last := j.floor - 1
	if n := len(j.st.Images); n > 0 {
		last = max(last, j.st.Images[n-1].LSN)
	}
	return last
}

// write writes the image file.
func (j *imageJob) write() (info snapshot.ImageInfo, err error) {
	if j.num, err = j.NewFileNum(); err != nil {
		return info, err
	}
	f, err := j.Opts.FS.Create(j.Files.Path(files.Image, j.num))
	if err != nil {
		return info, fmt.Errorf("create %s: %w", snapshot.ImageName(j.num), err)
	}
	h := snapshot.ImageHeader{Num: j.num, StoreID: j.st.StoreID, LSN: j.v.LSN(), Full: j.full, Salt: j.Opts.Rand()}
	if n := len(j.st.Images); n > 0 && !j.full {
		h.PrevNum = j.st.Images[n-1].Num
	}
	if j.w, err = snapshot.NewImageWriter(f, h, snapshot.WithKeyring(j.Files.Keys)); err == nil {
		j.w.SetPartitions(j.v.Index.Len())
		err = j.contents()
	}
	var size int64
	if err == nil {
		size, err = j.w.Finish()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = j.Opts.FS.SyncDir(j.Dir)
	}
	if err != nil {
		j.RemoveQuietly(files.Image, j.num)
		return info, err
	}
	j.Files.AddKeyed(files.Image, j.num, j.w.KeyID())
	return snapshot.ImageInfo{Num: j.num, LSN: j.v.LSN(), Full: j.full, Size: size}, nil
}

// contents writes families, partitions and tombstones: of a delta, those that changed. All
// items that earlier images and segments do not have are of partitions that changed.
func (j *imageJob) contents() error {
	changed := map[uint64]familyWork{}
	for _, id := range sortedKeys(j.dirty.Partitions) {
		t, err := j.v.Index.Partition(id)
		if err != nil {
			return err
		}
		if t != nil {
			w := changed[t.Family.ID]
			changed[t.Family.ID] = familyWork{fam: t.Family, partitions: append(w.partitions, t)}
		}
	}
	ids, err := j.familyIDs(changed)
	if err != nil {
		return err
	}
	y := j.Throttle.Yielder()
	for _, id := range ids {
		if err := j.family(id, changed[id]); err != nil {
			return err
		}
		y.Yield()
	}
	if err := j.partitions(); err != nil {
		return err
	}
	return j.tombs(j.dirty)
}

// familyIDs are the families the image tells of, in order: all that have partitions,
// or those in which anything changed.
func (j *imageJob) familyIDs(changed map[uint64]familyWork) ([]uint64, error) {
	var ids []uint64
	var err error
	if j.full {
		err = j.v.Index.Rows("", func(r *index.Row, _ *index.Partition) bool { ids = append(ids, r.Family); return true })
	} else {
		ids = slices.AppendSeq(slices.Collect(maps.Keys(changed)), maps.Keys(j.families))
	}
	slices.Sort(ids)
	return slices.Compact(ids), err
}

func (j *imageJob) partitions() error {
	put := func(r index.Row) error {
		return j.w.AddPartition(snapshot.ImagePartition{ID: r.ID, Family: r.Family, Birth: r.Birth, LSN: r.LSN,
			Head: r.Head, Updated: r.Updated, Flags: r.Flags, Deleted: r.Deleted})
	}
	var err error
	if j.full {
		rerr := j.v.Index.Rows("", func(r *index.Row, _ *index.Partition) bool { err = put(*r); return err == nil })
		return cmp.Or(err, rerr)
	}
	for _, id := range sortedKeys(j.dirty.Partitions) {
		r := index.Row{ID: id, Deleted: true}
		t, err := j.v.Index.Partition(id)
		if err != nil {
			return err
		}
		if t != nil {
			r = index.RowOf(t)
		}
		if err := put(r); err != nil {
			return err
		}
	}
	return nil
}

func (j *imageJob) tombs(dirty index.Dirty) error {
	left := map[string]bool{}
	oldest := j.OldestTombstone()
	tombs := j.v.Index.Tombstones()
	slices.SortFunc(tombs, func(a, b index.Tombstone) int { return strings.Compare(a.ID, b.ID) })
	for _, m := range tombs {
		if (m.At < oldest || len(m.Data) == 0) && m.LSN < j.floor {
			continue // as DropTombstones has it
		}
		left[m.ID] = true
		if !j.full && !dirty.Tombstones[m.ID] {
			continue
		}
		if err := j.w.AddTombstone(snapshot.Tombstone{ID: m.ID, LSN: m.LSN, At: m.At, Data: m.Data}); err != nil {
			return err
		}
	}
	if j.full {
		return nil
	}
	for _, id := range sortedKeys(dirty.Tombstones) {
		if !left[id] {
			if err := j.w.RemoveTombstone(id); err != nil {
				return err
			}
		}
	}
	return nil
}

// family writes what the log alone knows of a family since the last image, and
// the list of all its pages. A full image copies pages of earlier images that are
// still needed, so that those images can go.
func (j *imageJob) family(id uint64, w familyWork) error {
	parts, err := j.olderParts(id)
	if err != nil {
		return err
	}
	pages, err := j.newPages(w)
	if err != nil {
		return err
	}
	for _, page := range pages {
		off, n, err := j.w.AddPage(index.EncodePage(page))
		if err != nil {
			return err
		}
		parts = append(parts, index.Part{File: j.num, Off: off, Len: n, MinLSN: j.last() + 1, MaxLSN: j.v.LSN()})
	}
	return j.w.AddFamily(snapshot.ImageFamily{ID: id, Parts: parts})
}

// olderParts are the pages of a family in the state to be published, without the
// new page.
func (j *imageJob) olderParts(id uint64) ([]index.Part, error) {
	parts, err := j.v.Index.Parts(id)
	if err != nil {
		return nil, err
	}
	if j.drop != nil {
		parts = newParts(parts, j.parts[id], func(p index.Part) bool { return j.drop(id, p) })
	}
	if !j.full {
		return parts, nil
	}
	out := make([]index.Part, 0, len(parts)+1)
	var moving []index.Part
	size := 0
	for _, p := range parts {
		switch {
		case !j.Files.IsImage(p.File):
			out = append(out, p)
		case p.MaxLSN >= j.floor:
			moving, size = append(moving, p), size+int(p.Len)
		}
	}
	if len(moving) > 1 && size <= mergedPages {
		moved, err := j.mergePages(id, moving)
		return append(out, moved...), err
	}
	for _, p := range moving {
		moved, err := j.copyPage(p)
		if err != nil {
			return nil, err
		}
		out = append(out, moved)
	}
	return out, nil
}

func (j *imageJob) copyPage(p index.Part) (index.Part, error) {
	h, err := j.Files.Acquire(p.File)
	if err != nil {
		return p, err
	}
	defer j.Files.Release(h)
	b, err := h.Image.ReadPage(p.Off, p.Len)
	if err != nil {
		return p, err
	}
	p.File = j.num
	p.Off, p.Len, err = j.w.AddPage(b)
	return p, err
}

// renewKeys brings image and manifest under the current key, where they are not.
// It comes after a compaction, which did so to the others.
func (c *images) renewKeys() error {
	if c.Keys == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	id, err := c.Keys.CurrentID()
	if err != nil {
		return err
	}
	for _, im := range c.Manifest.State().Images {
		if c.Files.KeyID(im.Num) == id {
			continue
		}
		if err := c.writeImage(true); err != nil {
			return err
		}
		break
	}
	if c.Manifest.KeyID() == id {
		return nil
	}
	return c.Manifest.Renew()
}
