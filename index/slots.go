package index

import (
	"encoding/binary"
	"iter"
	"slices"

	"github.com/stele-go/stele/internal/base"
)

// Slots are the slots of an item, in one piece: an index of many items would be pointers to
// short strings for the most part, which the garbage collector follows one by one. The zero
// value is none. What it holds is read slot by slot, from the first: At and Ref are for the
// first few, All and Append for all of them.
type Slots struct {
	packed string    // number of slots, newest record, and each slot; see PackSlots
	long   *[]string // names and tags that are too long to be copied for each item; nil for none
}

// longName is how long a name or a tag is, at least, that is not copied. An item read from a
// page has it in common with the others of the page; so what a page decodes to is in
// proportion to its length.
const longName = 40

// PackSlots packs slots, of which it keeps only long names and tags.
func PackSlots(slots []Slot) Slots {
	if len(slots) == 0 {
		return Slots{}
	}
	newest := base.LSN(0)
	for i := range slots {
		newest = max(newest, slots[i].Ref.LSN)
	}
	var room [1024]byte
	var long []string
	b := binary.AppendUvarint(room[:0], uint64(len(slots)))
	b = binary.AppendUvarint(b, uint64(newest))
	name := func(s string) {
		if len(s) < longName {
			b = binary.AppendUvarint(b, uint64(len(s))<<1)
			b = append(b, s...)
			return
		}
		b = binary.AppendUvarint(b, uint64(len(long))<<1|1)
		long = append(long, s)
	}
	for i := range slots {
		s := &slots[i]
		name(s.Name)
		name(s.Tag)
		b = binary.AppendUvarint(b, uint64(newest-s.Ref.LSN))
		b = binary.AppendUvarint(b, uint64(s.Ref.Ord))
	}
	if long == nil {
		return Slots{packed: string(b)}
	}
	kept := slices.Clip(long) // long itself would be on the heap for every item
	return Slots{packed: string(b), long: &kept}
}

// Len is the number of slots.
func (s Slots) Len() int {
	if s.packed == "" {
		return 0
	}
	r := slotReader{Slots: s}
	return int(r.uvarint())
}

// At returns the i-th slot.
func (s Slots) At(i int) Slot {
	r := s.reader()
	for range i {
		r.next()
	}
	return r.next()
}

// All are the slots and their numbers.
func (s Slots) All() iter.Seq2[int, Slot] { return s.From(0) }

// From is All without the slots before the i-th.
func (s Slots) From(first int) iter.Seq2[int, Slot] {
	return func(yield func(int, Slot) bool) {
		r := s.reader()
		for i := range s.Len() {
			if slot := r.next(); i >= first && !yield(i, slot) {
				return
			}
		}
	}
}

// Contain reports whether a slot refers to what is returns true for.
func (s Slots) Contain(is func(Ref) bool) bool {
	for _, slot := range s.All() {
		if is(slot.Ref) {
			return true
		}
	}
	return false
}

// Equal reports whether s and o are the same slots.
func (s Slots) Equal(o Slots) bool { return slices.Equal(s.Append(nil, 0), o.Append(nil, 0)) }

// size is the memory they take, about.
func (s Slots) size() int {
	n := len(s.packed)
	for _, name := range s.longNames() {
		n += 16 + len(name)
	}
	return n
}

func (s Slots) longNames() []string {
	if s.long == nil {
		return nil
	}
	return *s.long
}

// Append appends the slots to out, but for those before the first-th.
func (s Slots) Append(out []Slot, first int) []Slot {
	for _, slot := range s.From(first) {
		out = append(out, slot)
	}
	return out
}

// slotReader reads slots one after the other.
type slotReader struct {
	Slots
	newest base.LSN
	at     int // in packed
}

func (s Slots) reader() slotReader {
	r := slotReader{Slots: s}
	if s.packed != "" {
		r.uvarint()
		r.newest = base.LSN(r.uvarint())
	}
	return r
}

func (r *slotReader) next() Slot {
	return Slot{Name: r.name(), Tag: r.name(), Ref: Ref{LSN: r.newest - base.LSN(r.uvarint()), Ord: uint16(r.uvarint())}}
}

func (r *slotReader) name() string {
	n := int(r.uvarint())
	if n&1 != 0 {
		return (*r.long)[n>>1]
	}
	r.at += n >> 1
	return r.packed[r.at-n>>1 : r.at]
}

func (r *slotReader) uvarint() uint64 {
	b := r.packed[r.at]
	r.at++
	if b < 0x80 {
		return uint64(b)
	}
	n := uint64(b & 0x7f)
	for shift := 7; ; shift += 7 {
		b = r.packed[r.at]
		r.at++
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return n
		}
	}
}
