package engine

import (
	"github.com/stele-go/stele/index"
)

// LostValue is a value of an item that cannot be read.
type LostValue struct {
	Partition string
	Key       string // of the item
	Slot      int    // which of the item's
	Name      string // of the slot
	Tag       string
	First     string // name of the item's first slot
	Err       error
}

// maxLost bounds a list of lost values: enough for what one damaged place costs, in
// a bounded memory. Beyond it they are counted.
const maxLost = 1 << 20

// lostUses are the uses of values that cannot be read.
type lostUses struct {
	list []LostValue // the first maxLost
	all  int
}

func (l *lostUses) add(uses []LostValue, err error) {
	l.all += len(uses)
	for _, u := range uses[:min(len(uses), maxLost-len(l.list))] {
		u.Err = err
		l.list = append(l.list, u)
	}
}

// users finds the items of one family that refer to a value. It looks through them
// once, when something is lost.
type users struct {
	w     *familyWork
	byRef map[index.Ref][]LostValue
}

// of are the uses of a value, in the order of partitions and keys.
func (u *users) of(ref index.Ref) []LostValue {
	if u.byRef != nil {
		return u.byRef[ref]
	}
	u.byRef = map[index.Ref][]LostValue{}
	for _, t := range u.w.partitions {
		t.Ascend("", func(it *index.Item) bool {
			for i, s := range it.Slots {
				if !s.Ref.Empty() {
					u.byRef[s.Ref] = append(u.byRef[s.Ref], LostValue{Partition: t.ID, Key: it.Key, Slot: i, Name: s.Name, Tag: s.Tag, First: it.Slots[0].Name})
				}
			}
			return true
		})
	}
	return u.byRef[ref]
}
