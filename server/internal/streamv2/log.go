package streamv2

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stele-go/stele/runs"
)

// Log reads the events of a thread, one after the other, and numbers them. Not safe
// for concurrent use.
type Log struct {
	threads *Threads
	thread  string
	// since is the number of the last event that is not wanted.
	since int64
	// seq is the number of the last event that was read, or passed over.
	seq    int64
	run    *Translator // of the run that it is at; nil between runs
	last   *Translator // of the last run that it was at; nil before the first
	base   int64       // seq before run
	stored Reader      // of run
	done   map[string]bool
	// ahead are the runs to go to, in the order in which they were begun. All runs up to the id in listed
	// are done, or in idle: those that ended and were never begun, but may be tried again. No other comes
	// among them: they were submitted more than lateIDs ago.
	ahead  []begunRun
	listed string
	idle   []string

	begun, changed         <-chan struct{} // a run of the thread was submitted; something about run has changed
	stopBegun, stopChanged func()
}

// Log returns the log of a thread behind event since.
func (t *Threads) Log(thread string, since int64) *Log {
	return &Log{threads: t, thread: thread, since: since, stored: Reader{Queue: t.Queue}, done: map[string]bool{}}
}

// Next returns the next events that are there; none if there are none yet.
func (l *Log) Next(ctx context.Context) ([]Event, error) {
	for {
		if l.run == nil {
			ok, err := l.nextRun(ctx)
			if !ok || err != nil {
				return nil, err
			}
		}
		id := l.run.run.ID
		// The run is read before its events: once it has ended there are no more.
		r, err := l.threads.Queue.Get(ctx, id)
		if errors.Is(err, runs.ErrNotFound) { // it was removed: its record says how many events it had
			l.seq, l.ahead = l.base, nil
			l.at(nil)
			continue
		}
		if errors.Is(err, runs.ErrUnreadable) { // the thread continues without it
			l.done[id] = true
			l.at(nil)
			continue
		}
		if err != nil {
			return nil, err
		}
		stored, _, err := l.stored.Next(ctx)
		if errors.Is(err, runs.ErrUnreadable) {
			stored, err = nil, nil // as if there were no more
		}
		if err != nil {
			return nil, err
		}
		if len(stored) == 0 {
			if !r.Status.Ended() {
				return nil, nil
			}
			l.threads.counts.put(id, l.seq-l.base)
			l.done[id] = true
			l.at(nil)
			continue
		}
		out, err := l.translate(ctx, stored)
		if len(out) > 0 || err != nil {
			return out, err
		}
	}
}

// translate turns stored events of the run into numbered ones, and returns those that are wanted.
func (l *Log) translate(ctx context.Context, stored []runs.Event) (out []Event, err error) {
	queue := l.threads.Queue
	for _, ev := range stored {
		text, err := ev.JSON(queue.Serializer())
		if err != nil {
			return out, &runs.UnreadableError{RunID: l.run.run.ID, Err: err}
		}
		made, err := l.run.translate(ev, text, func() (runs.Run, error) { return queue.Get(ctx, l.run.run.ID) })
		if err != nil {
			return out, err
		}
		for _, e := range made {
			l.seq++
			if e.Seq = l.seq; e.Seq > l.since {
				out = append(out, e)
			}
		}
	}
	return out, nil
}

// begunRun is a run that was begun.
type begunRun struct {
	id      string
	started time.Time
}

// Seq is the number of the last event that was read, or passed over.
func (l *Log) Seq() int64 { return l.seq }

// Last is the last run that the log was at; nil before the first.
func (l *Log) Last() *Translator { return l.last }

// nextRun moves to the next run of the thread that was begun, and skips runs without wanted events. It
// reports whether there is one.
func (l *Log) nextRun(ctx context.Context) (bool, error) {
	removed, err := l.threads.Removed(ctx, l.thread)
	if err != nil {
		return false, err
	}
	if len(l.ahead) == 0 {
		if err := l.look(ctx, removed); err != nil {
			return false, err
		}
	}
	for len(l.ahead) > 0 {
		id := l.ahead[0].id
		l.ahead = l.ahead[1:]
		if f, gone := removed[id]; gone {
			l.seq += f.Events
			l.done[id] = true
			continue
		}
		r, err := l.threads.Queue.Get(ctx, id)
		if errors.Is(err, runs.ErrNotFound) { // it was removed since
			l.ahead = nil
			return l.nextRun(ctx)
		}
		if errors.Is(err, runs.ErrUnreadable) {
			l.done[id] = true
			continue
		}
		if err != nil {
			return false, err
		}
		if n, ok := l.threads.counts.get(id); ok && r.Status.Ended() && l.seq+n <= l.since {
			l.seq += n
			l.done[id] = true
			continue
		}
		l.at(&r)
		return true, nil
	}
	return false, nil
}

// lateIDs is how long after a run another one with an older id may appear: the clocks of servers may
// differ, and a run has its id before it is stored.
const lateIDs = time.Minute

// look finds the runs to go to. It does not list those again that are done.
func (l *Log) look(ctx context.Context, removed map[string]Removed) error {
	var ahead []begunRun
	add := func(id string, started time.Time) {
		if !started.IsZero() && !l.done[id] {
			ahead = append(ahead, begunRun{id, started})
		}
	}
	idle := l.idle
	l.idle = nil
	for _, id := range idle {
		r, err := l.threads.Queue.Get(ctx, id)
		switch {
		case errors.Is(err, runs.ErrNotFound) || errors.Is(err, runs.ErrUnreadable):
			continue
		case err != nil:
			l.idle = idle
			return err
		}
		if add(id, r.Started); !l.done[id] {
			l.idle = append(l.idle, id)
		}
	}
	done, settled := true, time.Now().Add(-lateIDs) // done: all so far
	for r, err := range l.threads.Queue.List(ctx, runs.Query{ThreadID: l.thread, After: l.listed}) {
		if err != nil && !errors.Is(err, runs.ErrUnreadable) {
			return err
		}
		_, gone := removed[r.ID]
		done = done && r.Created.Before(settled)
		switch {
		case err != nil || gone || l.done[r.ID]: // of one that cannot be decoded it is not known when it began
		case r.Started.IsZero() && r.Status.Ended() && done:
			l.idle = append(l.idle, r.ID)
		default:
			done = false
			add(r.ID, r.Started)
		}
		if done {
			l.listed = r.ID
		}
	}
	for id, f := range removed {
		add(id, f.Started)
	}
	slices.SortFunc(ahead, func(a, b begunRun) int {
		return cmp.Or(a.started.Compare(b.started), cmp.Compare(a.id, b.id))
	})
	l.ahead = ahead
	return nil
}

// Wait waits until there may be more to read, something comes from also, or most has passed.
// It ends with an error when ctx ends, or with ErrClosing.
func (l *Log) Wait(ctx context.Context, most time.Duration, also <-chan struct{}) error {
	lost := lostHint
	if l.run == nil {
		lost = pollEvery(l.threads.readers.Load())
	}
	t := time.NewTimer(min(most, lost))
	defer t.Stop()
	select {
	case <-l.begun:
	case <-l.changed:
	case <-also:
	case <-t.C:
	case <-l.threads.Closing:
		return ErrClosing
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// Follow begins to watch the thread for Wait. The caller calls Close.
func (l *Log) Follow() {
	l.threads.readers.Add(1)
	l.begun, l.stopBegun = l.threads.Begun.Watch(l.thread)
}

// at makes a run the one that the log is at, or none, and watches it if the log follows.
func (l *Log) at(r *runs.Run) {
	if l.stopChanged != nil {
		l.stopChanged()
	}
	l.run, l.changed, l.stopChanged = nil, nil, nil
	if r == nil {
		return
	}
	l.run, l.base = NewTranslator(*r), l.seq
	l.stored.Run, l.stored.After = r.ID, 0
	l.last = l.run
	if l.begun != nil {
		l.changed, l.stopChanged = l.threads.Queue.Watch(r.ID)
	}
}

// Close ends Follow.
func (l *Log) Close() {
	l.at(nil)
	l.stopBegun()
	l.threads.readers.Add(-1)
}

// lostHint is how long a hint that a run has new events can go unnoticed.
const lostHint = 500 * time.Millisecond

// Threads has the events of all threads.
type Threads struct {
	Queue runs.Queue
	// Removed are the runs of a thread that were removed, by their ids.
	Removed func(ctx context.Context, thread string) (map[string]Removed, error)
	// Closing is closed when the server closes.
	Closing <-chan struct{}
	// Begun wakes those who wait for a thread when a run was submitted on it.
	Begun runs.Topics

	readers atomic.Int64 // those who wait
	counts  eventCounts
}

// Removed is the record of a removed run: how many events it had, so that events of other runs keep
// their numbers.
type Removed struct {
	Started time.Time `json:"started"`
	Events  int64     `json:"events"`
}

// ErrClosing ends a Wait when the server closes.
var ErrClosing = errors.New("the server closes")

// Count returns how many events a run that has ended has.
func (t *Threads) Count(ctx context.Context, r runs.Run) (int64, error) {
	l := t.Log(r.ThreadID, 0)
	l.at(&r)
	for {
		stored, _, err := l.stored.Next(ctx)
		if err == nil {
			_, err = l.translate(ctx, stored)
		}
		if len(stored) == 0 || err != nil {
			return l.seq, err
		}
	}
}

// eventCounts has the number of events of runs that have ended.
type eventCounts struct {
	mu sync.Mutex
	by map[string]int64
}

// maxCounts bounds the memory of eventCounts: what is dropped is counted again.
const maxCounts = 1 << 16

func (c *eventCounts) get(run string) (int64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, ok := c.by[run]
	return n, ok
}

func (c *eventCounts) put(run string, n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil || len(c.by) >= maxCounts {
		c.by = map[string]int64{}
	}
	c.by[run] = n
}

// pollEvery returns how often a reader, one of readers, looks whether another server has begun a run.
func pollEvery(readers int64) time.Duration {
	most := time.Duration(max(1, readers/1000)) * time.Second
	return most/2 + rand.N(most/2)
}
