package saver

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/engine"
)

// A note is a part of its checkpoint's record, and rides on every commit of an
// engine. Its names are mostly in the record already: the next node is the one whose
// trigger was updated. So a name is written as where it stands in what comes before,
// and as itself only if it is not there. docs/format/checkpoint.md has the bytes.

// noteWords stand before the record as if they were a part of it: names that many
// notes have. They never change.
const noteWords = "LangGraph"

const (
	// nearWindow is how far before the note a name is looked for.
	nearWindow = 4 << 10
	// shortestNear is the length of the shortest name that is written as a place.
	shortestNear = 3
)

// Codes of a Stop.
var stops = [...]Stop{StopNone, StopBreakpoint, StopSteps}

// appendNote appends n to a record, of which b is what comes before.
func appendNote(b []byte, n *Note) []byte {
	before := window(b)
	b = appendNear(b, before, n.Next)
	b = append(b, byte(slices.Index(stops[:], n.Stop)))
	b = appendNearOne(b, before, n.Graph)
	return appendNear(b, before, n.Deltas)
}

// window is the part of b in which names are looked for.
func window(b []byte) []byte { return b[max(0, len(b)-nearWindow):] }

func appendNear(b, before []byte, names []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(names)))
	for _, name := range names {
		b = appendNearOne(b, before, name)
	}
	return b
}

// appendNearOne appends a name: twice its length, and its bytes; or, if it stands in
// before or in noteWords, that and one, and how far from the end of before it begins.
func appendNearOne(b, before []byte, name string) []byte {
	if len(name) >= shortestNear {
		back := len(before) - bytes.LastIndex(before, []byte(name))
		if back > len(before) {
			back += len(noteWords) - 1 - strings.Index(noteWords, name)
		}
		if back <= len(before)+len(noteWords) {
			b = binary.AppendUvarint(b, 2*uint64(len(name))+1)
			return binary.AppendUvarint(b, uint64(back))
		}
	}
	b = binary.AppendUvarint(b, 2*uint64(len(name)))
	return append(b, name...)
}

// note reads what appendNote wrote; all is the record. Its names share the memory of
// one string, so that the few bytes of a place never stand for more memory than that.
func (d *unpacker) note(all []byte) *Note {
	read := len(all) - len(d.b)
	from := max(0, read-nearWindow)
	before := ""
	if d.text != "" {
		before = d.text[from:read]
	} else {
		before = string(all[from:read])
	}
	n := &Note{Next: d.near(before), Stop: d.stop()}
	n.Graph = d.nearOne(before)
	n.Deltas = d.near(before)
	return n
}

// near reads names; nil for none.
func (d *unpacker) near(before string) []string {
	n := d.count(1)
	if n == 0 {
		return nil
	}
	names := make([]string, n)
	for i := range names {
		names[i] = d.nearOne(before)
	}
	return names
}

func (d *unpacker) nearOne(before string) string {
	n := d.uvarint()
	if n&1 == 0 {
		return d.cut(n / 2)
	}
	n /= 2
	back := d.uvarint()
	if far := uint64(len(before)); back > far {
		back -= far
		before = noteWords
	}
	if back > uint64(len(before)) || n > back {
		d.fail()
		return ""
	}
	at := uint64(len(before)) - back
	return before[at : at+n]
}

func (d *unpacker) stop() Stop {
	code := int(d.byte())
	if code >= len(stops) {
		d.fail()
		return ""
	}
	return stops[code]
}

// What commits need of a note is in the index too, so that they read no record: what
// a status depends on in the flags of the item, and which channels are delta channels
// in a slot of its own.

// flagDeltas is the item flag of a checkpoint some of whose channels are delta
// channels: then slot 1 is no channel, and its tag tells which are, as a set of
// numbers of the channels in their order, one bit each, lowest first.
const flagDeltas = index.FlagUser << 4

// noteShift is where the number of an outline lies in the flags of an item.
const noteShift = 3

// outlines are what a status needs of a note, by their number: nil, if there is none;
// the end of a run; a run that goes on; and those that stop.
var outlines = [...]*Note{nil, {}, {Next: outlined}, {Next: outlined, Stop: StopBreakpoint}, {Next: outlined, Stop: StopSteps}}

var outlined = []string{"?"}

// noteFlags are the item flags of a checkpoint with this note.
func noteFlags(n *Note) uint8 {
	switch {
	case n == nil:
		return 0
	case len(n.Next) == 0:
		return 1 << noteShift
	case n.Stop == StopBreakpoint:
		return 3 << noteShift
	case n.Stop == StopSteps:
		return 4 << noteShift
	}
	return 2 << noteShift
}

// outlineOf is the inverse of noteFlags. Flags of a newer build say nothing, nor does a
// checkpoint that damage has taken, which is nil.
func outlineOf(it *index.Item) *Note {
	if it == nil {
		return nil
	}
	if n := int(it.Flags >> noteShift & 7); n < len(outlines) {
		return outlines[n]
	}
	return nil
}

// deltaSlot is the slot that tells which of the channels, ascending, are among
// deltas; not ok if none is.
func deltaSlot(channels, deltas []string) (slot engine.SlotIn, ok bool) {
	var set []byte
	for i, channel := range channels {
		if _, is := slices.BinarySearch(deltas, channel); is {
			set = append(set, make([]byte, i/8+1-len(set))...)
			set[i/8] |= 1 << (i % 8)
		}
	}
	return engine.SlotIn{Tag: string(set)}, set != nil
}

// isDelta reports whether the i-th channel of a checkpoint is a delta channel; known
// is false if the checkpoint does not say.
func isDelta(it *index.Item, i int) (is, known bool) {
	if outlineOf(it) == nil {
		return false, false
	}
	if it.Flags&flagDeltas == 0 || len(it.Slots) < 2 {
		return false, true
	}
	set := it.Slots[1].Tag
	return i/8 < len(set) && set[i/8]>>(i%8)&1 == 1, true
}
