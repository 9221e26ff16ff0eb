package index

import (
	"encoding/binary"
	"iter"
	"slices"

	"github.com/stele-go/stele/base"
)

// Slots are the slots of an entry, packed into one string: otherwise an index of many entries would
// mostly be pointers to short strings, which the garbage collector follows one by one. They are read
// from the first on. The zero value has no slots.
type Slots struct {
	packed string    // see PackSlots
	long   *[]string // names and tags that are too long to be copied for each entry; nil for none
}

// longName is the length from which a name or a tag is shared and not copied for each entry. So the
// decoded size of a page is in proportion to its encoded one.
const longName = 40

// PackSlots packs slots: their number, the newest record that they refer to, and the length of the
// refs; the refs, each as its distance from the newest record and its ordinal; then names and tags. It
// keeps no memory of slots except long names and tags.
func PackSlots(slots []Slot) Slots {
	if len(slots) == 0 {
		return Slots{}
	}
	newest := base.LSN(0)
	for i := range slots {
		newest = max(newest, slots[i].Ref.LSN)
	}
	var refRoom, room [512]byte
	refs := refRoom[:0]
	for i := range slots {
		refs = binary.AppendUvarint(refs, uint64(newest-slots[i].Ref.LSN))
		refs = binary.AppendUvarint(refs, uint64(slots[i].Ref.Ord))
	}
	b := binary.AppendUvarint(room[:0], uint64(len(slots)))
	b = binary.AppendUvarint(b, uint64(newest))
	b = binary.AppendUvarint(b, uint64(len(refs)))
	b = append(b, refs...)
	var long []string
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
		name(slots[i].Name)
		name(slots[i].Tag)
	}
	if long == nil {
		return Slots{packed: string(b)}
	}
	kept := slices.Clip(long) // the address of long would put it on the heap for every entry
	return Slots{packed: string(b), long: &kept}
}

// Len is the number of slots.
func (s Slots) Len() int {
	if s.packed == "" {
		return 0
	}
	return int((&packedReader{text: s.packed}).uvarint())
}

// At returns the i-th slot. It reads those before it.
func (s Slots) At(i int) Slot {
	for _, slot := range s.From(i) {
		return slot
	}
	panic("index: no such slot")
}

// All yields the slots and their numbers.
func (s Slots) All() iter.Seq2[int, Slot] { return s.From(0) }

// From is All from the i-th slot on.
func (s Slots) From(i int) iter.Seq2[int, Slot] {
	return func(yield func(int, Slot) bool) {
		n, newest, refs, names := s.open()
		for at := range n {
			slot := Slot{Name: names.name(s.long), Tag: names.name(s.long), Ref: refs.ref(newest)}
			if at >= i && !yield(at, slot) {
				return
			}
		}
	}
}

// Refs yields the numbers of the slots and their refs. It is cheaper than All, as it reads no names and
// tags.
func (s Slots) Refs() iter.Seq2[int, Ref] {
	return func(yield func(int, Ref) bool) {
		n, newest, refs, _ := s.open()
		for at := range n {
			if !yield(at, refs.ref(newest)) {
				return
			}
		}
	}
}

// Contain reports whether a slot refers to a value for which is returns true.
func (s Slots) Contain(is func(Ref) bool) bool {
	for _, r := range s.Refs() {
		if is(r) {
			return true
		}
	}
	return false
}

// Equal reports whether s and o are the same slots.
func (s Slots) Equal(o Slots) bool {
	return s.packed == o.packed && slices.Equal(s.longNames(), o.longNames())
}

// Append appends the slots to out, but for those before the first-th.
func (s Slots) Append(out []Slot, first int) []Slot {
	for _, slot := range s.From(first) {
		out = append(out, slot)
	}
	return out
}

// Size returns about how much memory the slots take; it is no less than the length of their names and
// tags.
func (s Slots) Size() int {
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

// open returns what PackSlots packed.
func (s Slots) open() (n int, newest base.LSN, refs, names packedReader) {
	if s.packed == "" {
		return
	}
	r := packedReader{text: s.packed}
	n, newest = int(r.uvarint()), base.LSN(r.uvarint())
	size := int(r.uvarint())
	return n, newest, r, packedReader{s.packed, r.at + size}
}

// packedReader reads what PackSlots packed.
type packedReader struct {
	text string
	at   int
}

// ref reads a Ref, whose LSN is packed as its distance from newest.
func (r *packedReader) ref(newest base.LSN) Ref {
	return Ref{LSN: newest - base.LSN(r.uvarint()), Ord: uint16(r.uvarint())}
}

func (r *packedReader) name(long *[]string) string {
	n := int(r.uvarint())
	if n&1 != 0 {
		return (*long)[n>>1]
	}
	r.at += n >> 1
	return r.text[r.at-n>>1 : r.at]
}

func (r *packedReader) uvarint() uint64 {
	b := r.text[r.at]
	r.at++
	if b < 0x80 {
		return uint64(b)
	}
	n := uint64(b & 0x7f)
	for shift := 7; ; shift += 7 {
		b = r.text[r.at]
		r.at++
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return n
		}
	}
}
