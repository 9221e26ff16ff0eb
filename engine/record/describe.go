package record

import (
	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/index"
)

// Info is a record of the log in words, for tools.
type Info struct {
	Time int64 // of the commit, unix µs
	Ops  []OpInfo
}

// OpInfo is one operation of a record.
type OpInfo struct {
	Op        string // "put", "delete", "drop", "copy", "flags"
	Partition string
	Key       string // of the item; the id of the copy
	Flags     uint8
	Slots     []SlotInfo
	Tombstone int // bytes remembered of a dropped partition
}

// SlotInfo is one slot of an item as a record has it.
type SlotInfo struct {
	Name, Tag string
	// Value is "none", "earlier" (stored by another record: Ref), "here" (Ref, Offset,
	// Len), "patch" (as here, and made of Base), or "empty".
	Value  string
	Ref    index.Ref
	Base   index.Ref // of a patch
	Offset int64     // of the value within the record
	Len    int64
	Sum    uint64
}

var opNames = map[OpKind]string{OpPut: "put", OpDelete: "delete", OpDrop: "drop", OpCopy: "copy", OpFlags: "flags"}

var slotNames = map[uint8]string{SlotNone: "none", SlotRef: "earlier", SlotInline: "here", SlotEmpty: "empty", SlotPatch: "patch"}

// Describe decodes a record with number lsn. Any input gives a description or
// an error.
func Describe(lsn base.LSN, b []byte) (*Info, error) {
	rec, err := Decode(b)
	if err != nil {
		return nil, err
	}
	info := &Info{Time: rec.Time, Ops: make([]OpInfo, 0, len(rec.Ops))}
	for i := range rec.Ops {
		o := &rec.Ops[i]
		oi := OpInfo{Op: opNames[o.Kind], Partition: o.ID, Key: o.Key, Flags: o.Flags, Tombstone: len(o.Tombstone)}
		for _, s := range o.Slots {
			si := SlotInfo{Name: s.Name, Tag: s.Tag, Value: slotNames[s.Encoding]}
			switch s.Encoding {
			case SlotRef:
				si.Ref = index.Ref{LSN: s.LSN, Ord: s.Ord}
			case SlotInline, SlotPatch:
				si.Ref, si.Offset, si.Len, si.Sum, si.Base = index.Ref{LSN: lsn, Ord: s.Ord}, s.Off, int64(s.Len), s.Sum, s.Base
			}
			oi.Slots = append(oi.Slots, si)
		}
		info.Ops = append(info.Ops, oi)
	}
	return info, nil
}
