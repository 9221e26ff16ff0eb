package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/snapshot"
)

// loadIndex brings the index to the record of the newest image, without reading
// any page. A missing or damaged image is made good from the segments; the log
// then has everything since the floor.
func (e *Engine) loadIndex(st snapshot.State) error {
	err := e.loadImages(st)
	if err == nil && e.opts.AllowDamage {
		err = e.checkImages(st)
	}
	if err == nil {
		return nil
	}
	if !errors.Is(err, base.ErrCorrupt) {
		return err
	}
	e.noteDamage(err)
	if e.opts.AllowDamage && !e.guessed { // without a manifest nobody knows of images
		e.skip(err)
	}
	e.report.IndexRebuilt, e.report.RebuildReason = true, err.Error()
	e.badImages = true
	e.ix = index.New()
	e.unflushed = newUnflushed()
	return e.rebuildIndex(st)
}

// loadImages reads the tables of the chain of images, each on top of the last.
func (e *Engine) loadImages(st snapshot.State) error {
	if len(st.Images) == 0 {
		if len(st.Segments) > 0 {
			return &base.CorruptionError{File: "MANIFEST", Kind: "image chain", Offset: -1, Detail: "there are segments and no image of the index"}
		}
		return nil
	}
	t := imageTable{threads: map[string]snapshot.ImageThread{}, families: map[uint64][]index.Part{}, memos: map[string]index.Memo{}}
	var prev base.FileNum
	for _, info := range st.Images {
		if err := e.loadImage(&t, info, st.StoreID, prev); err != nil {
			return err
		}
		prev = info.Num
	}
	return e.indexFrom(&t, st.Images[len(st.Images)-1].LSN)
}

// imageTable gathers the tables of a chain of images.
type imageTable struct {
	threads  map[string]snapshot.ImageThread
	families map[uint64][]index.Part
	memos    map[string]index.Memo
}

func (e *Engine) loadImage(t *imageTable, info snapshot.ImageInfo, storeID uint64, prev base.FileNum) error {
	h, err := e.files.acquire(info.Num)
	if err != nil {
		return err
	}
	defer e.files.release(h)
	if err := h.img.Check(info, storeID, prev); err != nil {
		return err
	}
	return h.img.Table(snapshot.Visitor{
		Thread: func(th snapshot.ImageThread) error {
			if th.Deleted {
				delete(t.threads, th.ID)
			} else {
				t.threads[th.ID] = th
			}
			return nil
		},
		Family: func(f snapshot.ImageFamily) error {
			parts := make([]index.Part, len(f.Parts))
			for i, p := range f.Parts {
				parts[i] = index.Part{File: p.File, Off: p.Off, Len: p.Len, MinLSN: p.MinLSN, MaxLSN: p.MaxLSN}
			}
			t.families[f.ID] = parts
			return nil
		},
		RemovedFamily: func(id uint64) error { delete(t.families, id); return nil },
		Memo: func(m snapshot.Memo) error {
			t.memos[m.ID] = index.Memo{ID: m.ID, LSN: m.LSN, At: m.At, Data: m.Data}
			return nil
		},
		RemovedMemo: func(id string) error { delete(t.memos, id); return nil },
	})
}

// indexFrom fills the index with cold threads.
func (e *Engine) indexFrom(t *imageTable, lsn base.LSN) error {
	fams := map[uint64]*index.Family{}
	c := index.Change{LSN: lsn}
	for _, th := range t.threads {
		fam := fams[th.Family]
		if fam == nil {
			parts, ok := t.families[th.Family]
			if !ok {
				return &base.CorruptionError{File: "image", Kind: "thread table", Offset: -1, Detail: fmt.Sprintf("thread %q is of family %d, which is not there", th.ID, th.Family)}
			}
			fam = index.NewFamily(th.Family)
			fam.SetParts(0, index.Now, parts)
			fams[th.Family] = fam
		}
		ct := index.ColdThread(th.ID, fam, th.Birth)
		ct.LSN, ct.Head, ct.Updated, ct.Flags = th.LSN, th.Head, th.Updated, th.Flags
		c.Put = append(c.Put, ct)
		if slices.ContainsFunc(fam.Parts(), func(p index.Part) bool { return e.files.isImage(p.File) }) {
			e.unflushed.add([]*index.Thread{ct}, lsn) // only image and log have that
		}
	}
	for _, m := range t.memos {
		c.Remember = append(c.Remember, m)
	}
	e.ix.Load(c)
	return nil
}

// rebuildIndex reads the pages of all segments. A section of a thread counts
// unless a tombstone is younger than the life it belongs to.
func (e *Engine) rebuildIndex(st snapshot.State) error {
	dropped := map[string]index.Memo{}
	for _, s := range st.Segments {
		memos, err := e.segmentTombstones(s.Num)
		if err != nil {
			if err = e.pastDamage(err); err != nil {
				return err
			}
			e.skipped.deletions = true
		}
		for _, m := range memos {
			if m.LSN > dropped[m.ID].LSN {
				dropped[m.ID] = m
			}
		}
	}
	r := rebuild{e: e, dropped: dropped, threads: map[string]*index.Thread{}, families: map[uint64]*index.Family{},
		parts: map[uint64][]index.Part{}, heads: map[string]base.LSN{}, deleted: map[string]map[string]base.LSN{}}
	for _, s := range st.Segments {
		if err := r.segment(s); err != nil {
			if err = e.pastDamage(err); err != nil {
				return err
			}
		}
	}
	c := index.Change{LSN: st.FloorLSN - 1}
	if e.guessed {
		c.LSN = r.newest(dropped)
	}
	for _, t := range r.threads {
		t.Family.SetParts(0, index.Now, r.parts[t.Family.ID])
		c.Put = append(c.Put, t)
	}
	for _, m := range dropped {
		if len(m.Data) == 0 {
			continue
		}
		c.Remember = append(c.Remember, m)
	}
	e.ix.Apply(c)
	for id, t := range r.threads {
		if r.deleted[id][t.Head] > r.heads[id] { // only the items tell the next one
			if _, err := e.loadThread(id); err != nil {
				return err
			}
		}
	}
	return nil
}

type rebuild struct {
	e        *Engine
	dropped  map[string]index.Memo
	threads  map[string]*index.Thread
	families map[uint64]*index.Family
	parts    map[uint64][]index.Part
	heads    map[string]base.LSN            // by thread: record of the head found
	deleted  map[string]map[string]base.LSN // by thread and key: last deletion
}

func (r *rebuild) segment(s snapshot.SegmentInfo) error {
	h, err := r.e.files.acquire(s.Num)
	if err != nil {
		return err
	}
	defer r.e.files.release(h)
	fams, err := h.seg.Families()
	if err != nil {
		return err
	}
	for _, f := range fams {
		part := index.Part{File: s.Num, Off: f.DirOff, Len: f.DirStored, MinLSN: f.MinLSN, MaxLSN: f.MaxLSN}
		p, err := readSegmentPage(h, f.ID, part)
		if err != nil {
			if err = r.e.pastDamage(err); err != nil {
				return err
			}
			continue
		}
		r.parts[f.ID] = append(r.parts[f.ID], part)
		for i := range p.Threads {
			r.section(f.ID, &p.Threads[i])
		}
	}
	return nil
}

// section merges what one page says of one thread into what earlier pages said.
func (r *rebuild) section(family uint64, pt *index.PageThread) {
	if r.dropped[pt.ID].LSN > pt.Birth {
		return
	}
	t := r.threads[pt.ID]
	if t != nil && t.Birth > pt.Birth {
		return
	}
	if t == nil || t.Birth < pt.Birth {
		fam := r.families[family]
		if fam == nil {
			fam = index.NewFamily(family)
			r.families[family] = fam
		}
		t = index.ColdThread(pt.ID, fam, pt.Birth)
		r.threads[pt.ID] = t
		r.heads[pt.ID], r.deleted[pt.ID] = 0, map[string]base.LSN{}
	}
	// Not the time decides which page is newer: clocks step back, and a deletion
	// leaves the time as it was.
	if lsn := newestRecord(pt); lsn >= t.LSN {
		t.LSN, t.Updated, t.Flags = lsn, pt.Updated, pt.Flags
	}
	for _, it := range pt.Items {
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

// newestRecord is the last record that a page knows of a thread.
func newestRecord(pt *index.PageThread) base.LSN {
	lsn := pt.Birth
	for _, it := range pt.Items {
		lsn = max(lsn, it.LSN)
	}
	return lsn
}
