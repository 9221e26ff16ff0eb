package layout

import (
	"slices"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/saver"
)

// statusBits is the part of a thread's flags that is its status. The lowest bit alone
// is what stores had before there were statuses: the root head waits.
const statusBits uint8 = 7

// StatusFlags are the thread flags of each status.
var StatusFlags = map[saver.Status]uint8{saver.StatusUnknown: 0, saver.StatusWaiting: 1, saver.StatusDone: 2, saver.StatusUnfinished: 4, saver.StatusFailed: 6}

// StatusOfFlags is the status that the flags of a thread of the engine stand for, for
// tools. Flags of no status, which only a newer build can have written, are unknown.
func StatusOfFlags(flags uint8) saver.Status {
	switch flags & statusBits {
	case StatusFlags[saver.StatusWaiting]:
		return saver.StatusWaiting
	case StatusFlags[saver.StatusDone]:
		return saver.StatusDone
	case StatusFlags[saver.StatusUnfinished]:
		return saver.StatusUnfinished
	case StatusFlags[saver.StatusFailed]:
		return saver.StatusFailed
	}
	return saver.StatusUnknown
}

// A commit reads no record. What it needs of a note is therefore in the index as well: the
// flags of the entry have what a status depends on, and a slot of its own says which channels
// are delta channels.

// FlagDeltas is the entry flag of a checkpoint that has delta channels. Slot 1 is then no
// channel: its tag is a bit set, lowest bit first, of which channels, in their order, are
// delta channels.
const FlagDeltas = index.FlagUser << 4

// noteShift is where the number of an outline lies in the flags of an entry.
const noteShift = 3

// outlines are what a status needs of a note, by their number: nil, if there is none;
// the end of a run; a run that goes on; and those that stop.
var outlines = [...]*saver.Note{nil, {}, {Next: outlined}, {Next: outlined, Stop: saver.StopBreakpoint}, {Next: outlined, Stop: saver.StopSteps}}

var outlined = []string{"?"}

// NoteFlags are the entry flags of a checkpoint with this note.
func NoteFlags(n *saver.Note) uint8 {
	switch {
	case n == nil:
		return 0
	case len(n.Next) == 0:
		return 1 << noteShift
	case n.Stop == saver.StopBreakpoint:
		return 3 << noteShift
	case n.Stop == saver.StopSteps:
		return 4 << noteShift
	}
	return 2 << noteShift
}

// OutlineOf is the inverse of NoteFlags. It returns nil for a nil entry, which is a checkpoint
// lost to damage, and for flags that only a newer build writes.
func OutlineOf(it *index.Entry) *saver.Note {
	if it == nil {
		return nil
	}
	if n := int(it.Flags >> noteShift & 7); n < len(outlines) {
		return outlines[n]
	}
	return nil
}

// DeltaSet is the tag that tells which of the channels, ascending, are among
// deltas; not ok if none is.
func DeltaSet(channels, deltas []string) (tag string, ok bool) {
	var set []byte
	for i, channel := range channels {
		if _, is := slices.BinarySearch(deltas, channel); is {
			set = append(set, make([]byte, i/8+1-len(set))...)
			set[i/8] |= 1 << (i % 8)
		}
	}
	return string(set), set != nil
}

// IsDelta reports whether the i-th channel of a checkpoint is a delta channel; known
// is false if the checkpoint does not say.
func IsDelta(it *index.Entry, i int) (is, known bool) {
	if OutlineOf(it) == nil {
		return false, false
	}
	if it.Flags&FlagDeltas == 0 || it.Slots.Len() < 2 {
		return false, true
	}
	set := it.Slots.At(1).Tag
	return i/8 < len(set) && set[i/8]>>(i%8)&1 == 1, true
}
