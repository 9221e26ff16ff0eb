package index

import "github.com/stele-go/stele/base"

// Ref names a value logically: the record that first stored it, and which of the
// record's values it was. The zero Ref is no value.
type Ref struct {
	LSN base.LSN
	Ord uint16
}

// Loc is the place of a value's bytes. In a log file Stored is zero, and the value is the Len bytes at
// Off. In a segment, Off and Stored are the place of the block frame that holds the value, and Inner
// its offset in the decoded block. If Back is not zero, the bytes are a patch against another value of
// the family; Len and Sum are those of the patch.
type Loc struct {
	File   base.FileNum
	Off    uint64
	Stored uint32
	Inner  uint32
	Len    uint32
	Back   int32  // records from the value back to its base; 0: the bytes are the value
	Sum    uint64 // checksum of the bytes, kept by the referrer
	Ord    uint16 // of the base
}

// Patched reports whether the bytes are a patch.
func (l Loc) Patched() bool { return l.Back != 0 }

// Base returns the base of the patch at l, whose value is r.
func (l Loc) Base(r Ref) Ref { return Ref{LSN: r.LSN - base.LSN(int64(l.Back)), Ord: l.Ord} }

// Against returns l as the place of a patch of r against b; false if the two are of one record, or too
// far apart.
func (l Loc) Against(r, b Ref) (Loc, bool) {
	back := int64(r.LSN - b.LSN)
	if back == 0 || back != int64(int32(back)) || back > 0 && base.LSN(back) >= r.LSN {
		return l, false
	}
	l.Back, l.Ord = int32(back), b.Ord
	return l, true
}

// InLog reports whether the value lies uncompressed in a log file.
func (l Loc) InLog() bool { return l.Stored == 0 }

// EmptyOrd is the ordinal of a ref that names no value but the record that made
// the slot empty.
const EmptyOrd uint16 = base.MaxSlots

// Empty reports whether the ref names no value.
func (r Ref) Empty() bool { return r.LSN == 0 || r.Ord == EmptyOrd }

// Slot is one named value of an entry. Name and Tag are the caller's; together
// they say what the value is (for a checkpoint: channel and version).
type Slot struct {
	Name string
	Tag  string
	Ref  Ref // zero: nothing was ever stored under this name and tag
}

// Entry flags, stored on disk.
const (
	// FlagDeleted marks the deletion of a key: it hides older entries of the key until all of them are
	// dropped.
	FlagDeleted uint8 = 1 << iota
	// FlagHead makes the key a candidate for its partition's head: the greatest such
	// key is known without loading the partition.
	FlagHead
	// FlagUser is the first of the flags that are the caller's.
	FlagUser
)

// Entry is one entry of a partition. Entries are immutable once they are in a Partition.
type Entry struct {
	Key   string
	LSN   base.LSN
	Flags uint8
	Slots Slots
}

// Same reports whether two entries are one and the same version of a key of a partition:
// a partition that was evicted comes back with entries that are equal, not identical.
func (it *Entry) Same(o *Entry) bool {
	return it == o || it != nil && o != nil && it.Key == o.Key && it.LSN == o.LSN
}

// Deleted reports whether the entry marks a deletion.
func (it *Entry) Deleted() bool { return it.Flags&FlagDeleted != 0 }
