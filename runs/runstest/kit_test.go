package runstest

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

func openLocal(t testing.TB, items *store.Local, o Options) *runs.Local {
	q, err := runs.NewLocal(context.Background(), items, runs.LocalOptions{Clock: o.Clock, LeaseTime: o.LeaseTime})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func inMemory(t testing.TB, o Options) (runs.Queue, func() runs.Queue) {
	items, err := store.NewMemory(store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return openLocal(t, items, o), func() runs.Queue { return openLocal(t, items, o) }
}

func TestLocalInMemory(t *testing.T) {
	Run(t, func(t *testing.T, o Options) (runs.Queue, func() runs.Queue) { return inMemory(t, o) })
}

func TestLocalOnDisk(t *testing.T) {
	Run(t, func(t *testing.T, o Options) (runs.Queue, func() runs.Queue) {
		dir := t.TempDir()
		var d *disk.Saver
		var items *store.Local
		open := func() runs.Queue {
			var err error
			if d, err = disk.Open(dir, disk.Options{Sync: disk.SyncNever}); err != nil {
				t.Fatal(err)
			}
			if items, err = store.On(d, store.Options{}); err != nil {
				t.Fatal(err)
			}
			return openLocal(t, items, o)
		}
		closeAll := func() {
			items.Close()
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
		q := open()
		t.Cleanup(closeAll)
		return q, func() runs.Queue { closeAll(); return open() }
	})
}

// watcher is a TB that notes whether a case failed.
type watcher struct {
	mu    sync.Mutex
	notes []string
}

func (w *watcher) Helper() {}

func (w *watcher) Errorf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes = append(w.notes, fmt.Sprintf(format, args...))
}

func (w *watcher) Fatalf(format string, args ...any) {
	w.Errorf(format, args...)
	runtime.Goexit()
}

// failure runs one case and returns why it failed, "" if it passed.
func failure(c testCase, open func(Options) (runs.Queue, func() runs.Queue)) string {
	w := &watcher{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.run(w, open)
	}()
	<-done
	return strings.Join(w.notes, "\n")
}

// mutant is a queue with a bug.
type mutant struct {
	runs.Queue
	submit  func(q runs.Queue, r runs.Request) (runs.Run, error)
	claim   func(q runs.Queue, worker string, graphs []string) (*runs.Claim, time.Time, error)
	cancel  func(q runs.Queue, id string, how runs.Strategy) (runs.Run, error)
	renew   func(q runs.Queue, claims []runs.Claim) ([]runs.Run, error)
	appends func(q runs.Queue, c runs.Claim, events []runs.Event) (int64, error)
	finish  func(q runs.Queue, c runs.Claim, o runs.Outcome) error
	events  func(q runs.Queue, id string, after int64, limit int) ([]runs.Event, error)
	watch   func(q runs.Queue, id string) (<-chan struct{}, func())
	advance func(q runs.Queue, id string, from, to time.Time) error
	sweep   func(q runs.Queue, before time.Time) (int, error)
	worker  func(w runs.WorkerQueue) runs.WorkerQueue
	reopen  func(first, second runs.Queue) runs.Queue
}

// ForWorker is that of the queue within, but for a bug in it.
func (m *mutant) ForWorker(runs.Queue) runs.WorkerQueue {
	if m.worker == nil {
		return nil
	}
	return m.worker(runs.ForWorker(m.Queue))
}

// deaf tells nobody that events are asked for.
type deaf struct{ runs.WorkerQueue }

func (deaf) WhenAsked(runs.Claim, func()) {}

// trusting holds every claim.
type trusting struct{ runs.WorkerQueue }

func (trusting) Holds(_ context.Context, c runs.Claim) func() (runs.Run, error) {
	return func() (runs.Run, error) { return c.Run, nil }
}

// greedy takes the next run whatever it is asked for.
type greedy struct{ runs.WorkerQueue }

func (g greedy) FinishAndClaim(ctx context.Context, c runs.Claim, o runs.Outcome, worker string, _ []string) (*runs.Claim, error) {
	return g.WorkerQueue.FinishAndClaim(ctx, c, o, worker, []string{"g"})
}

// lavish gives a worker more than it has room for.
type lavish struct{ runs.WorkerQueue }

func (l lavish) Offer(worker string, graphs []string, room int) (<-chan struct{}, func() []runs.Claim) {
	return l.WorkerQueue.Offer(worker, graphs, room+1)
}

var ctx = context.Background()

func (m *mutant) Submit(ctx context.Context, r runs.Request) (runs.Run, error) {
	if m.submit != nil {
		return m.submit(m.Queue, r)
	}
	return m.Queue.Submit(ctx, r)
}

func (m *mutant) Claim(ctx context.Context, worker string, graphs []string) (*runs.Claim, time.Time, error) {
	if m.claim != nil {
		return m.claim(m.Queue, worker, graphs)
	}
	return m.Queue.Claim(ctx, worker, graphs)
}

func (m *mutant) Cancel(ctx context.Context, id string, how runs.Strategy) (runs.Run, error) {
	if m.cancel != nil {
		return m.cancel(m.Queue, id, how)
	}
	return m.Queue.Cancel(ctx, id, how)
}

func (m *mutant) Renew(ctx context.Context, claims []runs.Claim) ([]runs.Run, error) {
	if m.renew != nil {
		return m.renew(m.Queue, claims)
	}
	return m.Queue.Renew(ctx, claims)
}

func (m *mutant) Append(ctx context.Context, c runs.Claim, events []runs.Event) (int64, error) {
	if m.appends != nil {
		return m.appends(m.Queue, c, events)
	}
	return m.Queue.Append(ctx, c, events)
}

func (m *mutant) Finish(ctx context.Context, c runs.Claim, o runs.Outcome) error {
	if m.finish != nil {
		return m.finish(m.Queue, c, o)
	}
	return m.Queue.Finish(ctx, c, o)
}

func (m *mutant) Events(ctx context.Context, id string, after int64, limit int) ([]runs.Event, error) {
	if m.events != nil {
		return m.events(m.Queue, id, after, limit)
	}
	return m.Queue.Events(ctx, id, after, limit)
}

func (m *mutant) Watch(id string) (<-chan struct{}, func()) {
	if m.watch != nil {
		return m.watch(m.Queue, id)
	}
	return m.Queue.Watch(id)
}

func (m *mutant) Advance(ctx context.Context, id string, from, to time.Time) error {
	if m.advance != nil {
		return m.advance(m.Queue, id, from, to)
	}
	return m.Queue.Advance(ctx, id, from, to)
}

func (m *mutant) Sweep(ctx context.Context, before time.Time) (int, error) {
	if m.sweep != nil {
		return m.sweep(m.Queue, before)
	}
	return m.Queue.Sweep(ctx, before)
}

// newest replaces the epoch of a claim by that of the run.
func newest(q runs.Queue, c runs.Claim) runs.Claim {
	if r, err := q.Get(ctx, c.ID); err == nil {
		c.Epoch = r.Epoch
	}
	return c
}

// bugs are planted one at a time; a case of the id must see each.
var bugs = []struct {
	id, name string
	plant    func(*mutant)
}{
	{"submit", "no defaults", func(m *mutant) {
		m.submit = func(q runs.Queue, r runs.Request) (runs.Run, error) {
			got, err := q.Submit(ctx, r)
			got.Attempts = r.Attempts
			return got, err
		}
	}},
	{"keys", "keys are ignored", func(m *mutant) {
		m.submit = func(q runs.Queue, r runs.Request) (runs.Run, error) { r.Key = ""; return q.Submit(ctx, r) }
	}},
	{"busy", "everything is enqueued", func(m *mutant) {
		m.submit = func(q runs.Queue, r runs.Request) (runs.Run, error) { r.Multitask = ""; return q.Submit(ctx, r) }
	}},
	{"busy", "a rollback is an interrupt", func(m *mutant) {
		m.submit = func(q runs.Queue, r runs.Request) (runs.Run, error) {
			if r.Multitask == runs.Rollback {
				r.Multitask = runs.Interrupt
			}
			return q.Submit(ctx, r)
		}
	}},
	{"order", "threads do not matter", func(m *mutant) {
		m.submit = func(q runs.Queue, r runs.Request) (runs.Run, error) { r.ThreadID = ""; return q.Submit(ctx, r) }
	}},
	{"order", "priority is ignored", func(m *mutant) {
		m.submit = func(q runs.Queue, r runs.Request) (runs.Run, error) { r.Priority = 0; return q.Submit(ctx, r) }
	}},
	{"order", "delays are ignored", func(m *mutant) {
		m.submit = func(q runs.Queue, r runs.Request) (runs.Run, error) { r.After = time.Time{}; return q.Submit(ctx, r) }
	}},
	{"order", "any graph will do", func(m *mutant) {
		m.claim = func(q runs.Queue, worker string, _ []string) (*runs.Claim, time.Time, error) {
			return q.Claim(ctx, worker, []string{"g", "h"})
		}
	}},
	{"claims", "epochs are not looked at", func(m *mutant) {
		m.finish = func(q runs.Queue, c runs.Claim, o runs.Outcome) error { return q.Finish(ctx, newest(q, c), o) }
	}},
	{"claims", "events of anybody", func(m *mutant) {
		m.appends = func(q runs.Queue, c runs.Claim, events []runs.Event) (int64, error) {
			return q.Append(ctx, newest(q, c), events)
		}
	}},
	{"claims", "nothing is renewed", func(m *mutant) {
		m.renew = func(q runs.Queue, claims []runs.Claim) (held []runs.Run, _ error) {
			for _, c := range claims {
				r, _ := q.Get(ctx, c.ID)
				held = append(held, r)
			}
			return held, nil
		}
	}},
	{"attempts", "every attempt counts", func(m *mutant) {
		m.finish = func(q runs.Queue, c runs.Claim, o runs.Outcome) error {
			o.Uncounted = false
			return q.Finish(ctx, c, o)
		}
	}},
	{"discard", "nothing is discarded", func(m *mutant) {
		m.claim = func(q runs.Queue, worker string, graphs []string) (*runs.Claim, time.Time, error) {
			c, next, err := q.Claim(ctx, worker, graphs)
			if c != nil {
				c.Discard = false
			}
			return c, next, err
		}
	}},
	{"cancel", "a rollback is not kept", func(m *mutant) {
		m.cancel = func(q runs.Queue, id string, _ runs.Strategy) (runs.Run, error) {
			return q.Cancel(ctx, id, runs.Interrupt)
		}
	}},
	{"versions", "nothing is pinned", func(m *mutant) {
		m.finish = func(q runs.Queue, c runs.Claim, o runs.Outcome) error {
			o.Version = ""
			return q.Finish(ctx, c, o)
		}
	}},
	{"versions", "every worker is the same", func(m *mutant) {
		m.claim = func(q runs.Queue, _ string, graphs []string) (*runs.Claim, time.Time, error) {
			return q.Claim(ctx, "old", graphs)
		}
	}},
	{"retry", "the last event is lost", func(m *mutant) {
		m.events = func(q runs.Queue, id string, after int64, limit int) ([]runs.Event, error) {
			found, err := q.Events(ctx, id, after, limit)
			return found[:max(len(found)-1, 0)], err
		}
	}},
	{"finish", "who gives back waits for nothing", func(m *mutant) {
		m.finish = func(q runs.Queue, c runs.Claim, o runs.Outcome) error {
			o.After = time.Time{}
			return q.Finish(ctx, c, o)
		}
	}},
	{"events", "after is included", func(m *mutant) {
		m.events = func(q runs.Queue, id string, after int64, limit int) ([]runs.Event, error) {
			return q.Events(ctx, id, max(after-1, 0), limit)
		}
	}},
	{"events", "no limit", func(m *mutant) {
		m.events = func(q runs.Queue, id string, after int64, _ int) ([]runs.Event, error) {
			return q.Events(ctx, id, after, 0)
		}
	}},
	{"worker", "nobody is told who asks", func(m *mutant) {
		m.worker = func(w runs.WorkerQueue) runs.WorkerQueue { return deaf{w} }
	}},
	{"worker", "every claim holds", func(m *mutant) {
		m.worker = func(w runs.WorkerQueue) runs.WorkerQueue { return trusting{w} }
	}},
	{"worker", "a run is claimed unasked", func(m *mutant) {
		m.worker = func(w runs.WorkerQueue) runs.WorkerQueue { return greedy{w} }
	}},
	{"worker", "more is given than there is room", func(m *mutant) {
		m.worker = func(w runs.WorkerQueue) runs.WorkerQueue { return lavish{w} }
	}},
	{"schedules", "advance does not compare", func(m *mutant) {
		m.advance = func(q runs.Queue, id string, from, to time.Time) error {
			all, _ := q.Schedules(ctx)
			for _, s := range all {
				if s.ID == id {
					from = s.Next
				}
			}
			return q.Advance(ctx, id, from, to)
		}
	}},
	{"sweep", "all that ended goes", func(m *mutant) {
		m.sweep = func(q runs.Queue, before time.Time) (int, error) { return q.Sweep(ctx, before.Add(time.Hour)) }
	}},
	{"durability", "a queue that forgets", func(m *mutant) { m.reopen = func(_, _ runs.Queue) runs.Queue { return &mutant{Queue: forgetful()} } }},
	{"concurrency", "two workers get one run", func(m *mutant) {
		var mu sync.Mutex
		var last *runs.Claim
		n := 0
		m.claim = func(q runs.Queue, worker string, graphs []string) (*runs.Claim, time.Time, error) {
			mu.Lock()
			defer mu.Unlock()
			if n++; n%7 == 0 && last != nil {
				return last, time.Time{}, nil
			}
			c, next, err := q.Claim(ctx, worker, graphs)
			last = c
			return c, next, err
		}
	}},
}

func forgetful() runs.Queue {
	items, err := store.NewMemory(store.Options{})
	if err != nil {
		panic(err)
	}
	q, err := runs.NewLocal(ctx, items, runs.LocalOptions{})
	if err != nil {
		panic(err)
	}
	return q
}

func TestMutants(t *testing.T) {
	open := func(plant func(*mutant)) func(Options) (runs.Queue, func() runs.Queue) {
		return func(o Options) (runs.Queue, func() runs.Queue) {
			q, reopen := inMemory(t, o)
			m := &mutant{Queue: q}
			plant(m)
			return m, func() runs.Queue {
				if m.reopen != nil {
					return m.reopen(q, reopen())
				}
				return reopen()
			}
		}
	}
	for _, bug := range bugs {
		seen := ""
		for _, c := range allCases() {
			if c.id == bug.id && seen == "" {
				seen = failure(c, open(bug.plant))
			}
		}
		if seen == "" {
			t.Errorf("%s: no case of %s fails", bug.name, bug.id)
		}
	}
	t.Logf("%d bugs planted", len(bugs))
}

func TestNamesOfCasesDiffer(t *testing.T) {
	names := map[string]bool{}
	for _, c := range allCases() {
		if names[c.id+c.name] {
			t.Errorf("two cases are called %s/%s", c.id, c.name)
		}
		names[c.id+c.name] = true
	}
}
