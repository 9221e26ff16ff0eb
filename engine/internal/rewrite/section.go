package rewrite

import (
	"cmp"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/index"
)

// SectionKey is one life of a partition.
type SectionKey struct {
	ID    string
	Birth base.LSN
}

// Compare orders lives by partition, then by birth.
func (k SectionKey) Compare(o SectionKey) int {
	return cmp.Or(cmp.Compare(k.ID, o.ID), cmp.Compare(k.Birth, o.Birth))
}

// Section gathers what the inputs say of one life of a partition.
type Section struct {
	index.PagePartition
	lsn    base.LSN // newest record of the page that Updated and Flags come from
	Newest map[string]*index.Item
}

// AddSection adds what a page says of a partition.
func AddSection(sections map[SectionKey]*Section, pt *index.PagePartition) {
	key := SectionKey{pt.ID, pt.Birth}
	s := sections[key]
	if s == nil {
		s = &Section{PagePartition: *pt, Newest: map[string]*index.Item{}}
		sections[key] = s
	}
	if lsn := pt.Newest(); lsn >= s.lsn {
		s.lsn, s.Updated, s.Flags = lsn, pt.Updated, pt.Flags
	}
	for _, it := range pt.Items {
		if old := s.Newest[it.Key]; old == nil || old.LSN < it.LSN {
			s.Newest[it.Key] = it
		}
	}
}
