package streamv2

import (
	"context"

	"github.com/stele-go/stele/runs"
)

// Reader reads the stored events of a run, a part at a time. It is not safe for concurrent use.
type Reader struct {
	Queue runs.Queue
	Run   string
	After int64 // the number of the last event that was read
	pace  pace
}

// Next returns the next events that are stored. If there are no more behind them by now, more is false.
func (r *Reader) Next(ctx context.Context) (events []runs.Event, more bool, err error) {
	asked := r.pace.limit()
	events, err = r.Queue.Events(ctx, r.Run, r.After, asked)
	if len(events) > 0 {
		r.pace.read(events)
		r.After = events[len(events)-1].Seq
	}
	return events, len(events) == asked, err
}

// Each calls f with the stored events of a run.
func Each(ctx context.Context, queue runs.Queue, run string, f func(runs.Event) error) error {
	r := Reader{Queue: queue, Run: run, pace: paceMost / 4} // no client holds them
	for more := true; more; {
		var events []runs.Event
		var err error
		if events, more, err = r.Next(ctx); err != nil {
			return err
		}
		for _, ev := range events {
			if err := f(ev); err != nil {
				return err
			}
		}
	}
	return nil
}

// pace decides how many events of a run are read at a time: many small ones, or few large ones. Events
// that were read for a client stay in memory until it takes them. It begins at 0.
type pace int

const (
	paceFirst = 8
	paceMost  = 256
)

// PartBytes is about how large the events are at most that are read, or sent, at a time.
const PartBytes = 256 << 10

// limit returns how many events to read.
func (p *pace) limit() int {
	if *p == 0 {
		*p = paceFirst
	}
	return int(*p)
}

// read adapts the pace to the size of the events just read.
func (p *pace) read(events []runs.Event) {
	size := 0
	for _, ev := range events {
		size += len(ev.Data.Data)
	}
	switch {
	case size > PartBytes:
		*p = max(*p/4, 1)
	case len(events) == int(*p):
		*p = min(*p*4, paceMost)
	}
}
