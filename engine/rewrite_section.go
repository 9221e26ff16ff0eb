package engine

import (
	"cmp"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/index"
)

// sectionKey is one life of a partition.
type sectionKey struct {
	id    string
	birth base.LSN
}

// compare orders lives by partition, then by birth.
func (k sectionKey) compare(o sectionKey) int {
	return cmp.Or(cmp.Compare(k.id, o.id), cmp.Compare(k.birth, o.birth))
}

// rewriteSection collects the sections of one life of a partition in the inputs.
type rewriteSection struct {
	index.PagePartition
	lsn    base.LSN // newest record of the page that Updated and Flags come from
	newest map[string]*index.Entry
}

// addSection adds a page's section of a partition.
func addSection(sections map[sectionKey]*rewriteSection, pt *index.PagePartition) {
	key := sectionKey{pt.ID, pt.Birth}
	s := sections[key]
	if s == nil {
		s = &rewriteSection{PagePartition: *pt, newest: map[string]*index.Entry{}}
		sections[key] = s
	}
	if lsn := pt.Newest(); lsn >= s.lsn {
		s.lsn, s.Updated, s.Flags = lsn, pt.Updated, pt.Flags
	}
	for _, it := range pt.Entries {
		if old := s.newest[it.Key]; old == nil || old.LSN < it.LSN {
			s.newest[it.Key] = it
		}
	}
}
