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
	// mergedPages bounds the stored size of the pages that a full image makes one of.
	mergedPages = 256 << 10
	// fewPages is how many pages of a family a full image copies as they are. More become one,
	// so that a partition that is read later is read from few places.
	fewPages = 4
)

// newPages hold the entries of records behind last, and the places of their values in the log.
// Partitions need not be loaded for it: what a cold partition has not on disk is in memory.
func (j *imageWriter) newPages(w Family, last base.LSN) (*pagePacker, error) {
	if slices.ContainsFunc(w.Partitions, func(t *index.Partition) bool { return t.Cold() && t.Birth > last }) {
		if err := w.Load(j.v); err != nil { // a copy of a cold partition takes it all along
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

// pagePacker divides the new entries of a family into pages. Which page has an entry does not
// matter to who reads it: loading merges all of them. But beside a flush the pages of what the
// flush moves are apart from the others: see task.cut.
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

// keptRefs is the number of values up to which what a packer needs for a family is used again
// for the next: most have few.
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
	// bases are what values are patches against, wherever their places are told of
	// already: no entry need refer to them any more. They get pages of their own.
	bases []index.ValueLoc
}

// partition adds a partition. One that was born behind the cut may be a copy, with entries from
// before it: all of them are behind it.
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
	// Without entries, it is news that the partition is there.
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

// clear drops the pages, but for memory that the next ones can use.
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

// places adds the place of a value to a page of l, and those of what it is a patch against to
// the bases. The place of a value from before the cut goes with that side: the flush moves it.
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

// addBases ends the pages with those of the bases.
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

// pageMerger gathers pages: of entries with one key the newest, of places of one value
// the first told, as a reader of all of them would find.
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

// pages are what was gathered, in pages of about pageTarget.
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
