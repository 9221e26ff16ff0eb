package runs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/pregel/waittest"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
)

// counted is a queue that calls over when it has been asked for runs, and had one, more often than most.
type counted struct {
	runs.Queue
	n    atomic.Int64
	most int64
	over func()
}

func (q *counted) Claim(ctx context.Context, worker string, graphs []string) (*runs.Claim, time.Time, error) {
	c, next, err := q.Queue.Claim(ctx, worker, graphs)
	if c != nil && q.n.Add(1) > q.most {
		q.over()
	}
	return c, next, err
}

// untilAsleep waits until a run sleeps until an instant, zero for any.
func untilAsleep(ctx context.Context, q runs.Queue, id string, until time.Time) error {
	changed, stop := q.Watch(id)
	defer stop()
	for {
		r, err := q.Get(ctx, id)
		switch {
		case err != nil:
			return err
		case r.Status.Ended():
			return fmt.Errorf("it ended: %+v", r)
		case r.Asleep() && (until.IsZero() || r.After.Equal(until.UTC().Truncate(time.Microsecond))):
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Runs that the queue, whose clock is ahead, calls due although they sleep have no places at a worker: another run
// gets one, also if there are fewer places than such runs. None is claimed again meanwhile.
func TestEarlySleepersHaveNoPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancelCause(t.Context())
		defer end(nil)
		h := newHouse(t)
		ahead := func() time.Time { return time.Now().Add(3 * time.Hour) }
		h.queue = must(runs.NewLocal(ctx, must(store.NewMemory(store.Options{})), runs.LocalOptions{Clock: ahead}))
		h.add("g", func(ctx context.Context, _ []string) (string, error) { return "woke", pregel.Sleep(ctx, time.Hour) })
		h.add("work", says("done"))
		w := h.worker()
		w.Queue = &counted{Queue: h.queue, most: 100, over: func() { end(errors.New("runs are claimed again and again")) }}
		w.Concurrency = 2
		h.start(w)
		var all []string
		for i := range 7 {
			r := h.submit(runs.Request{Spec: runs.Spec{ThreadID: fmt.Sprint("t", i)}, Input: in("in")})
			if all = append(all, r.ID); untilAsleep(ctx, h.queue, r.ID, time.Time{}) != nil {
				t.Fatalf("%+v: %v", must(h.queue.Get(t.Context(), r.ID)), context.Cause(ctx))
			}
		}
		for i := range 3 {
			r := h.submit(runs.Request{Spec: runs.Spec{ThreadID: fmt.Sprint("w", i), Graph: "work"}, Input: in("in")})
			all = append(all, r.ID)
			if r, err := runs.Wait(ctx, h.queue, r.ID); err != nil || r.Status != runs.Success {
				t.Fatalf("%+v, %v: %v", r, err, context.Cause(ctx))
			}
		}
		for _, id := range all {
			if r := must(h.queue.Get(t.Context(), id)); r.Epoch != 1 {
				t.Errorf("%s was claimed %d times", r.ThreadID, r.Epoch)
			}
		}
	})
}

// marking is a queue that keeps the marks of runs, and stores them as others write them.
type marking struct {
	runs.Queue
	as    func(mark string) string
	mu    sync.Mutex
	marks []string
}

func (q *marking) Mark(ctx context.Context, c runs.Claim, mark string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.marks = append(q.marks, mark)
	return q.Queue.Mark(ctx, c, q.as(mark))
}

// A run that sleeps in one superstep after the other is marked once, in the form that workers of earlier builds
// go on with. Whatever the form is of those that have marked it, a worker goes on with it, and takes no input
// again, also when its thread was updated by hand.
func TestSleepersAreMarkedOnce(t *testing.T) {
	at := func(mark string) string { return mark[len("asleep at "):] }
	for name, as := range map[string]func(mark string) string{
		"now":            func(mark string) string { return mark },
		"the first form": func(string) string { return "slept" },
		"the second":     func(mark string) string { return "slept at " + at(mark) },
	} {
		t.Run(name, func(t *testing.T) {
			h, clock := newHouse(t), waittest.NewClock()
			h.queue = must(runs.NewLocal(t.Context(), must(store.NewMemory(store.Options{})), runs.LocalOptions{Clock: clock.Now}))
			b, from := graph.New(graph.Key("log", channel.Reduce(channel.Append[string]))), graph.Start
			for _, node := range []string{"one", "two", "three"} {
				b, from = b.Node(node, func(ctx context.Context, _ any) (any, error) {
					return map[string]any{"log": []string{node}}, pregel.Sleep(ctx, time.Hour)
				}).Edge(from, node), node
			}
			h.graphs["g"] = must(b.Compile(graph.Options{Name: "g", Saver: h.saver, Env: pregel.Environment{Now: clock.Now}}))
			w, q := h.worker(), &marking{Queue: h.queue, as: as}
			w.Queue = q
			h.start(w)
			r := h.submit(runs.Request{Input: in("in")})
			sleeps := func() *saver.Tuple {
				t.Helper()
				if err := untilAsleep(t.Context(), h.queue, r.ID, clock.Now().Add(time.Hour)); err != nil {
					t.Fatal(err)
				}
				return must(h.saver.GetTuple(t.Context(), saver.Config{ThreadID: "t"}))
			}
			want := "asleep at " + sleeps().Checkpoint.ID
			clock.Move(time.Hour)
			sleeps()
			if name != "now" { // it sleeps anew
				if _, err := h.graphs["g"].UpdateState(t.Context(), pregel.Thread("t"), pregel.StateUpdate{AsNode: pregel.Copy}); err != nil {
					t.Fatal(err)
				}
				clock.Move(time.Hour)
				sleeps()
			}
			clock.Move(time.Hour)
			sleeps()
			clock.Move(time.Hour)
			h.wait(r, runs.Success)
			h.log("in", "one", "two", "three")
			if name == "now" && !slices.Equal(q.marks, []string{want}) {
				t.Errorf("the marks are %q, want %q", q.marks, want)
			}
		})
	}
}
