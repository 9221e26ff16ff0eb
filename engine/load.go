package engine

import (
	"errors"
	"fmt"
	"slices"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/segment"
)

// loadPartition returns the newest partition with this id, its entries in memory, or nil.
func (s *Store) loadPartition(id string) (*index.Partition, error) {
	t, _, err := s.loadFirst(id)
	return t, err
}

// loadFirst is loadPartition. first reports whether this call loaded the partition.
func (s *Store) loadFirst(id string) (t *index.Partition, first bool, err error) {
	for {
		t, err := s.Index.Partition(id)
		if err != nil {
			return nil, false, fmt.Errorf("look up partition %q: %w", id, err)
		}
		if t == nil || !t.Cold() {
			return t, false, nil
		}
		loaded, installed, err := s.load(t, nil)
		switch {
		case err == nil && installed:
			return loaded, true, nil
		case err != nil && (!errors.Is(err, errFileGone) || s.Index.Current(t)):
			return nil, false, err
		}
		// A commit changed the partition, or deleted it and its pages went.
	}
}

// load reads a cold partition's pages as view v sees them, or as the index does if v is nil. It
// installs the result in the index if the index still holds t: then nothing has changed the partition
// since.
func (s *Store) load(t *index.Partition, v *View) (loaded *index.Partition, installed bool, err error) {
	floor := s.lastFlushed() // before the parts: see Store
	pages, err := s.readPages(t.Family, v)
	if err != nil {
		return nil, false, fmt.Errorf("load partition %q: %w", t.ID, err)
	}
	loaded, installed = s.loadFrom(pages, t, floor)
	return loaded, installed, nil
}

// loadFamily replaces the cold partitions in a list of partitions of one family by loaded ones. It
// reads the family's pages once.
func (s *Store) loadFamily(partitions []*index.Partition, v *View) error {
	first := slices.IndexFunc(partitions, (*index.Partition).Cold)
	if first < 0 {
		return nil
	}
	floor := s.lastFlushed() // before the parts
	pages, err := s.readPages(partitions[first].Family, v)
	if err != nil {
		return fmt.Errorf("load partition %q: %w", partitions[first].ID, err)
	}
	for i, t := range partitions {
		if t.Cold() {
			partitions[i], _ = s.loadFrom(pages, t, floor)
		}
	}
	return nil
}

func (s *Store) loadFrom(pages []*index.Page, t *index.Partition, floor base.LSN) (loaded *index.Partition, installed bool) {
	var entries []*index.Entry
	id := "" // as a page has it, which the entries hold anyway
	for _, p := range pages {
		for i := range p.Partitions {
			pt := &p.Partitions[i]
			if pt.ID != t.ID || pt.Birth != t.Birth {
				continue
			}
			for _, it := range pt.Entries {
				if it.LSN <= t.LSN {
					id = pt.ID
					entries = append(entries, it)
				}
			}
		}
	}
	loaded = t.Loaded(entries, floor)
	if id != "" {
		loaded.ID = id
	}
	s.loads.Add(1)
	return loaded, s.Index.Swap(t, loaded)
}

// readPages reads all pages of a family as view v sees them, or as the index does if v is nil, and
// tells the family where its values lie. It reads the newest pages too, only to tell the family the
// newest places, which last longest: see Store, Files and epochs.
func (s *Store) readPages(fam *index.Family, v *View) ([]*index.Page, error) {
	for range moveRetries {
		now, err := s.Index.Parts(fam.ID)
		if err != nil {
			return nil, err
		}
		if v == nil {
			pages, err := s.readParts(fam, now, latest)
			if !errors.Is(err, errFileGone) {
				return pages, err
			}
			continue
		}
		then, err := v.Index.Parts(fam.ID)
		if err != nil {
			return nil, err
		}
		if !slices.Equal(now, then) {
			if _, err := s.readParts(fam, now, latest); errors.Is(err, errFileGone) {
				continue
			} else if err != nil {
				return nil, err
			}
		}
		return s.readParts(fam, then, v.epoch)
	}
	return nil, fmt.Errorf("family %d keeps moving: %w", fam.ID, errFileGone)
}

// readParts reads the pages of fam that parts name, those of segments before those of images, and tells fam the
// places of values that it does not know yet, in files that last for a view of the epoch.
func (s *Store) readParts(fam *index.Family, parts []index.Part, epoch uint64) ([]*index.Page, error) {
	pages := make([]*index.Page, 0, len(parts))
	for _, images := range []bool{false, true} {
		for _, part := range parts {
			if s.Files.isImage(part.File) != images {
				continue
			}
			p, err := s.readPart(fam.ID, part)
			if err != nil {
				if err = s.pastDamage(err); err != nil {
					return nil, err
				}
				continue
			}
			pages = append(pages, p)
			fam.AddMissing(p.Values, s.Files.lasting(epoch))
		}
	}
	return pages, nil
}

// readPart reads one page.
func (s *Store) readPart(fam uint64, part index.Part) (p *index.Page, err error) {
	h, err := s.Files.Acquire(part.File)
	if err != nil {
		if s.Files.isImage(part.File) {
			s.noteBadPage(err)
		}
		return nil, err
	}
	defer s.Files.Release(h)
	if h.Kind == base.ImageFile {
		p, err = readImagePage(h, part)
		s.noteBadPage(err)
	} else {
		p, err = ReadSegmentPage(h, fam, part)
	}
	s.noteDamage(err)
	return p, err
}

func readImagePage(h *FileHandle, part index.Part) (*index.Page, error) {
	b, err := h.Image.ReadPage(part.Off, part.Len)
	if err != nil {
		return nil, err
	}
	return DecodePage(h, part, b)
}

// ReadSegmentPage reads the page that a segment has of a family.
func ReadSegmentPage(h *FileHandle, fam uint64, part index.Part) (*index.Page, error) {
	if h.Segment == nil {
		return nil, &fault.CorruptionError{File: h.Kind.Name(h.Num), Kind: "page reference", Offset: int64(part.Off), Detail: "names a file that is no segment"}
	}
	dir, values, err := h.Segment.DirectoryAt(fam, part.Off, part.Len)
	if err != nil {
		return nil, err
	}
	p, err := DecodePage(h, part, dir)
	if err != nil {
		return nil, err
	}
	p.Values = make([]index.ValueLoc, len(values))
	for i, v := range values {
		var ok bool
		if p.Values[i], ok = placeOf(h.Num, v); !ok {
			return nil, &fault.CorruptionError{File: h.Kind.Name(h.Num), Kind: "value table", Offset: int64(part.Off), Len: int64(part.Len),
				Detail: fmt.Sprintf("value %d.%d is a patch against %d.%d", v.LSN, v.Ord, v.Base.LSN, v.Base.Ord)}
		}
	}
	return p, nil
}

// placeOf converts a row of a segment's value table to a place of the index; false for a patch whose
// base is of the same record or too far back.
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

// DecodePage decodes a page; damage names the file.
func DecodePage(h *FileHandle, part index.Part, b []byte) (*index.Page, error) {
	p, err := index.DecodePage(b)
	if err != nil {
		if errors.Is(err, fault.ErrVersion) {
			return nil, err
		}
		return nil, &fault.CorruptionError{File: h.Kind.Name(h.Num), Kind: "index page", Offset: int64(part.Off), Len: int64(part.Len), Err: err}
	}
	return p, nil
}
