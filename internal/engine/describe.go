package engine

import (
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/base"
)

// RecordInfo is a record of the log in words, for tools.
type RecordInfo struct {
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

var opNames = map[opKind]string{opPut: "put", opDelete: "delete", opDrop: "drop", opCopy: "copy", opFlags: "flags"}

var slotNames = map[uint8]string{slotNone: "none", slotRef: "earlier", slotInline: "here", slotEmpty: "empty", slotPatch: "patch"}

// DescribeRecord decodes a record with number lsn. Any input gives a description or
// an error.
func DescribeRecord(lsn base.LSN, b []byte) (*RecordInfo, error) {
	rec, err := decodeRecord(b)
	if err != nil {
		return nil, err
	}
	info := &RecordInfo{Time: rec.time, Ops: make([]OpInfo, 0, len(rec.ops))}
	for i := range rec.ops {
		o := &rec.ops[i]
		oi := OpInfo{Op: opNames[o.kind], Partition: o.id, Key: o.key, Flags: o.flags, Tombstone: len(o.tomb)}
		for _, s := range o.slots {
			si := SlotInfo{Name: s.name, Tag: s.tag, Value: slotNames[s.enc]}
			switch s.enc {
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

// DescribeTombstones decodes the tombstones of a segment.
func DescribeTombstones(b []byte) ([]index.Tombstone, error) { return decodeTombstones(b) }
