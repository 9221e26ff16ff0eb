package layout

import (
	"slices"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/saver"
)

// statusBits are the bits of a thread's flags that hold its status. Before there were statuses, stores
// had only the lowest bit: the root head waits.
const statusBits uint8 = 7

// StatusFlags are the thread flags of each status.
var StatusFlags = map[saver.Status]uint8{saver.StatusUnknown: 0, saver.StatusWaiting: 1, saver.StatusDone: 2, saver.StatusUnfinished: 4, saver.StatusFailed: 6}

// StatusOfFlags returns the status that the flags of a thread of the engine stand for, for tools. Flags
// of no known status are StatusUnknown: only a newer build can have written them.
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

// A commit reads no record. The parts of a note that it needs are therefore in the index as well: the
// flags of the entry have the outline, on which a status depends, and a slot of its own says which
// channels are delta channels.

// FlagDeltas is the entry flag of a checkpoint that has delta channels. Slot 1 is then no channel: its
// tag is a bit set, lowest bit first, with one bit for each channel in order, set for delta channels.
const FlagDeltas = index.FlagUser << 4

// noteShift is the bit of an entry's flags at which the number of an outline begins.
const noteShift = 3

// The numbers of the outlines. They are stored: a number keeps its meaning.
const (
	noteNone = iota
	noteRunEnded
	noteRunGoesOn
	noteAtBreakpoint
	noteOutOfSteps
)

// outlines have the parts of a note that a status depends on, by number.
var outlines = [...]*saver.Note{
	noteNone:         nil,
	noteRunEnded:     {},
	noteRunGoesOn:    {Next: outlined},
	noteAtBreakpoint: {Next: outlined, Stop: saver.StopBreakpoint},
	noteOutOfSteps:   {Next: outlined, Stop: saver.StopSteps},
}

var outlined = []string{"?"}

// NoteFlags returns the entry flags of a checkpoint with this note.
func NoteFlags(n *saver.Note) uint8 {
	switch {
	case n == nil:
		return noteNone
	case len(n.Next) == 0:
		return noteRunEnded << noteShift
	case n.Stop == saver.StopBreakpoint:
		return noteAtBreakpoint << noteShift
	case n.Stop == saver.StopSteps:
		return noteOutOfSteps << noteShift
	}
	return noteRunGoesOn << noteShift
}

// OutlineOf returns the outline of the note of a checkpoint, from the flags of its entry. It returns
// nil for a nil entry, which is a checkpoint lost to damage, and for flags that only a newer build
// writes.
func OutlineOf(it *index.Entry) *saver.Note {
	if it == nil {
		return nil
	}
	if n := int(it.Flags >> noteShift & 7); n < len(outlines) {
		return outlines[n]
	}
	return nil
}

// DeltaSet returns the tag that marks which of the channels, ascending, are among deltas. ok is false
// if none is.
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
