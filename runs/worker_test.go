package runs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/store"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// house is a program: a saver, a queue, and graphs of one list, "log".
type house struct {
	*testing.T
	saver  *memory.Saver
	queue  *runs.Local
	graphs map[string]*pregel.Graph
}

type node func(ctx context.Context, log []string) (string, error)

func newHouse(t *testing.T) *house {
	t.Helper()
	mem := must(store.NewMemory(store.Options{}))
	return &house{T: t, saver: memory.New(memory.Options{}), queue: must(runs.NewLocal(t.Context(), mem, runs.LocalOptions{})), graphs: map[string]*pregel.Graph{}}
}

// add makes a graph of nodes in a row.
func (h *house) add(name string, nodes ...node) {
	h.Helper()
	b := graph.New(graph.Key("log", channel.Reduce(channel.Append[string])))
	from := graph.Start
	for i, f := range nodes {
		at := fmt.Sprint("n", i)
		b = b.Node(at, func(ctx context.Context, state any) (any, error) {
			log, _ := state.(map[string]any)["log"].([]string)
			said, err := f(ctx, log)
			if err != nil {
				return nil, err
			}
			return map[string]any{"log": []string{said}}, nil
		}).Edge(from, at)
		from = at
	}
	h.graphs[name] = must(b.Compile(graph.Options{Name: name, Saver: h.saver}))
}

func says(word string) node {
	return func(context.Context, []string) (string, error) { return word, nil }
}

func (h *house) worker() *runs.Worker {
	return &runs.Worker{Queue: h.queue, Saver: h.saver, Graphs: h.graphs, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Backoff: func(int) time.Duration { return time.Millisecond }}
}

// start runs a worker until stop is called, or the test ends.
func (h *house) start(w *runs.Worker) (stop func()) {
	h.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			h.Errorf("worker: %v", err)
		}
	})
	h.Cleanup(stop)
	return stop
}

func (h *house) submit(req runs.Request) runs.Run {
	h.Helper()
	if req.Graph == "" {
		req.Graph = "g"
	}
	if req.ThreadID == "" {
		req.ThreadID = "t"
	}
	r, err := h.queue.Submit(h.Context(), req)
	if err != nil {
		h.Fatal(err)
	}
	return r
}

func in(word string) map[string]any { return map[string]any{"log": []string{word}} }

// wait waits for the end of a run, which must be as asked.
func (h *house) wait(r runs.Run, want runs.Status) runs.Run {
	h.Helper()
	r, err := runs.Wait(h.Context(), h.queue, r.ID)
	if err != nil || r.Status != want {
		h.Fatalf("%s: %s %q, %v; want %s", r.ID, r.Status, r.Error, err, want)
	}
	return r
}

func (h *house) log(want ...string) {
	h.Helper()
	st, err := h.graphs["g"].GetState(h.Context(), pregel.Thread("t"))
	if err != nil {
		h.Fatal(err)
	}
	values, _ := st.Values.(map[string]any)
	got, _ := values["log"].([]string)
	if !slices.Equal(got, want) {
		h.Fatalf("log %q, want %q", got, want)
	}
}

func TestRunsOfAThread(t *testing.T) {
	h := newHouse(t)
	h.add("g", says("a"), says("b"))
	var all []runs.Run
	for i := range 3 {
		all = append(all, h.submit(runs.Request{Input: in(fmt.Sprint(i)), Spec: runs.Spec{Modes: []pregel.Mode{pregel.ModeUpdates}}}))
	}
	followed := make(chan []runs.Event)
	go func() {
		var events []runs.Event
		for ev, err := range runs.Follow(context.Background(), h.queue, all[2].ID, 0) {
			if err != nil {
				t.Error(err)
			}
			events = append(events, ev)
		}
		followed <- events
	}()
	h.start(h.worker())
	for _, r := range all {
		h.wait(r, runs.Success)
	}
	h.log("0", "a", "b", "1", "a", "b", "2", "a", "b")
	events := <-followed
	kinds := []runs.Kind{}
	for i, ev := range events {
		if ev.Seq != int64(i)+1 || ev.Attempt != 1 {
			t.Errorf("event %d: %+v", i, ev)
		}
		kinds = append(kinds, ev.Kind)
	}
	if want := []runs.Kind{runs.KindAttempt, "updates", "updates", runs.KindEnd}; !slices.Equal(kinds, want) {
		t.Errorf("events %v, want %v", kinds, want)
	}
	if text := must(events[2].JSON(h.queue.Serializer())); string(text) != `{"n1":{"log":["b"]}}` {
		t.Errorf("update %s", text)
	}
}

// A run that failed goes on where it was; nodes that ended do not run again.
func TestRetry(t *testing.T) {
	h := newHouse(t)
	var firsts, fails atomic.Int32
	fails.Store(2)
	h.add("g", func(context.Context, []string) (string, error) {
		firsts.Add(1)
		return "a", nil
	}, func(context.Context, []string) (string, error) {
		if fails.Add(-1) >= 0 {
			return "", errors.New("not yet")
		}
		return "b", nil
	})
	h.start(h.worker())
	r := h.wait(h.submit(runs.Request{Input: in("x")}), runs.Success)
	h.log("x", "a", "b")
	if r.Attempt != 3 || firsts.Load() != 1 {
		t.Errorf("attempt %d, the first node ran %d times", r.Attempt, firsts.Load())
	}
	fails.Store(3)
	r = h.wait(h.submit(runs.Request{Input: in("y")}), runs.Error)
	if r.Error == "" || r.Attempt != 3 {
		t.Errorf("%+v", r)
	}
	if _, err := h.queue.Retry(t.Context(), r.ID); err != nil {
		t.Fatal(err)
	}
	h.wait(r, runs.Success)
	h.log("x", "a", "b", "y", "a", "b")
	if firsts.Load() != 2 {
		t.Errorf("the first node ran %d times", firsts.Load())
	}
}

// A worker that is told to stop gives its runs back; another goes on with them.
func TestDrain(t *testing.T) {
	h := newHouse(t)
	entered, leave := make(chan bool, 1), make(chan bool)
	var firsts atomic.Int32
	h.add("g", func(context.Context, []string) (string, error) {
		firsts.Add(1)
		entered <- true
		<-leave
		return "a", nil
	}, says("b"))
	stop := h.start(h.worker())
	r := h.submit(runs.Request{Input: in("x")})
	<-entered
	go close(leave)
	stop()
	if got := must(h.queue.Get(t.Context(), r.ID)); got.Status == runs.Pending && got.Attempt != 0 {
		t.Errorf("attempt %d counts", got.Attempt)
	}
	h.start(h.worker())
	h.wait(r, runs.Success)
	h.log("x", "a", "b")
	if firsts.Load() != 1 {
		t.Errorf("the first node ran %d times", firsts.Load())
	}
}

// TestConcurrency: a worker executes as many runs at a time as it may, and all in the end, whether they
// come while it waits, are claimed by it, or follow another that has ended.
func TestConcurrency(t *testing.T) {
	h := newHouse(t)
	entered, leave := make(chan bool), make(chan bool)
	h.add("g", func(context.Context, []string) (string, error) {
		entered <- true
		<-leave
		return "a", nil
	})
	w := h.worker()
	w.Concurrency = 3
	h.start(w)
	for round := range 4 {
		// Beside one that has to wait, which wakes the worker.
		h.submit(runs.Request{Spec: runs.Spec{ThreadID: fmt.Sprint("later", round)}, Input: in("x"), After: time.Now().Add(time.Hour)})
		r := h.submit(runs.Request{Spec: runs.Spec{ThreadID: fmt.Sprint("alone", round)}, Input: in("x")})
		<-entered
		leave <- true
		h.wait(r, runs.Success)
	}
	for round := range 3 { // the worker waits again, and those that executed the runs before do
		var all []runs.Run
		for i := range 5 {
			all = append(all, h.submit(runs.Request{Spec: runs.Spec{ThreadID: fmt.Sprint(round, i)}, Input: in("x")}))
		}
		for range w.Concurrency {
			<-entered
		}
		waiting := 0
		for _, r := range all {
			if must(h.queue.Get(t.Context(), r.ID)).Status == runs.Pending {
				waiting++
			}
		}
		if waiting != 2 {
			t.Errorf("round %d: %d wait for a place, want 2", round, waiting)
		}
		for i := range all {
			leave <- true
			if i < 2 {
				<-entered
			}
		}
		for _, r := range all {
			h.wait(r, runs.Success)
		}
	}
}

// blocking blocks its first caller until its context ends.
func blocking(entered chan<- bool) node {
	var once atomic.Bool
	return func(ctx context.Context, _ []string) (string, error) {
		if once.Swap(true) {
			return "b", nil
		}
		entered <- true
		<-ctx.Done()
		return "", context.Cause(ctx)
	}
}

// A run that was interrupted keeps what it stored. The next one does not finish it.
func TestInterrupt(t *testing.T) {
	for _, how := range []string{"by hand", "by the next"} {
		t.Run(how, func(t *testing.T) {
			h := newHouse(t)
			entered := make(chan bool, 1)
			h.add("g", says("a"), blocking(entered))
			h.start(h.worker())
			first := h.submit(runs.Request{Input: in("x")})
			<-entered
			next := runs.Request{Input: in("y")}
			if how == "by hand" {
				if _, err := h.queue.Cancel(t.Context(), first.ID, runs.Interrupt); err != nil {
					t.Fatal(err)
				}
			} else {
				next.Multitask = runs.Interrupt
			}
			second := h.submit(next)
			h.wait(first, runs.Interrupted)
			h.wait(second, runs.Success)
			h.log("x", "a", "y", "a", "b")
		})
	}
}

// A run that was rolled back leaves the thread as it found it.
func TestRollback(t *testing.T) {
	h := newHouse(t)
	entered := make(chan bool, 1)
	h.add("h", says("before"))
	h.add("g", says("a"), blocking(entered))
	h.start(h.worker())
	h.wait(h.submit(runs.Request{Spec: runs.Spec{Graph: "h"}, Input: in("w")}), runs.Success)
	first := h.submit(runs.Request{Input: in("x")})
	<-entered
	second := h.submit(runs.Request{Input: in("y"), Spec: runs.Spec{Multitask: runs.Rollback}})
	if got := h.wait(first, runs.Interrupted); got.Cancel != runs.Rollback {
		t.Errorf("%+v", got)
	}
	h.wait(second, runs.Success)
	h.log("w", "before", "y", "a", "b")
}

// TestLateRollback: a worker that was stopped behind its claim asks before it rolls a run back, and
// removes nothing. Others may have executed the runs behind it.
func TestLateRollback(t *testing.T) {
	h := newHouse(t)
	q := &deaf{Queue: h.queue}
	entered, left := make(chan bool, 1), make(chan bool, 1)
	h.add("g", says("a"), func(ctx context.Context, _ []string) (string, error) {
		entered <- true
		<-ctx.Done()
		q.void.Store(true)
		left <- true
		return "", context.Cause(ctx)
	})
	w := h.worker()
	w.Queue = q
	stop := h.start(w)
	r := h.submit(runs.Request{Input: in("x")})
	<-entered
	must(h.queue.Cancel(t.Context(), r.ID, runs.Rollback))
	<-left
	stop()
	if got := must(h.queue.Get(t.Context(), r.ID)); got.Status != runs.Running {
		t.Errorf("%+v: who lost the claim has reported", got)
	}
	h.log("x", "a")
}

// A question ends its run; the answer is a run of its own. An attempt that was not reported
// after it took the answer does not answer the next question with it.
func TestAnswers(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	var ahead atomic.Int64 // of the clock
	const lease = time.Minute
	clock := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	h.queue = must(runs.NewLocal(t.Context(), must(store.NewMemory(store.Options{})), runs.LocalOptions{LeaseTime: lease, Clock: clock}))
	h.add("g", func(ctx context.Context, _ []string) (string, error) {
		one, err := pregel.AskFor[string](ctx, "one?")
		if err != nil {
			return "", err
		}
		two, err := pregel.AskFor[string](ctx, "two?")
		return one + two, err
	})
	q := &silent{Queue: h.queue, died: func() { ahead.Add(int64(lease)) }}
	w := h.worker()
	w.Queue = q
	h.start(w)
	waits := func(input any, want bool) {
		t.Helper()
		q.lost.Store(true)
		r := h.wait(h.submit(runs.Request{Input: input}), runs.Success)
		if r.Waiting != want || r.Attempt < 2 {
			t.Errorf("input %v: %+v", input, r)
		}
	}
	waits(in("x"), true)
	waits(pregel.Command{Resume: "1"}, true)
	waits(pregel.Command{Resume: "2"}, false)
	h.log("x", "12")
	if r := h.wait(h.submit(runs.Request{Input: pregel.Command{Resume: "3"}}), runs.Error); r.Attempt != 1 {
		t.Errorf("%+v: nothing was asked", r)
	}
}

// An answer of the wrong type, and an input, fail their run at the first attempt. The question still
// waits, and a right answer is taken.
func TestWrongAnswer(t *testing.T) {
	for name, wrong := range map[string]func(id string) any{
		"plain": func(string) any { return "five" },
		"by id": func(id string) any { return map[string]any{id: "five"} },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.add("g", func(ctx context.Context, _ []string) (string, error) {
				n, err := pregel.AskFor[int](ctx, "how many?")
				return fmt.Sprint(n), err
			})
			h.start(h.worker())
			h.wait(h.submit(runs.Request{Input: in("x")}), runs.Success)
			for range 2 {
				st := must(h.graphs["g"].GetState(t.Context(), pregel.Thread("t")))
				if len(st.Interrupts) != 1 {
					t.Fatalf("%d questions wait", len(st.Interrupts))
				}
				r := h.wait(h.submit(runs.Request{Input: pregel.Command{Resume: wrong(st.Interrupts[0].ID)}}), runs.Error)
				if r.Attempt != 1 || !strings.Contains(r.Error, "want an integer, got a string") {
					t.Errorf("attempt %d: %s", r.Attempt, r.Error)
				}
			}
			h.wait(h.submit(runs.Request{Input: pregel.Command{Resume: 5}}), runs.Success)
			h.log("x", "5")
			if r := h.wait(h.submit(runs.Request{Input: map[string]any{"log": 7}}), runs.Error); r.Attempt != 1 {
				t.Errorf("an input of the wrong type: attempt %d: %s", r.Attempt, r.Error)
			}
		})
	}
}

// silent is a queue that loses what a worker reports, once, as if the worker had died then.
type silent struct {
	runs.Queue
	lost atomic.Bool
	died func() // waits until the claim is void
}

func (q *silent) Finish(ctx context.Context, c runs.Claim, o runs.Outcome) error {
	if q.lost.Swap(false) {
		q.died()
		return runs.ErrFenced
	}
	return q.Queue.Finish(ctx, c, o)
}

// A run waits while a program runs the thread without the queue.
func TestThreadOfAnother(t *testing.T) {
	h := newHouse(t)
	h.add("g", says("a"))
	lease, err := h.saver.Own(t.Context(), "t", false)
	if err != nil {
		t.Fatal(err)
	}
	changed, stop := h.queue.Watch("")
	defer stop()
	h.start(h.worker())
	r := h.submit(runs.Request{Input: in("x")})
	for got := r; got.Worker == "" || got.Status != runs.Pending; { // claimed, and given back
		select {
		case <-changed:
		case <-time.After(10 * time.Millisecond):
		}
		got = must(h.queue.Get(t.Context(), r.ID))
	}
	lease.Release()
	if got := h.wait(r, runs.Success); got.Attempt != 1 {
		t.Errorf("%+v: busy attempts count", got)
	}
}

// A worker that was too slow to keep the lease of the thread does not end the run, whatever
// counts as final, but as often as it may be tried.
func TestLostLease(t *testing.T) {
	h := newHouse(t)
	var lost atomic.Int32
	h.add("g", says("a"), func(context.Context, []string) (string, error) {
		if lost.Add(-1) >= 0 {
			return "", &saver.FencedError{ThreadID: "t", Epoch: 1}
		}
		return "b", nil
	})
	w := h.worker()
	w.Final = func(error) bool { return true }
	h.start(w)
	lost.Store(2)
	if got := h.wait(h.submit(runs.Request{Input: in("x")}), runs.Success); got.Attempt != 3 {
		t.Errorf("%+v", got)
	}
	h.log("x", "a", "b")
	lost.Store(1 << 20)
	h.wait(h.submit(runs.Request{Input: in("y")}), runs.Error)
}

// TestStructInput: a struct as input writes the fields that are set, as Run of a typed graph does,
// and leaves the others as the thread has them.
func TestStructInput(t *testing.T) {
	type job struct {
		Name  string `json:"name"`
		Count int    `json:"count"`
	}
	h := newHouse(t)
	g := must(graph.For[job]().Node("count", func(_ context.Context, j *job) (graph.Update, error) {
		return graph.Write(&j.Count, j.Count+1), nil
	}).Sequence(graph.Start, "count", graph.End).Compile(graph.Options{Name: "g", Saver: h.saver}))
	h.graphs["g"] = g.Untyped()
	h.start(h.worker())
	for _, in := range []any{job{Name: "x", Count: 10}, job{Name: "y"}, &job{}} {
		h.wait(h.submit(runs.Request{Input: in}), runs.Success)
	}
	if st, err := g.State(t.Context(), pregel.Thread("t")); err != nil || st.State != (job{"y", 13}) {
		t.Errorf("%+v, %v", st.State, err)
	}
}

// TestGraphWithoutSaver: a worker refuses a graph whose runs nobody could find again.
func TestGraphWithoutSaver(t *testing.T) {
	h := newHouse(t)
	h.graphs["bare"] = must(graph.New(graph.Key("n", channel.LastValue[int]())).Node("n", func(context.Context, any) (any, error) { return nil, nil }).
		Edge(graph.Start, "n").Compile(graph.Options{Name: "bare"}))
	if err := h.worker().Run(t.Context()); !errors.Is(err, runs.ErrInvalid) || !strings.Contains(err.Error(), `"bare"`) {
		t.Errorf("%v", err)
	}
}

// A worker whose claim is void stops the graph, and reports nothing of the run.
func TestVoidClaim(t *testing.T) {
	h := newHouse(t)
	entered, why := make(chan bool, 1), make(chan error, 1)
	h.add("g", says("a"), func(ctx context.Context, _ []string) (string, error) {
		entered <- true
		<-ctx.Done()
		why <- context.Cause(ctx)
		return "", context.Cause(ctx)
	})
	q := &deaf{Queue: h.queue}
	w := h.worker()
	w.Queue = q
	stop := h.start(w)
	r := h.submit(runs.Request{Input: in("x")})
	<-entered
	q.void.Store(true)
	h.queue.Changed("") // so that it asks
	if err := <-why; !errors.Is(err, runs.ErrFenced) {
		t.Errorf("the node was ended by %v", err)
	}
	stop()
	if got := must(h.queue.Get(t.Context(), r.ID)); got.Status != runs.Running || got.Error != "" {
		t.Errorf("%+v: who lost the claim has reported", got)
	}
	h.log("x", "a")
}

// deaf is a queue whose claims are void from some time on, as far as one worker sees.
type deaf struct {
	runs.Queue
	void atomic.Bool
}

func (q *deaf) Renew(ctx context.Context, claims []runs.Claim) ([]runs.Run, error) {
	if q.void.Load() {
		return nil, nil
	}
	return q.Queue.Renew(ctx, claims)
}

// lateClaim is a queue whose claim turns out to be void when the attempt begins, because the
// worker was stopped behind Claim. It tells in which order the queue and the saver are called.
type lateClaim struct {
	runs.Queue
	began <-chan struct{} // gets a value if the graph ran before the claim was known to hold
	asked chan struct{}   // closed when the queue was asked
	once  sync.Once
	mu    sync.Mutex
	calls []string
}

func (q *lateClaim) note(call string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !slices.Contains(q.calls, call) {
		q.calls = append(q.calls, call)
	}
}

// Get waits a moment, in which a worker that does not wait for the answer begins.
func (q *lateClaim) Get(ctx context.Context, id string) (runs.Run, error) {
	q.note("Get")
	q.once.Do(func() { close(q.asked) })
	select {
	case <-q.began:
	case <-time.After(50 * time.Millisecond):
	}
	r, err := q.Queue.Get(ctx, id)
	r.Epoch++ // another worker has claimed it
	return r, err
}

// TestLateClaim: a worker that was stopped behind its claim owns the thread, learns that the claim
// is void, and has run and stored nothing. Others may have executed the run and those behind it.
func TestLateClaim(t *testing.T) {
	h := newHouse(t)
	began := make(chan struct{}, 1)
	h.add("g", func(context.Context, []string) (string, error) {
		began <- struct{}{}
		return "again", nil
	})
	q := &lateClaim{Queue: h.queue, began: began, asked: make(chan struct{})}
	w := h.worker()
	w.Queue, w.Saver = q, saver.Intercept(h.saver, func(ctx context.Context, call saver.Call, next func(context.Context) error) error {
		q.note(call.Method)
		return next(ctx)
	})
	h.start(w)
	h.submit(runs.Request{Input: in("x")})
	<-q.asked
	must(h.saver.Own(t.Context(), "t", true)).Release() // the attempt is over
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.calls) < 2 || q.calls[0] != "Own" {
		t.Errorf("calls in the order %q: the thread is owned first", q.calls)
	}
	if slices.ContainsFunc(q.calls, func(call string) bool { return strings.HasPrefix(call, "Put") }) {
		t.Errorf("calls %q: something was stored under a claim that is void", q.calls)
	}
	if _, err := h.saver.GetTuple(t.Context(), saver.Config{ThreadID: "t"}); !errors.Is(err, saver.ErrNotFound) {
		t.Errorf("the thread was written: %v", err)
	}
}

// Two workers make one run of each time of a schedule.
func TestSchedule(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.add("g", says("a"))
	s, err := h.queue.PutSchedule(t.Context(), runs.Schedule{ID: "s", Cron: "@every 1s", Spec: runs.Spec{Graph: "g", ThreadID: "t"}})
	if err != nil {
		t.Fatal(err)
	}
	s.Spec.Input = must(h.queue.Serializer().Encode(in("x")))
	if _, err := h.queue.PutSchedule(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	h.start(h.worker())
	h.start(h.worker())
	for n := 0; n < 2; time.Sleep(10 * time.Millisecond) {
		n = 0
		for r, err := range h.queue.List(t.Context(), runs.Query{Status: runs.Success}) {
			if err != nil || r.Key == "" {
				t.Fatal(r, err)
			}
			n++
		}
	}
	if err := h.queue.DeleteSchedule(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	for r := range h.queue.List(t.Context(), runs.Query{}) {
		if keys[r.Key] {
			t.Errorf("key %s twice", r.Key)
		}
		keys[r.Key] = true
	}
}

// TestNoNextRun: a worker that was told to stop ends its run and begins no other.
func TestNoNextRun(t *testing.T) {
	h := newHouse(t)
	entered, leave := make(chan bool), make(chan bool)
	h.add("g", func(context.Context, []string) (string, error) {
		entered <- true
		<-leave
		return "a", nil
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	w := h.worker()
	w.Concurrency = 1
	go func() { ended <- w.Run(ctx) }()
	r := h.submit(runs.Request{Input: in("x")})
	<-entered
	next := h.submit(runs.Request{Input: in("x"), Spec: runs.Spec{ThreadID: "other"}})
	stop()
	leave <- true
	if err := <-ended; err != nil {
		t.Error(err)
	}
	h.wait(r, runs.Success)
	if got := must(h.queue.Get(t.Context(), next.ID)); got.Status != runs.Pending || got.Epoch != 0 {
		t.Errorf("the next run is %s, claimed %d times", got.Status, got.Epoch)
	}
}

// TestScheduleOfBusyWorker: a worker that goes on with one run after the other submits those of its
// schedules all the same.
func TestScheduleOfBusyWorker(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	done := make(chan struct{})
	h.add("g", func(context.Context, []string) (string, error) {
		select {
		case <-done:
		default:
			h.submit(runs.Request{Input: in("x"), Spec: runs.Spec{ThreadID: "busy"}})
		}
		return "a", nil
	})
	over := sync.OnceFunc(func() { close(done) })
	h.add("late", func(context.Context, []string) (string, error) {
		over()
		return "b", nil
	})
	s := runs.Schedule{ID: "s", Cron: "@every 1s", Spec: runs.Spec{Graph: "late", ThreadID: "t", Priority: 1, Input: must(h.queue.Serializer().Encode(in("x")))}}
	must(h.queue.PutSchedule(t.Context(), s))
	w := h.worker()
	w.Concurrency = 1
	for range 2 { // so that one always waits
		h.submit(runs.Request{Input: in("x"), Spec: runs.Spec{ThreadID: "busy"}})
	}
	h.start(w)
	select {
	case <-done:
	case <-time.After(time.Minute): // nothing takes as long, but what never comes
		t.Error("no run of the schedule")
		over()
	}
	if err := h.queue.DeleteSchedule(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
}

// A queue whose clock is ahead calls a run due that still sleeps. It is not claimed again and again until then.
func TestSleepersOfAQueueWhoseClockIsAhead(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	ahead := func() time.Time { return time.Now().Add(time.Hour) }
	h.queue = must(runs.NewLocal(t.Context(), must(store.NewMemory(store.Options{})), runs.LocalOptions{Clock: ahead}))
	h.add("g", func(ctx context.Context, _ []string) (string, error) {
		return "woke", pregel.Sleep(ctx, 1500*time.Millisecond)
	})
	h.start(h.worker())
	r := must(h.queue.Submit(t.Context(), runs.Request{Spec: runs.Spec{ThreadID: "t", Graph: "g"}, Input: map[string]any{"log": []string{"in"}}}))
	if r = must(runs.Wait(t.Context(), h.queue, r.ID)); r.Status != runs.Success || r.Epoch > 5 {
		t.Errorf("%s after %d claims", r.Status, r.Epoch)
	}
}
