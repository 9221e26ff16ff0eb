package runs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/pregel/waittest"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/store"
)

// rollout is a house whose workers have versions of one graph, which asks at a node, and then says its version.
type rollout struct {
	*house
	clock *waittest.Clock
}

func newRollout(t *testing.T) rollout {
	h := newHouse(t)
	clock := waittest.NewClock()
	clock.Move(-time.Until(clock.Now()))
	h.queue = must(runs.NewLocal(t.Context(), must(store.NewMemory(store.Options{})), runs.LocalOptions{Clock: clock.Now}))
	return rollout{h, clock}
}

// deploy starts a worker with a version, whose node that asks has a name.
func (h rollout) deploy(version, asks string, change func(*runs.Worker), migrations ...pregel.Migration) (stop func()) {
	h.Helper()
	g := must(graph.New(graph.Key("log", channel.Reduce(channel.Append[string]))).
		Node(asks, func(ctx context.Context, _ any) (any, error) {
			answer, err := pregel.AskFor[string](ctx, "ok?")
			return map[string]any{"log": []string{answer}}, err
		}).
		Node("say", func(context.Context, any) (any, error) { return map[string]any{"log": []string{version}}, nil }).
		Sequence(graph.Start, asks, "say").
		Compile(graph.Options{Name: "g", Version: version, Saver: h.saver, Migrations: migrations}))
	w := h.worker()
	w.Graphs, w.Name = map[string]*pregel.Graph{"g": g}, "worker "+version
	if change != nil {
		change(w)
	}
	stop = h.start(w)
	h.until("the worker is known", func(v metrics.QueueVersion) bool { return v.Version == g.Version() && v.Workers > 0 })
	return stop
}

// until waits until a version is so.
func (h rollout) until(what string, so func(metrics.QueueVersion) bool) {
	h.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		found := must(h.queue.Versions(h.Context()))
		if slices.ContainsFunc(found, so) {
			return
		}
		if time.Now().After(end) {
			h.Fatalf("%s: %+v", what, found)
		}
	}
}

// ask lets a thread come to its question.
func (h rollout) ask(thread string) {
	h.Helper()
	if r := h.wait(h.submit(runs.Request{Spec: runs.Spec{ThreadID: thread}, Input: in("in")}), runs.Success); !r.Waiting {
		h.Fatalf("%+v", r)
	}
}

func (h rollout) answer(thread string) runs.Run {
	h.Helper()
	return h.submit(runs.Request{Spec: runs.Spec{ThreadID: thread}, Input: pregel.Command{Resume: "yes"}})
}

// ended waits for the end of a run that says a version.
func (h rollout) ended(r runs.Run, version string) {
	h.Helper()
	if r = h.wait(r, runs.Success); r.Version != version || r.Pinned || r.Attempt != 1 || r.Worker != "worker "+version {
		h.Errorf("%+v, want it by version %s", r, version)
	}
	g := must(graph.New(graph.Key("log", channel.Reduce(channel.Append[string]))).Node("n", func(context.Context, any) (any, error) { return nil, nil }).
		Edge(graph.Start, "n").Compile(graph.Options{Name: "g", Saver: h.saver}))
	st := must(g.GetState(h.Context(), pregel.Thread(r.ThreadID)))
	if got := fmt.Sprint(st.Values.(map[string]any)["log"]); got != fmt.Sprintf("[in yes %s]", version) {
		h.Errorf("thread %s says %s, want it by version %s", r.ThreadID, got, version)
	}
}

func pinnedTo(version string, workers int64) func(metrics.QueueVersion) bool {
	return func(v metrics.QueueVersion) bool {
		return v.Version == version && v.Pinned == 1 && v.Workers == workers
	}
}

// TestSideBySide: threads go on at the version that stored them while a worker of it is alive, whichever
// worker finds their runs, and at the next one when none is.
func TestSideBySide(t *testing.T) {
	h := newRollout(t)
	old := h.deploy("1", "ask", nil)
	const threads = 8
	for i := range threads {
		h.ask(fmt.Sprint("old", i))
	}
	old()
	now := h.deploy("2", "ask", nil)
	for i := range threads {
		h.ask(fmt.Sprint("new", i))
	}
	old = h.deploy("1", "ask", nil)
	for i := range threads - 1 {
		a, b := h.answer(fmt.Sprint("old", i)), h.answer(fmt.Sprint("new", i))
		h.ended(a, "1")
		h.ended(b, "2")
	}
	now()
	h.ended(h.answer(fmt.Sprint("new", threads-1)), "1") // a roll-back
	old()
	h.deploy("2", "ask", nil)
	h.ended(h.answer(fmt.Sprint("old", threads-1)), "2")
}

// TestPinnedUntilItsVersion: a run whose thread would break waits, and is counted, until a worker of its version is there.
func TestPinnedUntilItsVersion(t *testing.T) {
	h := newRollout(t)
	old := h.deploy("1", "ask", nil)
	h.ask("t")
	old()
	h.deploy("2", "question", nil)
	r := h.answer("t")
	h.until("it waits", pinnedTo("1", 0))
	h.deploy("1", "ask", nil)
	h.ended(r, "1")
}

// TestPinnedUntilItFits: a later version goes on with it too.
func TestPinnedUntilItFits(t *testing.T) {
	h := newRollout(t)
	old := h.deploy("1", "ask", nil)
	h.ask("t")
	old()
	wrong := h.deploy("2", "question", nil)
	r := h.answer("t")
	h.until("it waits", pinnedTo("1", 0))
	wrong()
	h.clock.Move(time.Hour)
	h.deploy("3", "ask", nil)
	h.ended(r, "3")
}

// TestMigrationTakesOver: a migration takes a thread over although a worker of its version is alive.
func TestMigrationTakesOver(t *testing.T) {
	h := newRollout(t)
	old := h.deploy("1", "ask", nil)
	h.ask("t")
	old()
	if _, err := h.queue.Serve(t.Context(), "busy", map[string]string{"g": "1"}); err != nil {
		t.Fatal(err)
	}
	without := h.deploy("2", "ask", nil)
	r := h.answer("t")
	h.until("it waits", pinnedTo("1", 1))
	without()
	h.clock.Move(time.Second * 20)
	if _, err := h.queue.Serve(t.Context(), "busy", map[string]string{"g": "1"}); err != nil {
		t.Fatal(err)
	}
	h.deploy("2", "ask", nil, pregel.Migration{From: "1", To: "2"})
	h.ended(r, "2")
}

// TestPinnedWorker: a worker that is told so takes over nothing but what it has a migration for.
func TestPinnedWorker(t *testing.T) {
	h := newRollout(t)
	old := h.deploy("1", "ask", nil)
	h.ask("t")
	h.ask("u")
	old()
	pinned := func(w *runs.Worker) { w.Pinned = true }
	strict := h.deploy("2", "ask", pinned)
	r := h.answer("t")
	h.until("it waits", pinnedTo("1", 0))
	strict()
	h.clock.Move(time.Hour)
	h.deploy("2", "ask", pinned, pregel.Migration{From: "1", To: "2"})
	h.ended(h.answer("u"), "2")
	h.ended(r, "2")
}

// TestSleepAcrossVersions: a run that sleeps wakes at a worker of its version, or at the next one when there is none.
func TestSleepAcrossVersions(t *testing.T) {
	h := newRollout(t)
	items := must(store.NewMemory(store.Options{}))
	wakes := pregel.NewSignal[string]("wake")
	deploy := func(version string) func() {
		g := must(graph.New(graph.Key("log", channel.Reduce(channel.Append[string]))).Node("sleep", func(ctx context.Context, _ any) (any, error) {
			_, err := wakes.Receive(ctx)
			return map[string]any{"log": []string{version}}, err
		}).Edge(graph.Start, "sleep").Compile(graph.Options{Name: "g", Version: version, Saver: h.saver, Store: items}))
		w := h.worker()
		w.Graphs, w.Name = map[string]*pregel.Graph{"g": g}, "worker "+version
		stop := h.start(w)
		h.until("the worker is known", func(v metrics.QueueVersion) bool { return v.Version == version && v.Workers > 0 })
		return stop
	}
	old := deploy("1")
	a, b := h.submit(runs.Request{Spec: runs.Spec{ThreadID: "a"}, Input: in("in")}), h.submit(runs.Request{Spec: runs.Spec{ThreadID: "b"}, Input: in("in")})
	for _, id := range []string{a.ID, b.ID} {
		for r := must(h.queue.Get(t.Context(), id)); !r.Asleep(); r = must(h.queue.Get(t.Context(), id)) {
			time.Sleep(time.Millisecond)
		}
	}
	deploy("2")
	g := must(graph.New(graph.Key("log", channel.Reduce(channel.Append[string]))).Node("n", func(context.Context, any) (any, error) { return nil, nil }).
		Edge(graph.Start, "n").Compile(graph.Options{Name: "g", Saver: h.saver, Store: items}))
	wake := func(thread string) {
		t.Helper()
		if err := wakes.Send(t.Context(), g, thread, "now"); err != nil {
			t.Fatal(err)
		}
		if err := h.queue.Wake(t.Context(), thread); err != nil {
			t.Fatal(err)
		}
	}
	wake("a")
	if r := h.wait(a, runs.Success); r.Version != "1" {
		t.Errorf("%+v", r)
	}
	old()
	wake("b")
	if r := h.wait(b, runs.Success); r.Version != "2" {
		t.Errorf("%+v", r)
	}
}

// memo is a graph with a field that version 1 does not know, whose threads end.
func (h rollout) memo(version string) *pregel.Graph {
	return must(graph.New(graph.Key("log", channel.Reduce(channel.Append[string])), graph.Key("memo", channel.LastValue[string]())).
		Node("say", func(context.Context, any) (any, error) {
			return map[string]any{"log": []string{version}, "memo": "kept"}, nil
		}).Edge(graph.Start, "say").Compile(graph.Options{Name: "g", Version: version, Saver: h.saver}))
}

// TestNextTurnStaysWithItsVersion: new input to a thread that is done goes to its version as well: the other one would
// drop the fields that it does not know.
func TestNextTurnStaysWithItsVersion(t *testing.T) {
	h := newRollout(t)
	w := h.worker()
	w.Graphs, w.Name = map[string]*pregel.Graph{"g": h.memo("2")}, "worker 2"
	now := h.start(w)
	h.wait(h.submit(runs.Request{Spec: runs.Spec{ThreadID: "t"}, Input: in("one")}), runs.Success)
	now()
	if _, err := h.queue.Serve(t.Context(), "busy", map[string]string{"g": "2"}); err != nil {
		t.Fatal(err)
	}
	old := h.deploy("1", "ask", nil)
	r := h.submit(runs.Request{Spec: runs.Spec{ThreadID: "t"}, Input: in("two")})
	h.until("it waits", pinnedTo("2", 1))
	w = h.worker()
	w.Graphs, w.Name = map[string]*pregel.Graph{"g": h.memo("2")}, "worker 2"
	h.start(w)
	if r = h.wait(r, runs.Success); r.Version != "2" {
		t.Errorf("%+v", r)
	}
	old()
	st := must(h.memo("2").GetState(t.Context(), pregel.Thread("t")))
	if got := fmt.Sprint(st.Values); got != "map[log:[one 2 two 2] memo:kept]" {
		t.Error(got)
	}
}

// TestEditedByAnotherVersion: what a version stored by hand is newer than the run of the version before it.
func TestEditedByAnotherVersion(t *testing.T) {
	h := newRollout(t)
	old := h.deploy("1", "ask", nil)
	h.ask("t")
	h.ask("u")
	old()
	edit := must(graph.New(graph.Key("log", channel.Reduce(channel.Append[string]))).
		Node("ask", func(ctx context.Context, _ any) (any, error) {
			answer, err := pregel.AskFor[string](ctx, "ok?")
			return map[string]any{"log": []string{answer}}, err
		}).
		Node("say", func(context.Context, any) (any, error) { return map[string]any{"log": []string{"2"}}, nil }).
		Sequence(graph.Start, "ask", "say").
		Compile(graph.Options{Name: "g", Version: "2", Saver: h.saver}))
	for _, thread := range []string{"t", "u"} {
		if _, err := edit.UpdateState(t.Context(), pregel.Thread(thread), pregel.StateUpdate{Values: map[string]any{"log": []string{"yes"}}, AsNode: "ask"}, pregel.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, version := range []string{"1", "2"} { // both are alive
		if _, err := h.queue.Serve(t.Context(), "busy "+version, map[string]string{"g": version}); err != nil {
			t.Fatal(err)
		}
	}
	old = h.deploy("1", "ask", nil)
	r := h.submit(runs.Request{Spec: runs.Spec{ThreadID: "t"}})
	h.until("it waits", pinnedTo("2", 1))
	old()
	h.deploy("2", "ask", nil)
	h.ended(r, "2")
	h.ended(h.submit(runs.Request{Spec: runs.Spec{ThreadID: "u"}}), "2")
}

// TestPinnedByTheQueuesClock: how long a run is left to others is told by the queue's clock, not by the worker's.
func TestPinnedByTheQueuesClock(t *testing.T) {
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		h := newRollout(t)
		h.clock.Move(ahead)
		old := h.deploy("1", "ask", nil)
		h.ask("t")
		old()
		if _, err := h.queue.Serve(t.Context(), "busy", map[string]string{"g": "1"}); err != nil {
			t.Fatal(err)
		}
		h.deploy("2", "ask", nil)
		r := h.answer("t")
		h.until("it waits", pinnedTo("1", 1))
		r = must(h.queue.Get(t.Context(), r.ID))
		if want := h.clock.Now().Add(h.queue.LeaseTime()).Truncate(time.Microsecond); !r.Pinned || !r.After.Equal(want) {
			t.Errorf("ahead by %v: %+v, want it after %v", ahead, r, want)
		}
	}
}

// TestVersionThatNoQueueNotes: a worker that cannot say which version it has does not begin.
func TestVersionThatNoQueueNotes(t *testing.T) {
	h := newRollout(t)
	w := h.worker()
	w.Graphs = map[string]*pregel.Graph{"g": must(graph.New(graph.Key("n", channel.LastValue[int]())).
		Node("n", func(context.Context, any) (any, error) { return nil, nil }).Edge(graph.Start, "n").
		Compile(graph.Options{Name: "g", Version: "v\x00", Saver: h.saver}))}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := w.Run(ctx); !errors.Is(err, runs.ErrInvalid) {
		t.Errorf("%v", err)
	}
}

// tellsLate is a queue that is told late of a worker that looks for others, and hears first that it stops.
type tellsLate struct {
	runs.Queue
	calls          atomic.Int32
	looks, stopped chan struct{}
}

func (q *tellsLate) Serve(ctx context.Context, worker string, versions map[string]string) (map[string][]string, error) {
	switch n := q.calls.Add(1); {
	case len(versions) == 0:
		others, err := q.Queue.Serve(ctx, worker, versions)
		if n == 3 {
			close(q.stopped)
		}
		return others, err
	case n == 2:
		close(q.looks)
		select {
		case <-q.stopped:
		case <-ctx.Done(): // it did not look, but said once more that it is alive
		}
	}
	return q.Queue.Serve(context.WithoutCancel(ctx), worker, versions)
}

// TestStoppedWorkerIsNotAlive: a worker that stops while it leaves a thread to others counts as alive no longer.
func TestStoppedWorkerIsNotAlive(t *testing.T) {
	h := newRollout(t)
	old := h.deploy("1", "ask", nil)
	h.ask("t")
	old()
	if _, err := h.queue.Serve(t.Context(), "busy", map[string]string{"g": "1"}); err != nil {
		t.Fatal(err)
	}
	q := &tellsLate{Queue: h.queue, looks: make(chan struct{}), stopped: make(chan struct{})}
	stop := h.deploy("2", "ask", func(w *runs.Worker) { w.Queue = q })
	h.answer("t")
	<-q.looks
	stop()
	for _, v := range must(h.queue.Versions(t.Context())) {
		if v.Version == "2" && v.Workers > 0 {
			t.Errorf("%+v", v)
		}
	}
}
