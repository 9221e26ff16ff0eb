package runs

import (
	"context"
	"iter"
	"time"
)

// pollEvery is how long a lost hint of Watch can go unnoticed.
const pollEvery = 500 * time.Millisecond

// Wait waits until a run has ended and returns it. It is no error that the run failed. It
// may be called in any process. Errors: ErrNotFound, those of the queue, and that of ctx.
func Wait(ctx context.Context, q Queue, id string) (Run, error) {
	changed, stop := q.Watch(id)
	defer stop()
	for {
		r, err := q.Get(ctx, id)
		if err != nil || r.Status.Ended() {
			return r, err
		}
		if err := pause(ctx, changed, pollEvery); err != nil {
			return r, err
		}
	}
}

// Follow yields the events of a run from the one behind after, those that are stored and
// those to come, in order and each once, until the run has ended. It may be called in any
// process, and again from where it stopped. An error is yielded last: ErrNotFound, one of
// the queue, or that of ctx.
func Follow(ctx context.Context, q Queue, id string, after int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		changed, stop := q.Watch(id)
		defer stop()
		for {
			// The run is read before its events: once it has ended there are no more.
			r, err := q.Get(ctx, id)
			if err != nil {
				yield(Event{}, err)
				return
			}
			n := 0
			for more := true; more; {
				events, err := q.Events(ctx, id, after, 256)
				if err != nil {
					yield(Event{}, err)
					return
				}
				for _, ev := range events {
					if !yield(ev, nil) {
						return
					}
					after = ev.Seq
				}
				n += len(events)
				more = len(events) > 0
			}
			if r.Status.Ended() {
				return
			}
			if n > 0 {
				continue
			}
			if err := pause(ctx, changed, pollEvery); err != nil {
				yield(Event{}, err)
				return
			}
		}
	}
}

// pause waits for a hint, or for as long as one may be lost, or ends with ctx.
func pause(ctx context.Context, changed <-chan struct{}, most time.Duration) error {
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-changed:
	case <-t.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}
