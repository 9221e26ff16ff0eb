package engine

import (
	"errors"
	"maps"
	"slices"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/snapshot"
)

// loadIndex brings the index to the record of the newest image, without reading any page. If an image
// is missing or damaged, the index is made from the segments instead; the log then has everything since
// the floor.
func (e *Engine) loadIndex(st snapshot.State) error {
	err := e.loadImages(st)
	if err == nil && e.Opts.AllowDamage {
		err = e.checkImages(st)
	}
	if err == nil {
		return nil
	}
	if !errors.Is(err, fault.ErrCorrupt) {
		return err
	}
	e.noteDamage(err)
	if e.Opts.AllowDamage && !e.guessed { // without a manifest nobody knows of images
		e.skip(err)
	}
	e.report.IndexRebuilt, e.report.RebuildReason = true, err.Error()
	e.images.setBad()
	e.Index = index.New(e.Opts.loadedBytes())
	e.flusher.reset()
	return e.rebuildIndex(st)
}

// loadImages reads the tables of the images, from the oldest to the newest.
func (e *Engine) loadImages(st snapshot.State) error {
	if len(st.Images) == 0 {
		if len(st.Segments) > 0 {
			return &fault.CorruptionError{File: "MANIFEST", Kind: "image chain", Offset: -1, Detail: "there are segments and no image of the index"}
		}
		return nil
	}
	ld := imageLoad{tombs: map[string]index.Tombstone{}, partitions: -1, later: e.tablesLater(st)}
	var prev base.FileNum
	for _, info := range st.Images {
		if err := e.loadImage(&ld, info, st.StoreID, prev); err != nil {
			return err
		}
		prev = info.Num
	}
	lsn := st.Images[len(st.Images)-1].LSN
	if err := e.Index.Restore(ld.stack, ld.partitions, slices.Collect(maps.Values(ld.tombs)), lsn); err != nil {
		return err
	}
	e.flusher.loaded(lsn)
	return nil
}

// imageLoad collects the tables of a stack of images.
type imageLoad struct {
	stack      []*index.Table
	partitions int // of the store; -1 if the newest image does not say
	tombs      map[string]index.Tombstone
	later      bool // partitions and families are read when they are looked up
}

// tablesLater reports whether the tables of partitions and families may stay on disk until they are
// looked up. They may after a clean close with nothing to replay: then a damaged table costs the
// partitions that may be in it until the store is opened again, see Store.noteBadPage. Otherwise, as
// after a crash, all tables are read now, and damaged ones are replaced immediately. A reader cannot
// replace any, so it reads all of them, too.
func (e *Engine) tablesLater(st snapshot.State) bool {
	last := st.Images[len(st.Images)-1].LSN
	return !e.Opts.ReadOnly && !e.Opts.AllowDamage && st.Clean != nil && st.Clean.LSN <= last
}

// withImage calls read with an image. Damage is noted, as the index may need the image at any time.
func (e *Engine) withImage(num base.FileNum, read func(*snapshot.Image) error) error {
	h, err := e.Files.Acquire(num)
	if err == nil {
		err = read(h.Image)
		e.Files.Release(h)
	}
	e.noteBadPage(err)
	e.noteDamage(err)
	return err
}

// loadImage reads the tables of an image. Partitions and families stay encoded as they are in the file.
// So the cost depends on their bytes, not on their number, or only on the size of the index of their
// table.
func (e *Engine) loadImage(ld *imageLoad, info snapshot.ImageInfo, storeID uint64, prev base.FileNum) error {
	h, err := e.Files.Acquire(info.Num)
	if err != nil {
		return err
	}
	defer e.Files.Release(h)
	if err := h.Image.Check(info, storeID, prev); err != nil {
		return err
	}
	rows := h.Image.Rows
	if ld.later {
		rows = func() (*index.Table, error) {
			return h.Image.RowsAt(func(read func(*snapshot.Image) error) error { return e.withImage(info.Num, read) })
		}
	}
	t, err := rows()
	if err != nil {
		return err
	}
	ld.partitions = -1
	if n, ok := h.Image.Partitions(); ok {
		ld.partitions = n
	}
	e.images.loaded(t, info.Full)
	ld.stack = append(ld.stack, t)
	return h.Image.Table(snapshot.Visitor{
		Tombstone: func(m snapshot.Tombstone) error {
			ld.tombs[m.ID] = index.Tombstone{ID: m.ID, LSN: m.LSN, At: m.At, Data: m.Data}
			return nil
		},
		RemovedTombstone: func(id string) error { delete(ld.tombs, id); return nil },
	})
}

// rebuildIndex makes the index from the pages of all segments. A section of a partition counts unless a
// tombstone is newer than that life of the partition.
func (e *Engine) rebuildIndex(st snapshot.State) error {
	dropped := map[string]index.Tombstone{}
	for _, s := range st.Segments {
		tombs, err := e.SegmentTombstones(s.Num)
		if err != nil {
			if err = e.pastDamage(err); err != nil {
				return err
			}
			e.maybeUndeleted()
		}
		for _, m := range tombs {
			if m.LSN > dropped[m.ID].LSN {
				dropped[m.ID] = m
			}
		}
	}
	r := rebuild{e: e, dropped: dropped, partitions: map[string]*index.Partition{}, families: map[uint64]*index.Family{},
		parts: map[uint64][]index.Part{}, heads: map[string]base.LSN{}, deleted: map[string]map[string]base.LSN{}}
	for _, s := range st.Segments {
		if err := r.segment(s); err != nil {
			if err = e.pastDamage(err); err != nil {
				return err
			}
		}
	}
	lsn := st.FloorLSN - 1
	if e.guessed {
		lsn = r.newest(dropped)
	}
	var tombs []index.Tombstone
	for _, m := range dropped {
		if len(m.Data) > 0 {
			tombs = append(tombs, m)
		}
	}
	if err := e.Index.Restore([]*index.Table{r.table()}, -1, tombs, lsn); err != nil {
		return err
	}
	for id, t := range r.partitions {
		if r.deleted[id][t.Head] > r.heads[id] { // the next head can be found only from the entries
			if _, err := e.loadPartition(id); err != nil {
				return err
			}
		}
	}
	return nil
}

// table returns the rebuilt index as a table.
func (r *rebuild) table() *index.Table {
	var b index.TableBuilder
	for _, id := range slices.Sorted(maps.Keys(r.parts)) {
		b.AddFamily(id, r.parts[id])
	}
	for _, id := range slices.Sorted(maps.Keys(r.partitions)) {
		b.AddPartition(index.RowOf(r.partitions[id]))
	}
	return b.Done()
}

type rebuild struct {
	e          *Engine
	dropped    map[string]index.Tombstone
	partitions map[string]*index.Partition
	families   map[uint64]*index.Family
	parts      map[uint64][]index.Part
	heads      map[string]base.LSN            // by partition: record of the head found
	deleted    map[string]map[string]base.LSN // by partition and key: last deletion
}

func (r *rebuild) segment(s snapshot.SegmentInfo) error {
	h, err := r.e.Files.Acquire(s.Num)
	if err != nil {
		return err
	}
	defer r.e.Files.Release(h)
	fams, err := h.Segment.Families()
	if err != nil {
		return err
	}
	for _, f := range fams {
		part := index.Part{File: s.Num, Off: f.DirOff, Len: f.DirStored, MinLSN: f.MinLSN, MaxLSN: f.MaxLSN}
		p, err := ReadSegmentPage(h, f.ID, part)
		if err != nil {
			if err = r.e.pastDamage(err); err != nil {
				return err
			}
			continue
		}
		r.parts[f.ID] = append(r.parts[f.ID], part)
		for i := range p.Partitions {
			r.section(f.ID, &p.Partitions[i])
		}
	}
	return nil
}

// section merges what one page says of one partition into what earlier pages said.
func (r *rebuild) section(family uint64, pt *index.PagePartition) {
	if r.dropped[pt.ID].LSN > pt.Birth {
		return
	}
	t := r.partitions[pt.ID]
	if t != nil && t.Birth > pt.Birth {
		return
	}
	if t == nil || t.Birth < pt.Birth {
		fam := r.families[family]
		if fam == nil {
			fam = index.NewFamily(family)
			r.families[family] = fam
		}
		t = index.ColdPartition(pt.ID, fam, pt.Birth)
		r.partitions[pt.ID] = t
		r.heads[pt.ID], r.deleted[pt.ID] = 0, map[string]base.LSN{}
	}
	// Time does not tell which page is newer: clocks step back, and a deletion leaves the time as it
	// was.
	if lsn := pt.Newest(); lsn >= t.LSN {
		t.LSN, t.Updated, t.Flags = lsn, pt.Updated, pt.Flags
	}
	for _, it := range pt.Entries {
		switch {
		case it.Deleted():
			r.deleted[pt.ID][it.Key] = max(it.LSN, r.deleted[pt.ID][it.Key])
		case it.Flags&index.FlagHead != 0 && it.Key >= t.Head:
			if it.Key > t.Head {
				t.Head, r.heads[pt.ID] = it.Key, 0
			}
			r.heads[pt.ID] = max(it.LSN, r.heads[pt.ID])
		}
	}
}

// Remade returns a view of an index that is made from segments and log without the images, up to the
// last record that the store knows of. Any damage is an error.
func (e *Engine) Remade() (*View, error) {
	st := e.Found.Clone()
	st.Images = nil
	other := newEngine(e.reread(st))
	other.upTo = e.Index.LSN() // a writer may have gone on since
	e.isOpen.Store(false)      // reads of the original store's files count as opening, too
	defer e.isOpen.Store(true)
	err := other.loadIndex(st)
	if err == nil {
		_, err = other.recoverLog(st, nil, nil)
	}
	if err != nil {
		return nil, err
	}
	return other.ViewWithin(), nil
}

// newest returns the last record that the pages and tombstones of all segments know of. The log is
// replayed from the next record on, as the floor is not known.
func (r *rebuild) newest(dropped map[string]index.Tombstone) base.LSN {
	var lsn base.LSN
	for _, t := range r.partitions {
		lsn = max(lsn, t.LSN)
	}
	for _, m := range dropped {
		lsn = max(lsn, m.LSN)
	}
	return lsn
}
