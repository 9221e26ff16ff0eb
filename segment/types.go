package segment

import (
	"cmp"

	"github.com/stele-go/stele/base"
)

// ValueID identifies a value by the record that stored it and the value's number in that
// record. It stays the same when a compaction moves the bytes.
type ValueID struct {
	LSN base.LSN
	Ord uint16
}

// Compare orders ids by LSN, then by ordinal.
func (id ValueID) Compare(o ValueID) int {
	if c := cmp.Compare(id.LSN, o.LSN); c != 0 {
		return c
	}
	return cmp.Compare(id.Ord, o.Ord)
}

// Loc is the place of a value's bytes in a segment, as an index keeps it.
type Loc struct {
	Off    uint64 // the frame's offset in the file
	Stored uint32 // the frame's length in the file, header and padding included
	Inner  uint32 // the value's offset in the decoded block
	Len    uint32 // the value's length in bytes
	// Sum is the XXH64 (seed 0) of the value's bytes in the block, which are a patch if
	// the value is stored as one. Because it is kept with the reference, a block that is
	// intact but not the one meant is noticed.
	Sum uint64
}

// Encoding says what a value's bytes are.
type Encoding uint8

const (
	// Whole: the bytes are the value.
	Whole Encoding = 0
	// ReversePatch: the bytes are a patch that makes the value from a newer one,
	// ValueLoc.Base. This package neither makes nor applies patches.
	ReversePatch Encoding = 1
)

// ValueLoc is one row of a family's value table.
type ValueLoc struct {
	ValueID
	Loc
	Encoding Encoding
	Base     ValueID // of a ReversePatch; zero otherwise
}

// FamilyInfo is what the family index says about one family.
type FamilyInfo struct {
	ID        uint64
	DirOff    uint64   // offset of the directory's frame
	DirStored uint32   // its length in the file, header and padding included
	Values    uint32   // number of values
	RawBytes  int64    // sum of the lengths of the values
	Stored    int64    // bytes of all frames of the family in the file
	MinLSN    base.LSN // smallest and largest LSN of its values; 0 if it has none
	MaxLSN    base.LSN
}

// Props describes a whole segment. The footer has them.
type Props struct {
	FormatVersion uint32
	FileNum       base.FileNum
	Salt          uint64
	Size          int64 // of the file, in bytes
	RawBytes      int64 // sum of the lengths of all values
	Families      int
	Values        int64
	// MinLSN and MaxLSN are the bounds of the LSNs of the values, without those that
	// directories or tombstones name. Both are 0 in a segment without values.
	MinLSN base.LSN
	MaxLSN base.LSN
}

func byOffset(a, b extent) int { return cmp.Compare(a.off, b.off) }

// lsnRange widens [lo, hi] to hold l; lo 0 means the range is empty.
func lsnRange(lo, hi, l base.LSN) (base.LSN, base.LSN) {
	if lo == 0 || l < lo {
		lo = l
	}
	return lo, max(hi, l)
}
