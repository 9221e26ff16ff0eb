package engine

import (
	"maps"
	"slices"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/index"
)

const (
	// pageTarget is about where a page of an image ends and the next begins. A
	// family may have any number of them: a copy of a partition brings all its entries.
	pageTarget = 2 << 20
	// mergedPages bounds the stored size of the pages that a full image merges into one.
	mergedPages = 256 << 10
	// fewPages is how many pages of a family a full image copies as they are. More become one,
	// so that a partition that is read later is read from few places.
	fewPages = 4
)

// newPages returns pages with the entries of records behind last, and the places of their values in the
// log. Partitions need not be loaded: the entries of a cold partition that are not on disk are in
// memory.
func (j *imageWriter) newPages(w Family, last base.LSN) (*pagePacker, error) {
	if slices.ContainsFunc(w.Partitions, func(t *index.Partition) bool { return t.Cold() && t.Birth > last }) {
		if err := w.Load(j.v); err != nil { // a copy of a cold partition brings all its entries
			return nil, err
		}
	}
	all := w.page(last + 1)
	pk := &j.packer
	pk.begin(w.Fam, last, j.cut)
	for i := range all.Partitions {
		pk.partition(&all.Partitions[i])
	}
	pk.moving.addBases()
	pk.behind.addBases()
	return pk, nil
}

// pagePacker divides the new entries of a family into pages. It does not matter which page has an
// entry: loading merges all of them. But beside a flush, entries that the flush moves have pages of
// their own: see task.cut.
type pagePacker struct {
	fam    *index.Family
	last   base.LSN // values up to here have their places in older pages
	cut    base.LSN
	seen   map[index.Ref]bool
	moving pageList // of records up to the cut
	behind pageList // of those behind it
	// The values of an entry and of the one before it, which has most of them too.
	refs, before []index.Ref
}

// keptRefs is the number of values up to which a packer's buffers for a family are reused for the next:
// most families have few.
const keptRefs = 256

// begin prepares for the next family: the pages of the last one are not needed any more.
func (pk *pagePacker) begin(fam *index.Family, last, cut base.LSN) {
	if pk.seen == nil || len(pk.seen) > keptRefs {
		pk.seen = map[index.Ref]bool{}
	}
	clear(pk.seen)
	pk.fam, pk.last, pk.cut = fam, last, cut
	pk.moving.clear()
	pk.behind.clear()
}

// pageList is pages that are filled one after the other.
type pageList struct {
	pages []*index.Page
	room  []index.ValueLoc // for the values of the first page
	size  int              // an upper bound of the encoded size of the last page
	// bases are the bases of patches, which no entry need refer to any more. They get pages of their
	// own, even if older pages have their places.
	bases []index.ValueLoc
}

// partition adds a partition. If it was born behind the cut, all its entries count as behind the cut:
// it may be a copy with older entries.
func (pk *pagePacker) partition(pt *index.PagePartition) {
	before, behind := *pt, *pt
	if before.Entries = nil; pt.Birth <= pk.cut {
		behind.Entries = nil
		for _, it := range pt.Entries {
			if it.LSN <= pk.cut {
				before.Entries = append(before.Entries, it)
			} else {
				behind.Entries = append(behind.Entries, it)
			}
		}
	}
	// A new partition without entries is recorded, too.
	if len(before.Entries) > 0 || len(pt.Entries) == 0 && pt.Birth <= pk.cut {
		pk.entries(&pk.moving, &before)
	}
	if len(behind.Entries) > 0 || len(pt.Entries) == 0 && pt.Birth > pk.cut {
		pk.entries(&pk.behind, &behind)
	}
}

// entries adds the entries of a partition to pages, and the places of their values that are not
// there yet.
func (pk *pagePacker) entries(l *pageList, pt *index.PagePartition) {
	l.section(pt)
	refs, before := pk.refs, pk.before[:0]
	for _, it := range pt.Entries {
		p := l.entry(pt, it)
		refs = refs[:0]
		for i, r := range it.Slots.Refs() {
			refs = append(refs, r)
			if !r.Empty() && r.LSN > pk.last && (i >= len(before) || before[i] != r) {
				pk.places(p, l, r)
			}
		}
		refs, before = before, refs
	}
	pk.refs, pk.before = refs, before
}

// clear drops the pages and keeps memory that the next ones can use.
func (l *pageList) clear() {
	if len(l.pages) > 0 {
		if l.room = l.pages[0].Values[:0]; cap(l.room) > keptRefs {
			l.room = nil
		}
	}
	*l = pageList{pages: l.pages[:0], room: l.room}
}

// section begins the section of a partition, in a new page if need be.
func (l *pageList) section(pt *index.PagePartition) {
	n := len(pt.ID) + 48
	if len(l.pages) == 0 || l.size+n > pageTarget {
		l.pages, l.size = append(l.pages, &index.Page{Values: l.room}), 0
		l.room = nil
	}
	l.size += n
	p := l.pages[len(l.pages)-1]
	head := *pt
	head.Entries = nil
	p.Partitions = append(p.Partitions, head)
}

// entry adds an entry to the section begun, or to one for the rest of the partition in
// a new page, and returns the page.
func (l *pageList) entry(pt *index.PagePartition, it *index.Entry) *index.Page {
	n := len(it.Key) + 32 + it.Slots.Size() + 64*it.Slots.Len()
	if l.size+n > pageTarget && l.size > 0 {
		l.size = pageTarget
		l.section(pt)
	}
	l.size += n
	p := l.pages[len(l.pages)-1]
	section := &p.Partitions[len(p.Partitions)-1]
	section.Entries = append(section.Entries, it)
	return p
}

// places adds the place of a value to a page of l, and those of the bases of its patches to bases. The
// place of a value from before the cut goes to the pages of that side, as the flush moves it.
func (pk *pagePacker) places(p *index.Page, l *pageList, r index.Ref) {
	to := &p.Values
	if l == &pk.behind && r.LSN <= pk.cut {
		l = &pk.moving
		to = &l.bases
	}
	for !pk.seen[r] {
		pk.seen[r] = true
		loc, ok := pk.fam.Loc(r)
		if !ok || !loc.InLog() {
			return
		}
		*to = append(*to, index.ValueLoc{Ref: r, Loc: loc})
		if !loc.Patched() {
			return
		}
		r, to = loc.Base(r), &l.bases
	}
}

// addBases adds the pages of the bases at the end.
func (l *pageList) addBases() {
	for chunk := range slices.Chunk(l.bases, pageTarget/placeSize) {
		l.pages = append(l.pages, &index.Page{Values: chunk})
	}
}

// mergePages copies pages of a family into the image, as one or as many as their entries need.
func (j *imageWriter) mergePages(family uint64, parts []index.Part) ([]index.Part, error) {
	m := pageMerger{sections: map[sectionKey]*rewriteSection{}, seen: map[index.Ref]bool{}}
	lo, hi := parts[0].MinLSN, parts[0].MaxLSN
	for _, p := range parts {
		page, err := j.readPart(family, p)
		if err != nil {
			return nil, err
		}
		m.add(page)
		lo, hi = min(lo, p.MinLSN), max(hi, p.MaxLSN)
	}
	var out []index.Part
	for _, page := range m.pages() {
		off, n, err := j.addPage(page)
		if err != nil {
			return nil, err
		}
		out = append(out, index.Part{File: j.num, Off: off, Len: n, MinLSN: lo, MaxLSN: hi})
	}
	return out, nil
}

// pageMerger merges pages. Of entries with one key it keeps the newest, and of places of one value the
// first, as a reader of all pages would.
type pageMerger struct {
	sections map[sectionKey]*rewriteSection
	seen     map[index.Ref]bool
	values   []index.ValueLoc
}

func (m *pageMerger) add(p *index.Page) {
	for i := range p.Partitions {
		addSection(m.sections, &p.Partitions[i])
	}
	for _, v := range p.Values {
		if !m.seen[v.Ref] {
			m.seen[v.Ref] = true
			m.values = append(m.values, v)
		}
	}
}

// pages returns the merged entries in pages of about pageTarget.
func (m *pageMerger) pages() []*index.Page {
	d := divider{limit: pageTarget}
	for _, key := range slices.SortedFunc(maps.Keys(m.sections), sectionKey.compare) {
		s := m.sections[key]
		pt := s.PagePartition
		pt.Entries = slices.Collect(maps.Values(s.newest))
		index.SortEntries(pt.Entries)
		d.partition(&pt)
	}
	for i, chunk := range slices.Collect(slices.Chunk(m.values, pageTarget/placeSize)) {
		if i == len(d.pages) {
			d.pages = append(d.pages, &index.Page{})
		}
		d.pages[i].Values = chunk
	}
	return d.pages
}
