package runs

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/store"
)

// Events: how those of a run are stored, packed, kept and shared by those who follow it.

const (
	// eventsInItem and itemBytes bound an item: how many events it has, and the length of its text
	// when another is added. Its key is the number of the first.
	eventsInItem = 64
	itemBytes    = 1 << 20
	// besideBytes bounds the events that are in the item of their run: who lists runs reads it.
	besideBytes = 16 << 10
	// latestEvents and latestBytes bound the events of a run that are kept in memory.
	latestEvents = 1024
	latestBytes  = 1 << 20
)

// Append implements Queue. Calls for different runs do not wait for one another.
func (q *Local) Append(ctx context.Context, c Claim, events []Event) (int64, error) {
	if err := CheckEvents(events); err != nil {
		return 0, err
	}
	_, unlock := q.lock(c.ID)
	r, err := q.validClaim(c)
	if err != nil {
		unlock()
		return 0, err
	}
	if len(events) == 0 {
		defer unlock()
		return r.Seq, nil
	}
	events = q.numbered(r.storedRun, events)
	q.mu.Unlock()
	defer r.appending.Unlock()
	err = q.write(ctx, eventOps(c.ID, events)...)
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != nil {
		return 0, err
	}
	r.Seq += int64(len(events))
	r.keep(events)
	r.added = q.writes.Load()
	q.Changed(c.ID)
	return r.Seq, nil
}

// keep notes events that were stored behind those that are there. They do not change any more.
func (r *localRun) keep(events []Event) {
	for _, ev := range events {
		r.bytes += len(ev.Data.Data)
	}
	if len(r.latest) == 0 {
		r.latest = slices.Clip(events) // whoever appends copies them
	} else {
		r.latest = append(r.latest, events...)
	}
	n := 0
	for len(r.latest)-n > latestEvents || r.bytes > latestBytes && n < len(r.latest) {
		r.bytes -= len(r.latest[n].Data.Data)
		n++
	}
	if n > 0 {
		r.latest = slices.Clone(r.latest[n:])
	}
}

// seqKey makes the order of keys that of numbers.
func seqKey(seq int64) string { return fmt.Sprintf("%016d", seq) }

func eventsOf(id string) store.Namespace { return append(slices.Clone(eventsSpace), id) }

// numbered returns copies of events with the next numbers of the run and the present time. The slice
// has room for one more.
func (q *Local) numbered(r storedRun, events []Event) []Event {
	now := q.now()
	out := append(make([]Event, 0, len(events)+1), events...)
	for i := range out {
		out[i].Seq, out[i].Attempt, out[i].Time = r.Seq+int64(i)+1, r.Attempt, now
	}
	return out
}

// fitsRun reports whether the last events of a run may be in its own item: packEvents must take them all.
func fitsRun(events []Event) bool {
	n := 0
	for _, ev := range events {
		n += len(ev.Data.Data) + len(ev.Kind) + len(ev.Data.Kind)
		for _, name := range ev.Namespace {
			n += len(name) + 1
		}
	}
	return len(events) <= eventsInItem && n <= besideBytes
}

// eventOps store numbered events.
func eventOps(id string, events []Event) (ops []store.Op) {
	for len(events) > 0 {
		packed, n := packEvents(events)
		ops = append(ops, eventsOp(id, events[0].Seq, packed))
		events = events[n:]
	}
	return ops
}

// eventsOp returns the put of an item of events. first is the number of the first event. eventsIn reads
// the item.
func eventsOp(id string, first int64, events any) store.PutOp {
	return store.PutOp{Namespace: eventsOf(id), Key: seqKey(first), Value: map[string]any{eventsField: events}, TTL: -1, NoIndex: true}
}

// lastSeq is the number of the last event of a run.
func (q *Local) lastSeq(ctx context.Context, r storedRun) (int64, error) {
	for seq := r.Seq; ; {
		item, err := q.itemAt(ctx, r, seq+1)
		if err != nil || len(item) == 0 {
			return seq, err
		}
		seq = item[len(item)-1].Seq
	}
}

// eventItem is the list of events of an item. Before 0.1.0 an item was the JSON of a single event.
type eventItem []Event

// eventsIn are the events of an item, or those in the item of a run: packed, or as JSON, as before 0.1.0.
func eventsIn(value any) (item eventItem, err error) {
	switch v := value.(type) {
	case []byte:
		return unpackEvents(v)
	case string:
		return item, json.Unmarshal([]byte(v), &item)
	}
	return nil, fmt.Errorf("events as %T: %w", value, serde.ErrMalformed)
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *eventItem) UnmarshalJSON(text []byte) error {
	if !bytes.HasPrefix(text, []byte("{")) {
		err := json.Unmarshal(text, (*[]Event)(e))
		for i := 1; err == nil && i < len(*e); i++ {
			if before, ev := (*e)[i-1], &(*e)[i]; ev.Seq == 0 { // it follows
				ev.Seq, ev.Attempt, ev.Time = before.Seq+1, before.Attempt, before.Time
			}
		}
		return err
	}
	*e = make(eventItem, 1)
	return json.Unmarshal(text, &(*e)[0])
}

// itemAt are the stored events of a run from a number on, as far as one item has them.
func (q *Local) itemAt(ctx context.Context, r storedRun, seq int64) ([]Event, error) {
	if r.Last > 0 && seq >= r.Last {
		item, err := eventsIn(r.events)
		return item.from(r.Last, seq, err)
	}
	return q.decoded.from(r.ID, seq, func() ([]Event, error) {
		for first := seq; first > max(seq-eventsInItem, 0); first-- {
			stored, err := getItem(ctx, q.items, eventsOf(r.ID), seqKey(first))
			if errors.Is(err, ErrNotFound) {
				continue
			}
			var item eventItem
			if err == nil {
				if events, ok := stored.Value[eventsField]; ok {
					item, err = eventsIn(events)
				} else { // it was stored before 0.1.0
					err = valueOf(stored, &item, nil)
				}
			}
			return item.from(first, first, err)
		}
		return nil, nil
	})
}

// from returns the events of an item from number seq on. Readers continue behind the last of them, so
// an event whose number does not fit its place is an error.
func (e eventItem) from(first, seq int64, err error) ([]Event, error) {
	for i := range e {
		if err == nil && e[i].Seq != first+int64(i) {
			err = fmt.Errorf("event %d has the number %d: %w", first+int64(i), e[i].Seq, serde.ErrMalformed)
		}
	}
	if err == nil && len(e) == 0 {
		err = fmt.Errorf("no event %d in its item: %w", first, serde.ErrMalformed)
	}
	if err != nil {
		return nil, err
	}
	return e[min(seq-first, int64(len(e))):], nil
}

// Events implements Queue.
func (q *Local) Events(ctx context.Context, id string, after int64, limit int) ([]Event, error) {
	after = max(after, 0)
	latest, last, err := q.latest(ctx, id, after)
	if err != nil || latest != nil || after >= last {
		return first(latest, limit), err
	}
	r, err := q.item(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []Event
	for (limit == 0 || len(out) < limit) && after < last {
		item, err := q.itemAt(ctx, r, after+1)
		if err != nil {
			return out, unreadable(id, err)
		}
		if len(item) == 0 {
			break
		}
		item = first(item, int(min(last-after, eventsInItem)))
		out, after = append(out, item...), item[len(item)-1].Seq
	}
	return first(out, limit), nil
}

func first[T any](list []T, limit int) []T {
	if limit > 0 && len(list) > limit {
		return list[:limit]
	}
	return list
}

// latest are the events of a run behind a number, nil if they must be read, and the number of the
// last event that may be seen: when it returns, those up to it are durable.
func (q *Local) latest(ctx context.Context, id string, after int64) (events []Event, last int64, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.inMemory(id)
	if r == nil {
		return nil, math.MaxInt64, nil
	}
	if !r.wanted {
		if r.wanted = true; r.asked != nil {
			r.asked()
			r.asked = nil
		}
	}
	if last, added := r.Seq, r.added; last > r.synced && last > after {
		q.mu.Unlock()
		err := q.sync(ctx, added)
		q.mu.Lock()
		if err != nil {
			return nil, 0, err
		}
		r.synced = max(r.synced, last)
	}
	kept := r.Seq - int64(len(r.latest)) // the last one that is not in memory
	if after < kept || after >= r.synced {
		return nil, r.synced, nil
	}
	return slices.Clone(r.latest[after-kept : r.synced-kept]), r.synced, nil
}

// WhenAsked implements WorkerQueue. Where the claim is void another worker may have the run, whose f stays.
func (q *Local) WhenAsked(c Claim, f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r, err := q.validClaim(c); err != nil || r.wanted {
		f()
	} else {
		r.asked = f
	}
}

// Watch implements Queue.
func (q *Local) Watch(id string) (changed <-chan struct{}, stop func()) {
	return q.watch(&q.Topics, id)
}

// WatchEnd is Watch for a caller that waits for the end of a run only, and is not woken by its events.
func (q *Local) WatchEnd(id string) (ended <-chan struct{}, stop func()) {
	return q.watch(&q.ends, id)
}

func (q *Local) watch(t *Topics, id string) (changed <-chan struct{}, stop func()) {
	changed, end := t.Watch(id)
	return changed, func() {
		end()
		q.mu.Lock()
		defer q.mu.Unlock()
		q.forget(id)
	}
}

// The events of an item are packed: a byte for the form, and then one event behind the other. An event
// leaves out what the one before tells: the kind of its data, and, if it follows, its number, attempt and
// time. Numbers are varints, and texts and data have their length before them.
//
//	event = flags kind [count name…] [data kind] data [seq attempt µs]

// packedForm is the first byte of packed events.
const packedForm = 1

// Flags of a packed event: the fields that it has.
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

// follows reports whether the number, attempt and time of an event follow from those of the one before.
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

// decodedItems are the items of events that were read last. Many clients may follow a run at the same
// time: those at the same place share an item, and only one of them reads it.
type decodedItems struct {
	reading [16]sync.Mutex // by run
	mu      sync.Mutex
	list    []decodedItem // the one that was used last comes last
}

// decodedItem are events of a run that follow one another. Nobody changes them.
type decodedItem struct {
	run    string
	events []Event
}

const (
	// decodedMost bounds the number of items, and decodedBytes the size of each.
	decodedMost  = 8
	decodedBytes = 2 * itemBytes
)

var decodedSeed = maphash.MakeSeed()

// from are the events of a run from a number on that are in one item. read reads them with those before.
func (d *decodedItems) from(run string, seq int64, read func() ([]Event, error)) ([]Event, error) {
	if events := d.find(run, seq); events != nil {
		return events, nil
	}
	one := &d.reading[maphash.String(decodedSeed, run)%uint64(len(d.reading))]
	one.Lock()
	defer one.Unlock()
	if events := d.find(run, seq); events != nil {
		return events, nil
	}
	events, err := read()
	if err != nil || len(events) == 0 {
		return nil, err
	}
	d.add(decodedItem{run, events})
	return events[min(seq-events[0].Seq, int64(len(events))):], nil
}

func (d *decodedItems) find(run string, seq int64) []Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, item := range d.list {
		if at := seq - item.events[0].Seq; item.run == run && at >= 0 && at < int64(len(item.events)) {
			copy(d.list[i:], d.list[i+1:])
			d.list[len(d.list)-1] = item
			return item.events[at:]
		}
	}
	return nil
}

func (d *decodedItems) add(item decodedItem) {
	n := 0
	for _, ev := range item.events {
		n += len(ev.Data.Data)
	}
	if n > decodedBytes {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.list) == decodedMost {
		copy(d.list, d.list[1:])
		d.list[decodedMost-1] = item
		return
	}
	d.list = append(d.list, item)
}

// forget forgets the events of a run that is removed.
func (d *decodedItems) forget(run string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = slices.DeleteFunc(d.list, func(item decodedItem) bool { return item.run == run })
}
