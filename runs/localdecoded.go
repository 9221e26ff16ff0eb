package runs

import (
	"hash/maphash"
	"slices"
	"sync"
)

// decodedItems are the items of events that were read last. Many clients may follow a run at once: those
// that are at one place share what is there, and one of them reads it.
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
	// decodedMost bounds how many items there are, and decodedBytes what each has.
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
