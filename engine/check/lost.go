package check

import (
	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/index"
)

// Lost is a use of a value of an entry that cannot be read.
type Lost struct {
	Partition string
	Key       string // of the entry
	Slot      int    // which of the entry's
	Name      string // of the slot
	Tag       string
	First     string // name of the entry's first slot
	Err       error
}

// maxLost bounds a list of lost values, so that memory is bounded. It is enough for what one damaged
// place costs; further values are only counted.
const maxLost = 1 << 20

// LostList lists the uses of values that cannot be read.
type LostList struct {
	Values []Lost // the first maxLost
	All    int    // how many there are
}

// Add adds the uses of one value, which cannot be read because of err.
func (l *LostList) Add(uses []Lost, err error) {
	l.All += len(uses)
	for _, u := range uses[:min(len(uses), maxLost-len(l.Values))] {
		u.Err = err
		l.Values = append(l.Values, u)
	}
}

// Finder finds the entries of one family that refer to a value. It looks through them
// once, when something is lost.
type Finder struct {
	W     *engine.Family
	byRef map[index.Ref][]Lost
}

// Of returns the uses of a value, in the order of partitions and keys.
func (u *Finder) Of(ref index.Ref) []Lost {
	if u.byRef != nil {
		return u.byRef[ref]
	}
	u.byRef = map[index.Ref][]Lost{}
	for _, t := range u.W.Partitions {
		t.Ascend("", func(it *index.Entry) bool {
			for i, s := range it.Slots.All() {
				if !s.Ref.Empty() {
					u.byRef[s.Ref] = append(u.byRef[s.Ref], Lost{Partition: t.ID, Key: it.Key, Slot: i, Name: s.Name, Tag: s.Tag, First: it.Slots.At(0).Name})
				}
			}
			return true
		})
	}
	return u.byRef[ref]
}
