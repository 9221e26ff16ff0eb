package layout

import (
	"slices"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/saver"
)

// What commits need of a note is in the index too, so that they read no record: what
// a status depends on in the flags of the item, and which channels are delta channels
// in a slot of its own.

// FlagDeltas is the item flag of a checkpoint some of whose channels are delta
// channels: then slot 1 is no channel, and its tag tells which are, as a set of
// numbers of the channels in their order, one bit each, lowest first.
const FlagDeltas = index.FlagUser << 4

// noteShift is where the number of an outline lies in the flags of an item.
const noteShift = 3

// outlines are what a status needs of a note, by their number: nil, if there is none;
// the end of a run; a run that goes on; and those that stop.
var outlines = [...]*saver.Note{nil, {}, {Next: outlined}, {Next: outlined, Stop: saver.StopBreakpoint}, {Next: outlined, Stop: saver.StopSteps}}

var outlined = []string{"?"}

// NoteFlags are the item flags of a checkpoint with this note.
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

// OutlineOf is the inverse of noteFlags. Flags of a newer build say nothing, nor does a
// checkpoint that damage has taken, which is nil.
func OutlineOf(it *index.Item) *saver.Note {
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
func IsDelta(it *index.Item, i int) (is, known bool) {
	if OutlineOf(it) == nil {
		return false, false
	}
	if it.Flags&FlagDeltas == 0 || len(it.Slots) < 2 {
		return false, true
	}
	set := it.Slots[1].Tag
	return i/8 < len(set) && set[i/8]>>(i%8)&1 == 1, true
}
