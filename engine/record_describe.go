package engine

import (
	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/index"
)

// RecordInfo is a record of the log in words, for tools.
type RecordInfo struct {
	Time int64 // of the commit, unix µs
	Ops  []RecordOpInfo
}

// RecordOpInfo is one operation of a record.
type RecordOpInfo struct {
	Op        string // "put", "delete", "drop", "copy", "flags"
	Partition string
	Key       string // of the entry; the id of the copy
	Flags     uint8
	Slots     []RecordSlotInfo
	Tombstone int // bytes remembered of a dropped partition
}

// RecordSlotInfo is one slot of an entry as a record has it.
type RecordSlotInfo struct {
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

var opNames = map[opKind]string{opPut: "put", opDelete: "delete", opDrop: "drop", opCopy: "copy", opFlags: "flags"}

var slotNames = map[uint8]string{slotNone: "none", slotRef: "earlier", slotInline: "here", slotEmpty: "empty", slotPatch: "patch"}

// DescribeRecord decodes a record with number lsn. Any input gives a description or
// an error.
func DescribeRecord(lsn base.LSN, b []byte) (*RecordInfo, error) {
	rec, err := DecodeRecord(b)
	if err != nil {
		return nil, err
	}
	info := &RecordInfo{Time: rec.time, Ops: make([]RecordOpInfo, 0, len(rec.ops))}
	for i := range rec.ops {
		o := &rec.ops[i]
		oi := RecordOpInfo{Op: opNames[o.kind], Partition: o.id, Key: o.key, Flags: o.flags, Tombstone: len(o.tombstone)}
		for _, s := range o.slots {
			si := RecordSlotInfo{Name: s.name, Tag: s.tag, Value: slotNames[s.encoding]}
			switch s.encoding {
			case slotRef:
				si.Ref = index.Ref{LSN: s.lsn, Ord: s.ord}
			case slotInline, slotPatch:
				si.Ref, si.Offset, si.Len, si.Sum, si.Base = index.Ref{LSN: lsn, Ord: s.ord}, s.off, int64(s.len), s.sum, s.base
			}
			oi.Slots = append(oi.Slots, si)
		}
		info.Ops = append(info.Ops, oi)
	}
	return info, nil
}
