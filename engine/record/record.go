package record

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/index"
)

// Format is the first byte of every record. A record with a higher one is refused with a
// fault.VersionError.
const Format = 1

const prefix = 5 // format and head length

// OpKind is the first byte of an operation: what it does.
type OpKind uint8

// The operations. A newer one is refused with a fault.VersionError.
const (
	OpPut    OpKind = 1 // an item
	OpDelete OpKind = 2 // the item at a key
	OpDrop   OpKind = 3 // a partition, with what to remember of it
	OpCopy   OpKind = 4 // a partition under another id
	OpFlags  OpKind = 5 // the flags of a partition
	// opFlagsToo is how OpFlags is written behind another operation on the same partition:
	// without the partition's id, which is most of it. It comes with checkpoints. No op has
	// this kind.
	opFlagsToo OpKind = 6
)

// How a slot has its value. Higher numbers are refused as written by a newer version.
const (
	SlotNone   uint8 = 0 // nothing stored under this name and tag
	SlotRef    uint8 = 1 // stored by an earlier record
	SlotInline uint8 = 2 // in this record
	SlotEmpty  uint8 = 3 // made empty by this record
	SlotPatch  uint8 = 4 // in this record, as a patch against an earlier value
)

// Op is one operation of a record.
type Op struct {
	Kind      OpKind
	ID        string // partition
	Key       string // item; or the id of the copy
	Flags     uint8  // item flags; or partition flags
	Slots     []Slot
	Tombstone []byte // OpDrop: what to remember
}

// Slot is a slot as a record has it.
type Slot struct {
	Name, Tag string
	Encoding  uint8     // SlotNone to SlotPatch
	LSN       base.LSN  // SlotRef
	Ord       uint16    // SlotRef: of the record named; stored here: of this record
	Len       uint32    // stored here: of the bytes, which may be a patch
	Sum       uint64    // stored here: of the bytes
	Off       int64     // stored here: of the bytes within the record; set by decoding
	Base      index.Ref // SlotPatch
}

// Record is what one commit asked for: its time, and its operations in order.
type Record struct {
	Time int64 // unix µs
	Ops  []Op
}

// AppendHead returns the part of a record before its values, in the memory of b, which is
// empty. The caller appends the values in the order of the slots that name them.
func AppendHead(b []byte, r *Record) []byte {
	b = append(slices.Grow(b, headRoom(r)), make([]byte, prefix)...)
	b[0] = Format
	b = binary.AppendUvarint(b, uint64(r.Time))
	b = binary.AppendUvarint(b, uint64(len(r.Ops)))
	for i := range r.Ops {
		if o := &r.Ops[i]; o.Kind == OpFlags && i > 0 && r.Ops[i-1].ID == o.ID {
			b = append(b, byte(opFlagsToo), o.Flags)
		} else {
			b = appendOp(b, o)
		}
	}
	binary.LittleEndian.PutUint32(b[1:], uint32(len(b)-prefix))
	return b
}

// headRoom is about how many bytes the head takes, rather more than fewer.
func headRoom(r *Record) int {
	const operation, slot = 24, 20
	n := prefix + 2*binary.MaxVarintLen64
	for i := range r.Ops {
		o := &r.Ops[i]
		n += operation + len(o.ID) + len(o.Key) + len(o.Tombstone)
		for j := range o.Slots {
			n += slot + len(o.Slots[j].Name) + len(o.Slots[j].Tag)
		}
	}
	return n
}

func appendStr(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func appendOp(b []byte, o *Op) []byte {
	b = append(b, byte(o.Kind))
	b = appendStr(b, o.ID)
	switch o.Kind {
	case OpPut:
		b = appendStr(b, o.Key)
		b = append(b, o.Flags)
		b = binary.AppendUvarint(b, uint64(len(o.Slots)))
		for i := range o.Slots {
			b = appendSlot(b, &o.Slots[i])
		}
	case OpDelete, OpCopy:
		b = appendStr(b, o.Key)
	case OpDrop:
		b = binary.AppendUvarint(b, uint64(len(o.Tombstone)))
		b = append(b, o.Tombstone...)
	case OpFlags:
		b = append(b, o.Flags)
	}
	return b
}

func appendSlot(b []byte, s *Slot) []byte {
	b = appendStr(b, s.Name)
	b = appendStr(b, s.Tag)
	b = append(b, s.Encoding)
	switch s.Encoding {
	case SlotRef:
		b = binary.AppendUvarint(b, uint64(s.LSN))
		b = binary.AppendUvarint(b, uint64(s.Ord))
	case SlotInline, SlotPatch:
		b = binary.AppendUvarint(b, uint64(s.Len))
		b = binary.LittleEndian.AppendUint64(b, s.Sum)
	}
	if s.Encoding == SlotPatch {
		b = binary.AppendUvarint(b, uint64(s.Base.LSN))
		b = binary.AppendUvarint(b, uint64(s.Base.Ord))
	}
	return b
}

// Decode reads a record. Any input gives a record or an error; memory is
// bounded by a small multiple of the input's length. Its strings share memory.
func Decode(b []byte) (*Record, error) { return new(Decoder).Decode(b) }

// Decode is the function Decode for one record after the other: operations and slots of
// the result are valid until the next call.
func (d *Decoder) Decode(b []byte) (*Record, error) {
	if len(b) < prefix {
		return nil, fmt.Errorf("record of %d bytes", len(b))
	}
	if b[0] != Format {
		return nil, &fault.VersionError{File: "record", Have: uint32(b[0]), Supported: Format}
	}
	n := binary.LittleEndian.Uint32(b[1:])
	if uint64(n) > uint64(len(b)-prefix) {
		return nil, fmt.Errorf("record head of %d bytes in %d", n, len(b)-prefix)
	}
	head := b[prefix : prefix+int(n)]
	// The index keeps nearly all strings of a head: one copy is less than many.
	*d = Decoder{Cursor: base.Cursor{What: "record", Left: head}, text: string(head), off: prefix + int64(n), total: int64(len(b)), r: d.r, slots: d.slots[:0]}
	r := &d.r
	r.Time = int64(d.Uvarint())
	count := d.Count(2)
	r.Ops = slices.Grow(r.Ops[:0], min(count, 64))
	for range count {
		r.Ops = append(r.Ops, d.op())
		if d.Err != nil {
			return nil, d.Err
		}
	}
	if d.Err == nil && len(d.Left) != 0 {
		d.Fail("%d bytes after the head", len(d.Left))
	}
	if d.Err == nil && d.off != d.total {
		d.Fail("values end at %d of %d", d.off, d.total)
	}
	if d.Err != nil {
		return nil, d.Err
	}
	return r, nil
}

// Decoder decodes one record after the other in the same memory. The zero value is ready.
// It is not for concurrent use.
type Decoder struct {
	base.Cursor        // over the head
	text        string // the head
	ord         int
	off         int64 // where the next inline value lies
	total       int64 // length of the record

	r     Record
	slots []Slot // of all operations
}

// Size is about how much memory takes what replay keeps of the record decoded last.
func (d *Decoder) Size() int {
	const record, operation, slot = 64, 176, 128
	return record + operation*len(d.r.Ops) + slot*len(d.slots) + len(d.text)
}

func (d *Decoder) str() string {
	n := d.Uvarint()
	at := len(d.text) - len(d.Left)
	return d.text[at : at+len(d.Bytes(n))]
}

func (d *Decoder) op() Op {
	o := Op{Kind: OpKind(d.Byte())}
	if o.Kind == opFlagsToo {
		if len(d.r.Ops) == 0 {
			d.Fail("flags of the thread before, and there is none")
			return o
		}
		return Op{Kind: OpFlags, ID: d.r.Ops[len(d.r.Ops)-1].ID, Flags: d.Byte()}
	}
	o.ID = d.str()
	switch o.Kind {
	case OpPut:
		o.Key, o.Flags = d.str(), d.Byte()
		n := d.Count(3)
		if n > base.MaxSlots {
			d.Fail("%d slots", n)
			return o
		}
		from := len(d.slots)
		d.slots = slices.Grow(d.slots, n)
		for range n {
			d.slots = append(d.slots, d.slot())
		}
		o.Slots = d.slots[from:len(d.slots):len(d.slots)]
	case OpDelete, OpCopy:
		o.Key = d.str()
	case OpDrop:
		o.Tombstone = append([]byte(nil), d.Bytes(d.Uvarint())...)
	case OpFlags:
		o.Flags = d.Byte()
	default:
		if d.Err == nil {
			d.Err = &fault.VersionError{File: "record operation", Have: uint32(o.Kind), Supported: uint32(opFlagsToo)}
		}
	}
	return o
}

func (d *Decoder) slot() Slot {
	s := Slot{Name: d.str(), Tag: d.str(), Encoding: d.Byte()}
	switch s.Encoding {
	case SlotNone, SlotEmpty:
	case SlotRef:
		s.LSN = base.LSN(d.Uvarint())
		ord := d.Uvarint()
		if ord > base.MaxSlots || s.LSN == 0 {
			d.Fail("value %d.%d", s.LSN, ord)
		}
		s.Ord = uint16(ord)
	case SlotInline, SlotPatch:
		n := d.Uvarint()
		if sum := d.Bytes(8); sum != nil {
			s.Sum = binary.LittleEndian.Uint64(sum)
		}
		if n > base.MaxStored || int64(n) > d.total-d.off || d.ord >= base.MaxSlots {
			d.Fail("value %d of %d bytes", d.ord, n)
			return s
		}
		s.Len, s.Off, s.Ord = uint32(n), d.off, uint16(d.ord)
		d.off += int64(n)
		d.ord++
		if s.Encoding == SlotPatch {
			s.Base = d.base()
		}
	default:
		if d.Err == nil {
			d.Err = &fault.VersionError{File: "record value", Have: uint32(s.Encoding), Supported: uint32(SlotPatch)}
		}
	}
	return s
}

// base reads which value a patch is against.
func (d *Decoder) base() index.Ref {
	lsn, ord := base.LSN(d.Uvarint()), d.Uvarint()
	if lsn == 0 || ord >= uint64(index.EmptyOrd) {
		d.Fail("patch against %d.%d", lsn, ord)
	}
	return index.Ref{LSN: lsn, Ord: uint16(ord)}
}
