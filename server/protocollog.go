package server

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

// protocolLog reads the events of a thread, one after the other, and numbers them. Not safe
// for concurrent use.
type protocolLog struct {
	events *threadEvents
	thread string
	// since is the number of the last event that is not wanted.
	since int64
	// seq is the number of the last event that was read, or passed over.
	seq  int64
	run  *translator // of the run that it is at; nil between runs
	last *translator // of the last run that it was at; nil before the first
	base int64       // seq before run
	read int64       // the last stored event of run that was read
	pace pace
	done map[string]bool
	// ahead are the runs to go to, in the order in which they were begun. All runs up to the id in listed
	// are done, or in idle: those that ended and were never begun, but may be tried again. No other comes
	// among them: they were submitted more than lateIDs ago.
	ahead  []begunRun
	listed string
	idle   []string

	begun, changed         <-chan struct{} // a run of the thread was submitted; something about run has changed
	stopBegun, stopChanged func()
}

func (s *threadEvents) log(thread string, since int64) *protocolLog {
	return &protocolLog{events: s, thread: thread, since: since, done: map[string]bool{}}
}

// next returns the next events that are there; none if there are none yet.
func (l *protocolLog) next(ctx context.Context) ([]protocolEvent, error) {
	for {
		if l.run == nil {
			ok, err := l.nextRun(ctx)
			if !ok || err != nil {
				return nil, err
			}
		}
		id := l.run.run.ID
		// The run before its events: what ended has no more of them.
		r, err := l.events.queue.Get(ctx, id)
		if errors.Is(err, runs.ErrNotFound) { // it was removed: its record says how many events it had
			l.seq, l.ahead = l.base, nil
			l.at(nil)
			continue
		}
		if errors.Is(err, runs.ErrUnreadable) { // the thread goes on without it
			l.done[id] = true
			l.at(nil)
			continue
		}
		if err != nil {
			return nil, err
		}
		stored, err := l.events.queue.Events(ctx, id, l.read, l.pace.limit())
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
			l.events.counts.put(id, l.seq-l.base)
			l.done[id] = true
			l.at(nil)
			continue
		}
		l.pace.read(stored)
		out, err := l.translate(ctx, stored)
		if len(out) > 0 || err != nil {
			return out, err
		}
	}
}

// translate numbers what stored events of the run say, and returns what is wanted.
func (l *protocolLog) translate(ctx context.Context, stored []runs.Event) (out []protocolEvent, err error) {
	queue := l.events.queue
	for _, ev := range stored {
		text, err := ev.JSON(queue.Serializer())
		if err != nil {
			return out, &runs.UnreadableError{RunID: l.run.run.ID, Err: err}
		}
		made, err := l.run.translate(ev, text, func() (runs.Run, error) { return queue.Get(ctx, l.run.run.ID) })
		if err != nil {
			return out, err
		}
		l.read = ev.Seq
		for _, e := range made {
			l.seq++
			if e.seq = l.seq; e.seq > l.since {
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

// nextRun goes to the next run of the thread that was begun, and past those of which no event is
// wanted. It reports whether there is one.
func (l *protocolLog) nextRun(ctx context.Context) (bool, error) {
	forgotten, _, err := l.events.forgotten.get(ctx, l.thread)
	if err != nil {
		return false, err
	}
	if len(l.ahead) == 0 {
		if err := l.look(ctx, forgotten); err != nil {
			return false, err
		}
	}
	for len(l.ahead) > 0 {
		id := l.ahead[0].id
		l.ahead = l.ahead[1:]
		if f, gone := forgotten.Runs[id]; gone {
			l.seq += f.Events
			l.done[id] = true
			continue
		}
		r, err := l.events.queue.Get(ctx, id)
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
		if n, ok := l.events.counts.get(id); ok && r.Status.Ended() && l.seq+n <= l.since {
			l.seq += n
			l.done[id] = true
			continue
		}
		l.at(&r)
		return true, nil
	}
	return false, nil
}

// lateIDs is how long after a run another one may come whose id says that it was submitted before: the
// clocks of servers may be apart, and a run has its id before it is stored.
const lateIDs = time.Minute

// look finds the runs to go to. It does not list those again that are done.
func (l *protocolLog) look(ctx context.Context, forgotten forgottenRuns) error {
	var ahead []begunRun
	add := func(id string, started time.Time) {
		if !started.IsZero() && !l.done[id] {
			ahead = append(ahead, begunRun{id, started})
		}
	}
	idle := l.idle
	l.idle = nil
	for _, id := range idle {
		r, err := l.events.queue.Get(ctx, id)
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
	done, settled := true, now().Add(-lateIDs) // done: all so far
	for r, err := range l.events.queue.List(ctx, runs.Query{ThreadID: l.thread, After: l.listed}) {
		if err != nil && !errors.Is(err, runs.ErrUnreadable) {
			return err
		}
		_, gone := forgotten.Runs[r.ID]
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
	for id, f := range forgotten.Runs {
		add(id, f.Started)
	}
	slices.SortFunc(ahead, func(a, b begunRun) int {
		return cmp.Or(a.started.Compare(b.started), cmp.Compare(a.id, b.id))
	})
	l.ahead = ahead
	return nil
}

// wait waits until there may be more to read, something comes from also, or most has passed.
// It ends with an error when ctx ends or the server closes.
func (l *protocolLog) wait(ctx context.Context, most time.Duration, also <-chan struct{}) error {
	lost := lostHint
	if l.run == nil {
		lost = pollEvery(l.events.readers.Load())
	}
	t := time.NewTimer(min(most, lost))
	defer t.Stop()
	select {
	case <-l.begun:
	case <-l.changed:
	case <-also:
	case <-t.C:
	case <-l.events.done:
		return errClosing
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// follow begins to watch the thread for wait. The caller calls close.
func (l *protocolLog) follow() {
	l.events.readers.Add(1)
	l.begun, l.stopBegun = l.events.begun.Watch(l.thread)
}

// at makes a run the one that the log is at, or none, and watches it if the log follows.
func (l *protocolLog) at(r *runs.Run) {
	if l.stopChanged != nil {
		l.stopChanged()
	}
	l.run, l.changed, l.stopChanged = nil, nil, nil
	if r == nil {
		return
	}
	l.run, l.base, l.read = newTranslator(*r), l.seq, 0
	l.last = l.run
	if l.begun != nil {
		l.changed, l.stopChanged = l.events.queue.Watch(r.ID)
	}
}

func (l *protocolLog) close() {
	l.at(nil)
	l.stopBegun()
	l.events.readers.Add(-1)
}

// lostHint is how long a hint that a run has new events can go unnoticed.
const lostHint = 500 * time.Millisecond

// threadEvents has the events of threads, as protocol v2 tells them.
type threadEvents struct {
	queue runs.Queue
	locks *locks
	done  <-chan struct{} // the server closes
	// begun tells those who wait for a thread that a run was submitted, by thread.
	begun runs.Topics
	// readers counts those who wait.
	readers atomic.Int64
	counts  eventCounts
	// forgotten are the runs that were removed, by thread.
	forgotten records[forgottenRuns]
}

// forgottenRuns are runs of a thread that were removed.
type forgottenRuns struct {
	Runs map[string]forgottenRun `json:"runs"`
}

// forgottenRun is how many events a run had that was removed, so that the numbers of others
// stay what they are.
type forgottenRun struct {
	Started time.Time `json:"started"`
	Events  int64     `json:"events"`
}

// forget keeps the number of a run's events in mind. It must be called before the run,
// which has ended, is removed from the queue. Those of one that cannot be decoded do not count.
func (s *threadEvents) forget(ctx context.Context, id string) error {
	r, err := s.queue.Get(ctx, id)
	if errors.Is(err, runs.ErrNotFound) || errors.Is(err, runs.ErrUnreadable) || err == nil && r.Started.IsZero() {
		return nil
	}
	if err != nil {
		return err
	}
	l := s.log(r.ThreadID, 0)
	l.at(&r)
	for {
		stored, err := s.queue.Events(ctx, r.ID, l.read, l.pace.limit())
		if err == nil && len(stored) == 0 {
			break
		}
		l.pace.read(stored)
		if err == nil {
			_, err = l.translate(ctx, stored)
		}
		if errors.Is(err, runs.ErrUnreadable) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	defer s.locks.lock("protocol/" + r.ThreadID)()
	known, _, err := s.forgotten.get(ctx, r.ThreadID)
	if err != nil {
		return err
	}
	if known.Runs == nil {
		known.Runs = map[string]forgottenRun{}
	}
	known.Runs[r.ID] = forgottenRun{r.Started, l.seq}
	return s.forgotten.put(ctx, r.ThreadID, known)
}

// eventCounts are how many events runs have that have ended.
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

// pollEvery is how long one of so many readers waits before it looks whether another server
// has begun a run.
func pollEvery(readers int64) time.Duration {
	most := time.Duration(max(1, readers/1000)) * time.Second
	return most/2 + rand.N(most/2)
}
