package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/snapshot"
)

// task says what an image contains, and what else its manifest edit changes.
type task struct {
	v     *View
	dirty index.Dirty // as of the view
	floor base.LSN    // records below it are in segments once this is published
	place snapshot.LogPlace
	edit  snapshot.Edit
	full  bool // of all partitions
	// cut is, beside a flush, the last record that the flush moves into segments; otherwise 0. Each
	// page has records either up to the cut or behind it. When the flush is published, the former can
	// be removed: they have places in log files that are removed as well.
	cut base.LSN
	replacedSegments
}

// imageWriter writes one image file.
type imageWriter struct {
	task
	*imageStack
	st    snapshot.State
	parts map[uint64][]index.Part // of families: what Replaced.Placed adds
	num   base.FileNum
	w     *snapshot.ImageWriter

	packer pagePacker // of the family that is being written
	page   []byte     // the last page that was encoded, if it was small
}

// last returns the record up to which earlier images and segments hold everything.
func (j *imageWriter) last() base.LSN {
	last := j.floor - 1
	if n := len(j.st.Images); n > 0 {
		last = max(last, j.st.Images[n-1].LSN)
	}
	return last
}

// write writes the image file.
func (j *imageWriter) write() (info snapshot.ImageInfo, err error) {
	if j.num, err = j.newFileNum(); err != nil {
		return info, err
	}
	f, err := j.Opts.FS.Create(j.Files.path(base.ImageFile, j.num))
	if err != nil {
		return info, fmt.Errorf("create %s: %w", base.ImageFile.Name(j.num), err)
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
		j.removeQuietly(base.ImageFile, j.num)
		return info, err
	}
	j.Files.addKeyed(base.ImageFile, j.num, j.w.KeyID())
	return snapshot.ImageInfo{Num: j.num, LSN: j.v.LSN(), Full: j.full, Size: size}, nil
}

// contents writes families, partitions and tombstones; in a delta, those that changed. Entries that
// earlier images and segments do not have belong to partitions that changed.
func (j *imageWriter) contents() error {
	changed := map[uint64]Family{}
	for _, id := range slices.Sorted(maps.Keys(j.dirty.Partitions)) {
		t, err := j.v.Index.Partition(id)
		if err != nil {
			return err
		}
		if t != nil {
			w := changed[t.Family.ID]
			changed[t.Family.ID] = Family{Fam: t.Family, Partitions: append(w.Partitions, t)}
		}
	}
	ids, inMemory, err := j.familyIDs(changed)
	if err != nil {
		return err
	}
	y := j.throttle.yielder()
	for _, id := range ids {
		if err := j.family(id, changed[id], inMemory[id]); err != nil {
			return err
		}
		y.yield()
	}
	if err := j.partitions(); err != nil {
		return err
	}
	return j.tombs(j.dirty)
}

// familyIDs returns the families of the image, in order: those with partitions, or, in a delta, those
// that changed. For a full image inMemory has the changed families whose entries are all in memory.
func (j *imageWriter) familyIDs(changed map[uint64]Family) (ids []uint64, inMemory map[uint64]bool, err error) {
	if j.full {
		inMemory = make(map[uint64]bool, len(changed))
		for id, w := range changed {
			inMemory[id] = !slices.ContainsFunc(w.Partitions, (*index.Partition).Cold)
		}
		err = j.v.Index.Rows("", func(r *index.Row, _ *index.Partition) bool {
			ids = append(ids, r.Family)
			if inMemory[r.Family] && !j.dirty.Partitions[r.ID] {
				inMemory[r.Family] = false
			}
			return true
		})
	} else {
		ids = slices.AppendSeq(slices.Collect(maps.Keys(changed)), maps.Keys(j.families))
	}
	slices.Sort(ids)
	return slices.Compact(ids), inMemory, err
}

func (j *imageWriter) partitions() error {
	put := func(r index.Row) error {
		return j.w.AddPartition(snapshot.ImagePartition{ID: r.ID, Family: r.Family, Birth: r.Birth, LSN: r.LSN,
			Head: r.Head, Updated: r.Updated, Flags: r.Flags, Deleted: r.Deleted})
	}
	var err error
	if j.full {
		rerr := j.v.Index.Rows("", func(r *index.Row, _ *index.Partition) bool { err = put(*r); return err == nil })
		return cmp.Or(err, rerr)
	}
	for _, id := range slices.Sorted(maps.Keys(j.dirty.Partitions)) {
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

func (j *imageWriter) tombs(dirty index.Dirty) error {
	left := map[string]bool{}
	oldest := j.oldestTombstone()
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
	for _, id := range slices.Sorted(maps.Keys(dirty.Tombstones)) {
		if !left[id] {
			if err := j.w.RemoveTombstone(id); err != nil {
				return err
			}
		}
	}
	return nil
}

// family writes the entries of a family that only the log has since the last image, and the list of all
// its pages. A full image also has the entries of earlier images that are still needed, so that those
// images can be removed: copied from them, or made anew if all are in memory.
func (j *imageWriter) family(id uint64, w Family, inMemory bool) error {
	last := j.last()
	if inMemory {
		last = j.floor - 1
	}
	parts, err := j.olderParts(id, inMemory)
	if err != nil {
		return err
	}
	pages, err := j.newPages(w, last)
	if err != nil {
		return err
	}
	behind := max(last, j.cut) + 1
	for _, side := range []struct {
		pages  []*index.Page
		lo, hi base.LSN
	}{{pages.moving.pages, last + 1, j.cut}, {pages.behind.pages, behind, j.v.LSN()}} {
		for _, page := range side.pages {
			off, n, err := j.addPage(page)
			if err != nil {
				return err
			}
			parts = append(parts, index.Part{File: j.num, Off: off, Len: n, MinLSN: side.lo, MaxLSN: side.hi})
		}
	}
	return j.w.AddFamily(snapshot.ImageFamily{ID: id, Parts: parts})
}

// addPage encodes a page, and adds it to the image.
func (j *imageWriter) addPage(p *index.Page) (off uint64, n uint32, err error) {
	b := index.AppendPage(j.page[:0], p)
	if len(b) <= keptPage {
		j.page = b
	}
	return j.w.AddPage(b)
}

// olderParts returns the pages of a family in the state to be published, without the new page, and
// without those of images if anew.
func (j *imageWriter) olderParts(id uint64, anew bool) ([]index.Part, error) {
	var parts []index.Part
	if j.full || index.BornOf(id) <= j.last() { // otherwise no table can have it
		var err error
		if parts, err = j.v.Index.Parts(id); err != nil {
			return nil, err
		}
	}
	if j.drop != nil {
		parts = replaceParts(parts, j.parts[id], func(p index.Part) bool { return j.drop(id, p) })
	}
	if !j.full {
		return parts, nil
	}
	out := make([]index.Part, 0, len(parts)+1)
	var moving []index.Part
	size := 0
	for _, p := range parts {
		switch {
		case !j.Files.isImage(p.File):
			out = append(out, p)
		case !anew && p.MaxLSN >= j.floor:
			moving, size = append(moving, p), size+int(p.Len)
		}
	}
	if len(moving) > fewPages && size <= mergedPages {
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

func (j *imageWriter) copyPage(p index.Part) (index.Part, error) {
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
