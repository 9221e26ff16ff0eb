package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/snapshot"
)

// maxImages bounds the chain of images that Open reads: a full one and deltas.
const maxImages = 16

// writeImage writes what changed since the last image, so that the next Open
// replays less of the log; with all, or where there is nothing it could be a delta
// to, a full one. flushMu is held. A failure loses nothing: the log
// still has it all.
func (e *Engine) writeImage(all bool) error {
	if err := e.checkPages(); err != nil {
		return err
	}
	st := e.manifest.State()
	full := all || len(st.Images) == 0 || len(st.Images) >= maxImages || e.badImages
	imaged, place := e.imageBytes.Load(), e.logPlace()
	v, dirty := e.dirtyView()
	defer v.Release()
	if dirty.Empty() && !full {
		return nil
	}
	// Everything the image names must survive with it, or an Open after a power
	// cut would find an index that is ahead of its log.
	if err := e.log.Sync(context.Background()); err != nil {
		e.ix.MarkDirty(dirty)
		return err
	}
	job := imageJob{e: e, v: v, st: e.usableImages(st), full: full, floor: st.FloorLSN}
	info, parts, err := job.write(dirty)
	if err != nil {
		e.ix.MarkDirty(dirty)
		return fmt.Errorf("image: %w", err)
	}
	info.Log = place
	chain := append(append([]snapshot.ImageInfo{}, st.Images...), info)
	var old []base.FileNum
	if full {
		chain, old = chain[len(chain)-1:], imageNums(st.Images)
	}
	if err := job.enter(snapshot.Edit{SetImages: &chain}, dirty); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	job.installParts(parts)
	e.badImages = false
	e.files.retire(old...)
	e.imageBytes.Add(-imaged) // what was committed since is for the next image
	e.images.Add(1)
	return nil
}

func imageNums(images []snapshot.ImageInfo) []base.FileNum {
	var out []base.FileNum
	for _, im := range images {
		out = append(out, im.Num)
	}
	return out
}

// publish makes a segment that is written part of the store, together with a full
// image that knows it, in one manifest edit. It returns the files the edit
// replaced besides those it names. flushMu is held.
func (e *Engine) publish(edit snapshot.Edit, done []placed, drop func(index.Part) bool, floor base.LSN) ([]base.FileNum, error) {
	imaged, place := e.imageBytes.Load(), e.logPlace()
	iv, dirty := e.dirtyView()
	defer iv.Release()
	if err := e.log.Sync(context.Background()); err != nil {
		e.ix.MarkDirty(dirty)
		return nil, err
	}
	st := e.manifest.State()
	job := imageJob{e: e, v: iv, st: e.usableImages(st), full: true, floor: floor, drop: drop, placed: map[uint64][]index.Part{}}
	for _, pl := range done {
		job.placed[pl.fam.ID] = append(job.placed[pl.fam.ID], pl.part)
	}
	info, parts, err := job.write(dirty)
	if err != nil {
		e.ix.MarkDirty(dirty)
		return nil, err
	}
	info.Log = place
	edit.SetImages = &[]snapshot.ImageInfo{info}
	if err := job.enter(edit, dirty); err != nil {
		return nil, err
	}
	job.installParts(parts)
	e.badImages = false
	e.imageBytes.Add(-imaged) // what was committed since is for the next image
	return imageNums(st.Images), nil
}

// logPlace is where replay can start for an image whose view is taken after the
// call. The caller syncs the log before it tells the manifest.
func (e *Engine) logPlace() snapshot.LogPlace {
	at := e.log.Position()
	return snapshot.LogPlace{File: at.File, Offset: at.Offset, Chain: at.Chain, NextLSN: at.NextLSN}
}

// enter makes the image part of the store. If it cannot, what changed since the
// last image still has to go into the next.
func (j *imageJob) enter(edit snapshot.Edit, dirty index.Dirty) error {
	_, err := j.e.manifest.Apply(edit)
	if err == nil {
		return nil
	}
	j.e.ix.MarkDirty(dirty)
	if notApplied(err) {
		j.e.withdraw(kindImage, j.num)
	}
	return err
}

// notApplied reports whether a manifest edit failed without a trace. After other
// errors it may survive a crash, and the files it names must stay.
func notApplied(err error) bool { return !errors.Is(err, base.ErrPoisoned) }

// withdraw removes a complete file that did not become part of the store.
func (e *Engine) withdraw(k fileKind, n base.FileNum) {
	e.files.drop(n)
	e.removeQuietly(k, n)
}

// noteBadPage remembers that a page of an image is damaged. What the image holds is
// in segments and log as well, but this process has forgotten where: the next
// Open, told of no image, finds it.
func (e *Engine) noteBadPage(err error) {
	if !errors.Is(err, base.ErrCorrupt) || e.badPages.Swap(true) || e.opts.ReadOnly || e.opts.ManualWork {
		return
	}
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// checkPages refuses work that needs whole images if one is damaged, and lets the
// manifest forget them. flushMu is held.
func (e *Engine) checkPages() error {
	if !e.badPages.Load() {
		return nil
	}
	if err := e.forgetImages(); err != nil {
		return err
	}
	return errBadPages
}

// checkPagesNow is checkPages for who does not hold flushMu.
func (e *Engine) checkPagesNow() error {
	e.flushMu.Lock()
	defer e.flushMu.Unlock()
	return e.checkPages()
}

// errBadPages is the answer of flush, image and compaction when a page of the
// saved index is damaged.
var errBadPages = fmt.Errorf("the saved index is damaged; close the store and open it again to rebuild it: %w", base.ErrCorrupt)

// forgetImages takes the images out of the manifest. Their files stay until the
// next Open: threads whose pages are whole are still read from them.
func (e *Engine) forgetImages() error {
	if e.forgotten {
		return nil
	}
	if _, err := e.manifest.Apply(snapshot.Edit{SetImages: &[]snapshot.ImageInfo{}}); err != nil {
		return fmt.Errorf("forget damaged images: %w", err)
	}
	e.forgotten = true
	return nil
}

// usableImages is st without images that Open could not read: the next image is
// made from segments and log alone.
func (e *Engine) usableImages(st snapshot.State) snapshot.State {
	if e.badImages {
		st.Images = nil
	}
	return st
}

// dirtyView is a view with what changed since the last image.
func (e *Engine) dirtyView() (*View, index.Dirty) {
	epoch := e.files.pin()
	iv, dirty := e.ix.ViewDirty()
	return &View{e: e, v: iv, epoch: epoch}, dirty
}

// imageJob writes one image file.
type imageJob struct {
	e      *Engine
	v      *View
	st     snapshot.State
	full   bool
	floor  base.LSN                // records below it are in segments once this is published
	drop   func(index.Part) bool   // parts the published state no longer has
	placed map[uint64][]index.Part // parts the published state adds
	num    base.FileNum
	w      *snapshot.ImageWriter
	parts  map[uint64][]index.Part // of every family written, as the image has them
}

// last is the record up to which earlier images and segments hold everything.
func (j *imageJob) last() base.LSN {
	last := j.floor - 1
	if n := len(j.st.Images); n > 0 {
		last = max(last, j.st.Images[n-1].LSN)
	}
	return last
}

// write writes the image and returns the new pages of the families in it.
func (j *imageJob) write(dirty index.Dirty) (info snapshot.ImageInfo, parts map[uint64][]index.Part, err error) {
	e := j.e
	if j.num, err = e.newFileNum(); err != nil {
		return info, nil, err
	}
	f, err := e.opts.FS.Create(e.files.path(kindImage, j.num))
	if err != nil {
		return info, nil, fmt.Errorf("create %s: %w", snapshot.ImageName(j.num), err)
	}
	h := snapshot.ImageHeader{Num: j.num, StoreID: j.st.StoreID, LSN: j.v.LSN(), Full: j.full, Salt: e.opts.Rand()}
	if n := len(j.st.Images); n > 0 && !j.full {
		h.PrevNum = j.st.Images[n-1].Num
	}
	if j.w, err = snapshot.NewImageWriter(f, h, snapshot.WithStore(e.files.keys)); err == nil {
		j.parts = map[uint64][]index.Part{}
		err = j.contents(dirty)
	}
	var size int64
	if err == nil {
		size, err = j.w.Finish()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = e.opts.FS.SyncDir(e.dir)
	}
	if err != nil {
		e.removeQuietly(kindImage, j.num)
		return info, nil, err
	}
	e.files.addKeyed(kindImage, j.num, j.w.KeyID())
	return snapshot.ImageInfo{Num: j.num, LSN: j.v.LSN(), Full: j.full, Size: size}, j.parts, nil
}

func (j *imageJob) contents(dirty index.Dirty) error {
	wanted := func(id uint64) bool { return j.full || dirty.Families[id] != nil }
	for _, w := range familiesOf(j.v, wanted) {
		if err := j.family(w); err != nil {
			return err
		}
	}
	if err := j.threads(dirty); err != nil {
		return err
	}
	return j.memos(dirty)
}

func (j *imageJob) threads(dirty index.Dirty) error {
	put := func(t *index.Thread) error {
		return j.w.AddThread(snapshot.ImageThread{ID: t.ID, Family: t.Family.ID, Birth: t.Birth, LSN: t.LSN,
			Head: t.Head, Updated: t.Updated, Flags: t.Flags})
	}
	var err error
	if j.full {
		j.v.Ascend("", func(t *index.Thread) bool { err = put(t); return err == nil })
		return err
	}
	for _, id := range sortedKeys(dirty.Threads) {
		t := j.v.v.Thread(id)
		if t == nil {
			err = j.w.AddThread(snapshot.ImageThread{ID: id, Deleted: true})
		} else {
			err = put(t)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (j *imageJob) memos(dirty index.Dirty) error {
	left := map[string]bool{}
	oldest := j.e.oldestMemo()
	memos := j.v.v.Memos()
	slices.SortFunc(memos, func(a, b index.Memo) int { return strings.Compare(a.ID, b.ID) })
	for _, m := range memos {
		if (m.At < oldest || len(m.Data) == 0) && m.LSN < j.floor {
			continue // as DropTombstones has it
		}
		left[m.ID] = true
		if !j.full && !dirty.Memos[m.ID] {
			continue
		}
		if err := j.w.AddMemo(snapshot.Memo{ID: m.ID, LSN: m.LSN, At: m.At, Data: m.Data}); err != nil {
			return err
		}
	}
	if j.full {
		return nil
	}
	for _, id := range sortedKeys(dirty.Memos) {
		if !left[id] {
			if err := j.w.RemoveMemo(id); err != nil {
				return err
			}
		}
	}
	return nil
}

// family writes what the log alone knows of a family since the last image, and
// the list of all its pages. A full image copies pages of earlier images that are
// still needed, so that those images can go.
func (j *imageJob) family(w familyWork) error {
	parts, err := j.olderParts(w.fam)
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
	j.parts[w.fam.ID] = parts
	out := make([]snapshot.Part, len(parts))
	for i, p := range parts {
		out[i] = snapshot.Part{File: p.File, Off: p.Off, Len: p.Len, MinLSN: p.MinLSN, MaxLSN: p.MaxLSN}
	}
	return j.w.AddFamily(snapshot.ImageFamily{ID: w.fam.ID, Parts: out})
}

// olderParts are the pages of a family in the state to be published, without the
// new page.
func (j *imageJob) olderParts(fam *index.Family) ([]index.Part, error) {
	parts := fam.Parts()
	if p, ok := j.placed[fam.ID]; ok {
		parts = newParts(parts, p, j.drop)
	} else if j.drop != nil {
		parts = withoutParts(parts, j.drop)
	}
	if !j.full {
		return append([]index.Part{}, parts...), nil
	}
	out := make([]index.Part, 0, len(parts)+1)
	for _, p := range parts {
		if !j.e.files.isImage(p.File) {
			out = append(out, p)
			continue
		}
		if p.MaxLSN < j.floor {
			continue
		}
		moved, err := j.copyPage(p)
		if err != nil {
			return nil, err
		}
		out = append(out, moved)
	}
	return out, nil
}

func withoutParts(parts []index.Part, drop func(index.Part) bool) []index.Part {
	var out []index.Part
	for _, p := range parts {
		if !drop(p) {
			out = append(out, p)
		}
	}
	return out
}

func (j *imageJob) copyPage(p index.Part) (index.Part, error) {
	h, err := j.e.files.acquire(p.File)
	if err != nil {
		return p, err
	}
	defer j.e.files.release(h)
	b, err := h.img.ReadPage(p.Off, p.Len)
	if err != nil {
		return p, err
	}
	p.File = j.num
	p.Off, p.Len, err = j.w.AddPage(b)
	return p, err
}

// installParts tells the families where their pages lie now.
func (j *imageJob) installParts(parts map[uint64][]index.Part) {
	epoch, oldest := j.e.files.nextEpoch()
	j.v.Ascend("", func(t *index.Thread) bool {
		if p, ok := parts[t.Family.ID]; ok {
			delete(parts, t.Family.ID)
			t.Family.SetParts(epoch, oldest, p)
		}
		return true
	})
}

// removeQuietly removes a file that no manifest names; if that fails, the next
// Open does it.
func (e *Engine) removeQuietly(k fileKind, n base.FileNum) {
	if err := e.opts.FS.Remove(e.files.path(k, n)); err != nil && !errors.Is(err, errNotExist) {
		e.opts.Logger.Warn("remove unpublished file", "file", k.name(n), "error", err)
	}
}
