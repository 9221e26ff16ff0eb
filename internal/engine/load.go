package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/segment"
)

// loadThread returns the newest thread with this id, its items in memory, or nil.
func (e *Engine) loadThread(id string) (*index.Thread, error) {
	for {
		t := e.ix.Thread(id)
		if t == nil || !t.Cold() {
			return t, nil
		}
		loaded, err := e.load(t, index.Now)
		now := e.ix.Thread(id)
		switch {
		case err == nil && loaded == now:
			return loaded, nil
		case err != nil && (now == t || !errors.Is(err, errGone)):
			return nil, err
		}
		// A commit changed the thread, or deleted it and its pages went.
	}
}

// load reads a cold thread's pages as a view of the given epoch sees them, and
// installs the result in the index if that still holds t: then nothing touched
// the thread since.
func (e *Engine) load(t *index.Thread, epoch uint64) (*index.Thread, error) {
	threads := []*index.Thread{t}
	if err := e.loadTogether(threads, epoch); err != nil {
		return nil, err
	}
	return threads[0], nil
}

// loadTogether replaces the cold ones of the threads of one family by loaded ones,
// reading the family's pages once.
func (e *Engine) loadTogether(threads []*index.Thread, epoch uint64) error {
	first := slices.IndexFunc(threads, (*index.Thread).Cold)
	if first < 0 {
		return nil
	}
	// The floor is read before the parts: deletions up to it are in segments that
	// the parts read next include.
	floor := e.floor()
	pages, err := e.readPages(threads[first].Family, epoch)
	if err != nil {
		return fmt.Errorf("load thread %q: %w", threads[first].ID, err)
	}
	for i, t := range threads {
		if t.Cold() {
			threads[i] = e.loadFrom(pages, t, floor)
		}
	}
	return nil
}

func (e *Engine) loadFrom(pages []*index.Page, t *index.Thread, floor base.LSN) *index.Thread {
	var items []*index.Item
	for _, p := range pages {
		for i := range p.Threads {
			pt := &p.Threads[i]
			if pt.ID != t.ID || pt.Birth != t.Birth {
				continue
			}
			for _, it := range pt.Items {
				if it.LSN <= t.LSN {
					items = append(items, it)
				}
			}
		}
	}
	loaded := t.Loaded(items, floor)
	e.ix.Swap(t, loaded)
	e.loads.Add(1)
	return loaded
}

// readPages reads all pages of a family, and tells the family where its values
// lie.
func (e *Engine) readPages(fam *index.Family, epoch uint64) ([]*index.Page, error) {
	for range moveRetries {
		pages, err := e.readParts(fam, fam.PartsAt(epoch))
		if !errors.Is(err, errGone) {
			return pages, err
		}
	}
	return nil, fmt.Errorf("family %d keeps moving: %w", fam.ID, errGone)
}

// readParts reads pages of segments before pages of images: a value that was
// flushed since an image was written lies in the segment, and its place in the
// log is stale. The first place told counts.
func (e *Engine) readParts(fam *index.Family, parts []index.Part) ([]*index.Page, error) {
	pages := make([]*index.Page, 0, len(parts))
	for _, images := range []bool{false, true} {
		for _, part := range parts {
			p, isImage, err := e.readPart(fam.ID, part, images)
			if err != nil {
				if err = e.pastDamage(err); err != nil {
					return nil, err
				}
				continue
			}
			if p == nil || isImage != images {
				continue
			}
			pages = append(pages, p)
			fam.AddMissing(p.Places())
		}
	}
	return pages, nil
}

// readPart reads one page if it lies in a file of the kind asked for.
func (e *Engine) readPart(fam uint64, part index.Part, images bool) (p *index.Page, isImage bool, err error) {
	h, err := e.files.acquire(part.File)
	if err != nil {
		if e.files.isImage(part.File) {
			e.noteBadPage(err)
		}
		return nil, false, err
	}
	defer e.files.release(h)
	isImage = h.kind == kindImage
	if isImage != images {
		return nil, isImage, nil
	}
	if isImage {
		p, err = readImagePage(h, part)
		e.noteBadPage(err)
	} else {
		p, err = readSegmentPage(h, fam, part)
	}
	e.noteDamage(err)
	return p, isImage, err
}

func readImagePage(h *handle, part index.Part) (*index.Page, error) {
	b, err := h.img.ReadPage(part.Off, part.Len)
	if err != nil {
		return nil, err
	}
	return decodePage(h, part, b)
}

func readSegmentPage(h *handle, fam uint64, part index.Part) (*index.Page, error) {
	if h.seg == nil {
		return nil, &base.CorruptionError{File: h.kind.name(h.num), Kind: "page reference", Offset: int64(part.Off), Detail: "names a file that is no segment"}
	}
	dir, values, err := h.seg.DirectoryAt(fam, part.Off, part.Len)
	if err != nil {
		return nil, err
	}
	p, err := decodePage(h, part, dir)
	if err != nil {
		return nil, err
	}
	p.Values = make([]index.ValueLoc, len(values))
	for i, v := range values {
		var ok bool
		if p.Values[i], ok = placeOf(h.num, v); !ok {
			return nil, &base.CorruptionError{File: h.kind.name(h.num), Kind: "value table", Offset: int64(part.Off), Len: int64(part.Len),
				Detail: fmt.Sprintf("value %d.%d is a patch against %d.%d", v.LSN, v.Ord, v.Base.LSN, v.Base.Ord)}
		}
	}
	return p, nil
}

// placeOf is a row of a segment's value table as the index has it; false for a
// patch against what nothing is patched against.
func placeOf(num base.FileNum, v segment.ValueLoc) (index.ValueLoc, bool) {
	vl := index.ValueLoc{
		Ref: index.Ref{LSN: v.LSN, Ord: v.Ord},
		Loc: index.Loc{File: num, Off: v.Off, Stored: v.Stored, Inner: v.Inner, Len: v.Len, Sum: v.Sum},
	}
	if v.Encoding == segment.Whole {
		return vl, true
	}
	var ok bool
	vl.Loc, ok = vl.Loc.Against(vl.Ref, index.Ref{LSN: v.Base.LSN, Ord: v.Base.Ord})
	return vl, ok
}

func decodePage(h *handle, part index.Part, b []byte) (*index.Page, error) {
	p, err := index.DecodePage(b)
	if err != nil {
		if errors.Is(err, base.ErrVersion) {
			return nil, err
		}
		return nil, &base.CorruptionError{File: h.kind.name(h.num), Kind: "index page", Offset: int64(part.Off), Len: int64(part.Len), Err: err}
	}
	return p, nil
}
