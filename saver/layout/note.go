package layout

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/stele-go/stele/saver"
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
var stops = [...]saver.Stop{saver.StopNone, saver.StopBreakpoint, saver.StopSteps}

// appendNote appends n to the record that b begins. The version comes last, if there is one: the format
// of the record says so.
func appendNote(b []byte, n *saver.Note) []byte {
	before := window(b)
	b = appendNear(b, before, n.Next)
	b = append(b, byte(slices.Index(stops[:], n.Stop)))
	b = appendNearOne(b, before, n.Graph)
	b = appendNear(b, before, n.Deltas)
	if n.Version != "" {
		b = appendNearOne(b, before, n.Version)
	}
	return b
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

// note reads what appendNote wrote; all is the record. Its names share the memory of one string, so
// that a name that is encoded as a place in the record takes no memory of its own.
func (d *unpacker) note(all []byte, versioned bool) *saver.Note {
	read := len(all) - len(d.b)
	from := max(0, read-nearWindow)
	before := ""
	if d.text != "" {
		before = d.text[from:read]
	} else {
		before = string(all[from:read])
	}
	n := &saver.Note{Next: d.near(before), Stop: d.stop()}
	n.Graph = d.nearOne(before)
	n.Deltas = d.near(before)
	if versioned {
		if n.Version = d.nearOne(before); n.Version == "" {
			d.fail()
		}
	}
	return n
}

// near reads names, each a text or a distance back into the bytes before or noteWords; nil for none.
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

func (d *unpacker) stop() saver.Stop {
	code := int(d.byte())
	if code >= len(stops) {
		d.fail()
		return ""
	}
	return stops[code]
}
