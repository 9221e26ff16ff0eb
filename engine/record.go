package engine

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
const recordFormat = 1

const prefix = 5 // format and head length

// opKind is the first byte of an operation: what it does.
type opKind uint8

// The operations. A newer one is refused with a fault.VersionError.
const (
	opPut    opKind = 1 // an entry
	opDelete opKind = 2 // the entry at a key
	opDrop   opKind = 3 // a partition, with what to remember of it
	opCopy   opKind = 4 // a partition under another id
	opFlags  opKind = 5 // the flags of a partition
	// opFlagsToo is opFlags behind another operation on the same partition, written without the
	// partition's id, which would be most of its bytes. Checkpoints write it. Decoding turns it into
	// opFlags.
	opFlagsToo opKind = 6
)

// How a slot's value is stored. Higher numbers are refused as written by a newer version.
const (
	slotNone   uint8 = 0 // nothing stored under this name and tag
	slotRef    uint8 = 1 // stored by an earlier record
	slotInline uint8 = 2 // in this record
	slotEmpty  uint8 = 3 // made empty by this record
	slotPatch  uint8 = 4 // in this record, as a patch against an earlier value
)

// recordOp is one operation of a record.
type recordOp struct {
	kind      opKind
	id        string // partition
	key       string // entry; or the id of the copy
	flags     uint8  // entry flags; or partition flags
	slots     []recordSlot
	tombstone []byte // opDrop: what to remember
}

// recordSlot is a slot as a record has it.
type recordSlot struct {
	name, tag string
	encoding  uint8     // slotNone to slotPatch
	lsn       base.LSN  // slotRef
	ord       uint16    // slotRef: of the record named; stored here: of this record
	len       uint32    // stored here: of the bytes, which may be a patch
	sum       uint64    // stored here: of the bytes
	off       int64     // stored here: of the bytes within the record; set by decoding
	base      index.Ref // slotPatch
}

// logRecord is what the log has of a commit. docs/format/record.md has the bytes:
//
//	u8 format | u32 head length | head | values, one after the other
//
// The head names everything, and values carry no framing: the place of each follows from
// the lengths in the head. So replay never touches the bytes of values.
//
// Decoders of records and tombstones do no I/O. They return an error on any input that is
// none, or of a newer format, and take memory in proportion to the input.
type logRecord struct {
	time int64 // unix µs
	ops  []recordOp
}

// appendRecordHeader returns the part of a record before its values, in the memory of b, which is
// empty. The caller appends the values in the order of the slots that name them.
func appendRecordHeader(b []byte, r *logRecord) []byte {
	b = append(slices.Grow(b, headRoom(r)), make([]byte, prefix)...)
	b[0] = recordFormat
	b = binary.AppendUvarint(b, uint64(r.time))
	b = binary.AppendUvarint(b, uint64(len(r.ops)))
	for i := range r.ops {
		if o := &r.ops[i]; o.kind == opFlags && i > 0 && r.ops[i-1].id == o.id {
			b = append(b, byte(opFlagsToo), o.flags)
		} else {
			b = appendOp(b, o)
		}
	}
	binary.LittleEndian.PutUint32(b[1:], uint32(len(b)-prefix))
	return b
}

// headRoom is about how many bytes the head takes, rather more than fewer.
func headRoom(r *logRecord) int {
	const operation, slot = 24, 20
	n := prefix + 2*binary.MaxVarintLen64
	for i := range r.ops {
		o := &r.ops[i]
		n += operation + len(o.id) + len(o.key) + len(o.tombstone)
		for j := range o.slots {
			n += slot + len(o.slots[j].name) + len(o.slots[j].tag)
		}
	}
	return n
}

func appendStr(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func appendOp(b []byte, o *recordOp) []byte {
	b = append(b, byte(o.kind))
	b = appendStr(b, o.id)
	switch o.kind {
	case opPut:
		b = appendStr(b, o.key)
		b = append(b, o.flags)
		b = binary.AppendUvarint(b, uint64(len(o.slots)))
		for i := range o.slots {
			b = appendSlot(b, &o.slots[i])
		}
	case opDelete, opCopy:
		b = appendStr(b, o.key)
	case opDrop:
		b = binary.AppendUvarint(b, uint64(len(o.tombstone)))
		b = append(b, o.tombstone...)
	case opFlags:
		b = append(b, o.flags)
	}
	return b
}

func appendSlot(b []byte, s *recordSlot) []byte {
	b = appendStr(b, s.name)
	b = appendStr(b, s.tag)
	b = append(b, s.encoding)
	switch s.encoding {
	case slotRef:
		b = binary.AppendUvarint(b, uint64(s.lsn))
		b = binary.AppendUvarint(b, uint64(s.ord))
	case slotInline, slotPatch:
		b = binary.AppendUvarint(b, uint64(s.len))
		b = binary.LittleEndian.AppendUint64(b, s.sum)
	}
	if s.encoding == slotPatch {
		b = binary.AppendUvarint(b, uint64(s.base.LSN))
		b = binary.AppendUvarint(b, uint64(s.base.Ord))
	}
	return b
}

// DecodeRecord reads a record. Any input gives a record or an error; memory is
// bounded by a small multiple of the input's length. Its strings share memory.
func DecodeRecord(b []byte) (*logRecord, error) { return new(recordDecoder).Decode(b) }

// recordTime is when a record was committed, in unix µs, without reading the rest; 0 for bytes that are none.
func recordTime(b []byte) int64 {
	if len(b) < prefix || b[0] != recordFormat {
		return 0
	}
	t, _ := binary.Uvarint(b[prefix:])
	return int64(t)
}

// Decode is DecodeRecord for one record after the other: operations and slots of the result are valid
// until the next call.
func (d *recordDecoder) Decode(b []byte) (*logRecord, error) {
	if len(b) < prefix {
		return nil, fmt.Errorf("record of %d bytes", len(b))
	}
	if b[0] != recordFormat {
		return nil, &fault.VersionError{File: "record", Have: uint32(b[0]), Supported: recordFormat}
	}
	n := binary.LittleEndian.Uint32(b[1:])
	if uint64(n) > uint64(len(b)-prefix) {
		return nil, fmt.Errorf("record head of %d bytes in %d", n, len(b)-prefix)
	}
	head := b[prefix : prefix+int(n)]
	// The index keeps nearly all strings of a head: one copy is less than many.
	*d = recordDecoder{Cursor: base.Cursor{What: "record", Left: head}, text: string(head), off: prefix + int64(n), total: int64(len(b)),
		r: d.r, slots: d.slots[:0]}
	r := &d.r
	r.time = int64(d.Uvarint())
	count := d.Count(2)
	r.ops = slices.Grow(r.ops[:0], min(count, 64))
	for range count {
		r.ops = append(r.ops, d.op())
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

// recordDecoder decodes one record after the other in the same memory. The zero value is ready.
// It is not for concurrent use.
type recordDecoder struct {
	base.Cursor        // over the head
	text        string // the head
	ord         int
	off         int64 // where the next inline value lies
	total       int64 // length of the record

	r     logRecord
	slots []recordSlot // of all operations
}

// Size returns about how much memory the replay keeps of the record decoded last.
func (d *recordDecoder) Size() int {
	const record, operation, slot = 64, 176, 128
	return record + operation*len(d.r.ops) + slot*len(d.slots) + len(d.text)
}

func (d *recordDecoder) str() string {
	n := d.Uvarint()
	at := len(d.text) - len(d.Left)
	return d.text[at : at+len(d.Bytes(n))]
}

func (d *recordDecoder) op() recordOp {
	o := recordOp{kind: opKind(d.Byte())}
	if o.kind == opFlagsToo {
		if len(d.r.ops) == 0 {
			d.Fail("flags of the thread before, and there is none")
			return o
		}
		return recordOp{kind: opFlags, id: d.r.ops[len(d.r.ops)-1].id, flags: d.Byte()}
	}
	o.id = d.str()
	switch o.kind {
	case opPut:
		o.key, o.flags = d.str(), d.Byte()
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
		o.slots = d.slots[from:len(d.slots):len(d.slots)]
	case opDelete, opCopy:
		o.key = d.str()
	case opDrop:
		o.tombstone = append([]byte(nil), d.Bytes(d.Uvarint())...)
	case opFlags:
		o.flags = d.Byte()
	default:
		if d.Err == nil {
			d.Err = &fault.VersionError{File: "record operation", Have: uint32(o.kind), Supported: uint32(opFlagsToo)}
		}
	}
	return o
}

func (d *recordDecoder) slot() recordSlot {
	s := recordSlot{name: d.str(), tag: d.str(), encoding: d.Byte()}
	switch s.encoding {
	case slotNone, slotEmpty:
	case slotRef:
		s.lsn = base.LSN(d.Uvarint())
		ord := d.Uvarint()
		if ord > base.MaxSlots || s.lsn == 0 {
			d.Fail("value %d.%d", s.lsn, ord)
		}
		s.ord = uint16(ord)
	case slotInline, slotPatch:
		n := d.Uvarint()
		if sum := d.Bytes(8); sum != nil {
			s.sum = binary.LittleEndian.Uint64(sum)
		}
		if n > base.MaxStored || int64(n) > d.total-d.off || d.ord >= base.MaxSlots {
			d.Fail("value %d of %d bytes", d.ord, n)
			return s
		}
		s.len, s.off, s.ord = uint32(n), d.off, uint16(d.ord)
		d.off += int64(n)
		d.ord++
		if s.encoding == slotPatch {
			s.base = d.base()
		}
	default:
		if d.Err == nil {
			d.Err = &fault.VersionError{File: "record value", Have: uint32(s.encoding), Supported: uint32(slotPatch)}
		}
	}
	return s
}

// base reads which value a patch is against.
func (d *recordDecoder) base() index.Ref {
	lsn, ord := base.LSN(d.Uvarint()), d.Uvarint()
	if lsn == 0 || ord >= uint64(index.EmptyOrd) {
		d.Fail("patch against %d.%d", lsn, ord)
	}
	return index.Ref{LSN: lsn, Ord: uint16(ord)}
}
