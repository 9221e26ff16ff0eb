package runs

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/stele-go/stele/saver/serde"
)

// The events of an item are packed: a byte for the form, and then one event behind the other. An event
// leaves out what the one before tells: the kind of its data, and, if it follows, its number, attempt and
// time. Numbers are varints, and texts and data have their length before them.
//
//	event = flags kind [count name…] [data kind] data [seq attempt µs]

// packedForm is the first byte of packed events.
const packedForm = 1

// Flags of a packed event: what it has.
const (
	packedNames    = 1 << iota // a namespace
	packedDataKind             // another kind of data than the event before
	packedPlace                // number, attempt and time
	packedFlags    = 1<<iota - 1
)

// packEvents packs events of an item, and says how many of them it has.
func packEvents(events []Event) (packed []byte, n int) {
	packed = append(make([]byte, 0, 96*min(len(events), eventsInItem)), packedForm)
	var before Event
	for ; n < min(len(events), eventsInItem) && len(packed) < itemBytes; n++ {
		packed = packEvent(packed, before, events[n])
		before = events[n]
	}
	return packed, n
}

func packEvent(b []byte, before, ev Event) []byte {
	flags := len(b)
	b = packText(append(b, 0), string(ev.Kind))
	if len(ev.Namespace) > 0 {
		b[flags] |= packedNames
		b = binary.AppendUvarint(b, uint64(len(ev.Namespace)))
		for _, name := range ev.Namespace {
			b = packText(b, name)
		}
	}
	if ev.Data.Kind != before.Data.Kind {
		b[flags] |= packedDataKind
		b = packText(b, ev.Data.Kind)
	}
	b = append(binary.AppendUvarint(b, uint64(len(ev.Data.Data))), ev.Data.Data...)
	if !follows(before, ev) {
		b[flags] |= packedPlace
		b = binary.AppendVarint(b, ev.Seq)
		b = binary.AppendVarint(b, int64(ev.Attempt))
		b = binary.AppendVarint(b, ev.Time.UnixMicro())
	}
	return b
}

// follows reports whether the number, attempt and time of an event are told by those of the one before.
func follows(before, ev Event) bool {
	return ev.Seq == before.Seq+1 && ev.Attempt == before.Attempt && ev.Time.Equal(before.Time)
}

func packText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// unpackEvents undoes packEvents. The data of the events are parts of packed.
func unpackEvents(packed []byte) ([]Event, error) {
	if len(packed) == 0 || packed[0] != packedForm {
		return nil, fmt.Errorf("packed events of an unknown form: %w", serde.ErrMalformed)
	}
	var events []Event
	var ev Event
	for u := (&unpacker{b: packed[1:]}); len(u.b) > 0; {
		if ev = u.event(ev); u.bad {
			return nil, fmt.Errorf("packed event %d of an item: %w", len(events)+1, serde.ErrMalformed)
		}
		events = append(events, ev)
	}
	return events, nil
}

// unpacker reads packed events. bad: they are damaged.
type unpacker struct {
	b   []byte
	bad bool
}

// event is the next event.
func (u *unpacker) event(before Event) Event {
	flags := u.bytes(1)
	if u.bad || flags[0]&^packedFlags != 0 {
		u.bad = true
		return Event{}
	}
	ev := Event{Seq: before.Seq + 1, Attempt: before.Attempt, Time: before.Time, Kind: Kind(u.text())}
	if flags[0]&packedNames != 0 {
		for range u.length() {
			ev.Namespace = append(ev.Namespace, u.text())
		}
	}
	ev.Data.Kind = before.Data.Kind
	if flags[0]&packedDataKind != 0 {
		ev.Data.Kind = u.text()
	}
	ev.Data.Data = u.bytes(u.length())
	if flags[0]&packedPlace != 0 {
		ev.Seq, ev.Attempt, ev.Time = u.number(), int(u.number()), time.UnixMicro(u.number()).UTC()
	}
	return ev
}

// bytes are the next n bytes.
func (u *unpacker) bytes(n int) []byte {
	if n > len(u.b) {
		u.bad, u.b = true, nil
		return nil
	}
	out := u.b[:n:n]
	u.b = u.b[n:]
	return out
}

func (u *unpacker) text() string { return string(u.bytes(u.length())) }

// length is the next number, of bytes or of texts: no more than bytes are left.
func (u *unpacker) length() int {
	n, width := binary.Uvarint(u.b)
	if width <= 0 || n > uint64(len(u.b)-width) {
		u.bad, u.b = true, nil
		return 0
	}
	u.b = u.b[width:]
	return int(n)
}

func (u *unpacker) number() int64 {
	n, width := binary.Varint(u.b)
	if width <= 0 {
		u.bad, u.b = true, nil
		return 0
	}
	u.b = u.b[width:]
	return n
}
