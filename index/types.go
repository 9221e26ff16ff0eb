package index

import (
	"cmp"

	"github.com/stele-go/stele/internal/base"
)

// Ref names a value logically: the record that first stored it, and which of the
// record's values it was. The zero Ref is no value.
type Ref struct {
	LSN base.LSN
	Ord uint16
}

// Compare orders refs by record, then ordinal.
func (r Ref) Compare(o Ref) int { return cmp.Or(cmp.Compare(r.LSN, o.LSN), cmp.Compare(r.Ord, o.Ord)) }

// Loc is where a value's bytes lie. In a log file Stored is zero and the Len
// bytes at Off are the value. In a segment, Off and Stored are the block frame
// that holds it, and Inner the place within the decoded block.
type Loc struct {
	File   base.FileNum
	Off    uint64
	Stored uint32
	Inner  uint32
	Len    uint32
	Sum    uint64 // checksum of the value, kept by the referrer
}

// InLog reports whether the value lies uncompressed in a log file.
func (l Loc) InLog() bool { return l.Stored == 0 }

// EmptyOrd is the ordinal of a ref that names no value but the record that made
// the slot empty.
const EmptyOrd uint16 = base.MaxSlots

// Empty reports whether the ref names no value.
func (r Ref) Empty() bool { return r.LSN == 0 || r.Ord == EmptyOrd }

// Slot is one named value of an item. Name and Tag are the caller's; together
// they say what the value is (for a checkpoint: channel and version).
type Slot struct {
	Name string
	Tag  string
	Ref  Ref // zero: nothing was ever stored under this name and tag
}

// Item flags, stored on disk.
const (
	// FlagDeleted marks the deletion of a key: it hides older items of the key
	// until both are forgotten.
	FlagDeleted uint8 = 1 << iota
	// FlagHead makes the key a candidate for its thread's head: the greatest such
	// key is known without loading the thread.
	FlagHead
	// FlagUser is the first of the flags that are the caller's.
	FlagUser
)

// Item is one entry of a thread. Items are immutable once they are in a Thread.
type Item struct {
	Key   string
	LSN   base.LSN
	Flags uint8
	Slots []Slot
}

// Deleted reports whether the item marks a deletion.
func (it *Item) Deleted() bool { return it.Flags&FlagDeleted != 0 }

// Slot returns the slot called name, or nil.
func (it *Item) Slot(name string) *Slot {
	for i := range it.Slots {
		if it.Slots[i].Name == name {
			return &it.Slots[i]
		}
	}
	return nil
}
