package runstest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/pregel/waittest"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
)

// Home is where the runs of a test are: a saver, a queue that goes by the clock, and a store.
type Home struct {
	Saver saver.Saver
	Queue runs.Queue
	Items store.Store
}

// Sleepers tests workers with runs that sleep, on a queue and a saver that open makes, fresh ones for each test.
func Sleepers(t *testing.T, open func(t *testing.T, clock func() time.Time) Home) {
	for name, test := range map[string]func(*dormitory){
		"sleep":    (*dormitory).runSleeps,
		"answer":   (*dormitory).answerPasses,
		"question": (*dormitory).sleepEndsBesideQuestion,
		"cancel":   (*dormitory).interruptCancels,
		"rollback": (*dormitory).rollbackCancels,
		"input":    (*dormitory).inputWaits,
		"signal":   (*dormitory).signalWakes,
		"back":     (*dormitory).rollbackPutsSignalsBack,
		"gone":     (*dormitory).threadIsGone,
		"anew":     (*dormitory).threadIsMadeAnew,
		"cut":      (*dormitory).threadIsCut,
	} {
		t.Run(name, func(t *testing.T) {
			clock := waittest.NewClock()
			test(newDormitory(t, clock, open(t, clock.Now)))
		})
	}
}

// dormitory has a queue, a graph that sleeps beside a question, and a clock for both.
type dormitory struct {
	*testing.T
	clock *waittest.Clock
	saver saver.Saver
	queue runs.Queue
	graph *pregel.Graph

	mu   sync.Mutex
	done []string
}

func (d *dormitory) did(what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.done = append(d.done, what)
}

func (d *dormitory) wantDone(want ...string) {
	d.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	slices.Sort(d.done)
	slices.Sort(want)
	if !slices.Equal(d.done, want) {
		d.Fatalf("done: %v, want %v", d.done, want)
	}
	d.done = nil
}

// newDormitory starts two workers. If the input asks, another node asks a question.
func newDormitory(t *testing.T, clock *waittest.Clock, h Home) *dormitory {
	t.Helper()
	d := &dormitory{T: t, clock: clock, saver: h.Saver, queue: h.Queue}
	b := graph.New(graph.Key("in", channel.LastValue[string]()), graph.Key("out", channel.Reduce(channel.Append[string])))
	b.Node("nap", func(ctx context.Context, s any) (any, error) {
		in := s.(map[string]any)["in"].(string)
		if in == "get" || in == "keep" {
			return nil, nil
		}
		d.did(in + " naps")
		if err := pregel.Sleep(ctx, time.Hour); err != nil {
			return nil, err
		}
		d.did(in + " woke")
		return map[string]any{"out": []string{in}}, nil
	})
	b.Node("ask", func(ctx context.Context, s any) (any, error) {
		in := s.(map[string]any)["in"].(string)
		if in != "ask" {
			return nil, nil
		}
		d.did("asks")
		v, err := pregel.AskFor[string](ctx, "?")
		if err != nil {
			return nil, err
		}
		d.did("got " + v)
		return map[string]any{"out": []string{v}}, nil
	})
	b.Node("get", func(ctx context.Context, s any) (any, error) {
		in := s.(map[string]any)["in"].(string)
		if in != "get" && in != "keep" {
			return nil, nil
		}
		d.did("waits")
		v, ok, err := letters.ReceiveFor(ctx, time.Hour)
		if err != nil {
			return nil, err
		}
		d.did(fmt.Sprint("letter ", v, " ", ok))
		if in == "keep" {
			if err := pregel.Sleep(ctx, time.Hour); err != nil {
				return nil, err
			}
		}
		return map[string]any{"out": []string{v}}, nil
	})
	b.Edge(graph.Start, "get").Edge(graph.Start, "nap").Edge(graph.Start, "ask")
	var err error
	if d.graph, err = b.Compile(graph.Options{Name: "g", Saver: d.saver, Store: h.Items, Env: pregel.Environment{Now: d.clock.Now}}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		d.work()
	}
	return d
}

// work starts a worker, until the test ends.
func (d *dormitory) work() {
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	w := &runs.Worker{Queue: d.queue, Saver: d.saver, Graphs: map[string]*pregel.Graph{"g": d.graph}}
	ended.Go(func() {
		if err := w.Run(ctx); err != nil {
			d.Error(err)
		}
	})
	d.Cleanup(func() {
		cancel()
		ended.Wait()
	})
}

func (d *dormitory) submit(input any, how runs.Strategy) runs.Run {
	d.Helper()
	r, err := d.queue.Submit(d.Context(), runs.Request{Spec: runs.Spec{ThreadID: "t", Graph: "g", Multitask: how}, Input: input})
	if err != nil {
		d.Fatal(err)
	}
	return r
}

// until waits until a run is as asked.
func (d *dormitory) until(r runs.Run, is func(runs.Run) bool) runs.Run {
	d.Helper()
	changed, stop := d.queue.Watch(r.ID)
	defer stop()
	for {
		got, err := d.queue.Get(d.Context(), r.ID)
		if err != nil {
			d.Fatal(err)
		}
		if is(got) {
			return got
		}
		if got.Status.Ended() {
			d.Fatalf("it ended: %+v", got)
		}
		<-changed
	}
}

// asleep waits until a run sleeps until an hour from since.
func (d *dormitory) asleep(r runs.Run, since time.Time) {
	d.Helper()
	want := since.UTC().Truncate(time.Microsecond).Add(time.Hour)
	if got := d.until(r, func(r runs.Run) bool { return r.Asleep() && r.After.Equal(want) }); got.Attempt != 0 {
		d.Fatalf("%+v, want it until %v", got, want)
	}
}

func (d *dormitory) ended(r runs.Run, want runs.Status) {
	d.Helper()
	if r, err := runs.Wait(d.Context(), d.queue, r.ID); err != nil || r.Status != want || r.Waiting {
		d.Fatalf("%+v, %v; want %s", r, err, want)
	}
}

func (d *dormitory) out(want ...string) {
	d.Helper()
	st, err := d.graph.GetState(d.Context(), pregel.Thread("t"))
	if err != nil || st.Status != saver.StatusDone || fmt.Sprint(st.Map()["out"]) != fmt.Sprint(want) {
		d.Fatalf("%+v, %v; want %v", st, err, want)
	}
}

func word(s string) map[string]any { return map[string]any{"in": s} }

// runSleeps: a run that sleeps keeps its thread, and is claimed when it is due. What was enqueued follows.
func (d *dormitory) runSleeps() {
	first := d.submit(word("a"), runs.Enqueue)
	d.asleep(first, d.clock.Now())
	second := d.submit(word("b"), runs.Enqueue)
	if _, err := d.queue.Submit(d.Context(), runs.Request{Spec: runs.Spec{ThreadID: "t", Graph: "g", Multitask: runs.Reject}}); err == nil {
		d.Error("the thread is not busy")
	}
	d.wantDone("a naps")
	d.clock.Move(time.Hour)
	d.ended(first, runs.Success)
	d.asleep(second, d.clock.Now())
	d.wantDone("a naps", "a woke", "b naps")
	d.clock.Move(time.Hour)
	d.ended(second, runs.Success)
	d.wantDone("b naps", "b woke")
	d.out("a", "b")
}

// answerPasses: where somebody is asked as well, the run that brings the answer goes first, and sleeps in its turn. Nothing
// is done twice.
func (d *dormitory) answerPasses() {
	asks := d.submit(word("ask"), runs.Enqueue)
	begun := d.clock.Now()
	d.asleep(asks, begun)
	d.clock.Move(time.Minute)
	answers := d.submit(pregel.Command{Resume: "yes"}, runs.Enqueue)
	d.asleep(answers, begun)
	d.wantDone("ask naps", "asks", "asks", "got yes")
	d.clock.Move(time.Hour)
	d.ended(answers, runs.Success)
	d.ended(asks, runs.Success)
	d.wantDone("ask naps", "ask woke")
	d.out("yes", "ask")
}

// sleepEndsBesideQuestion: the sleep of a run is over while nobody has answered: the run ends with the question, and the answer
// goes on.
func (d *dormitory) sleepEndsBesideQuestion() {
	asks := d.submit(word("ask"), runs.Enqueue)
	d.asleep(asks, d.clock.Now())
	d.clock.Move(time.Hour)
	if r, err := runs.Wait(d.Context(), d.queue, asks.ID); err != nil || r.Status != runs.Success || !r.Waiting {
		d.Fatalf("%+v, %v", r, err)
	}
	d.wantDone("ask naps", "asks", "ask naps", "ask woke")
	d.ended(d.submit(pregel.Command{Resume: "yes"}, runs.Enqueue), runs.Success)
	d.wantDone("asks", "got yes")
	d.out("yes", "ask")
}

// cancels: interrupt and rollback cancel what a run waits for.
func (d *dormitory) cancels(how runs.Strategy) {
	first := d.submit(word("a"), runs.Enqueue)
	d.asleep(first, d.clock.Now())
	second := d.submit(word("b"), how)
	d.ended(first, runs.Interrupted)
	d.asleep(second, d.clock.Now())
	d.clock.Move(time.Hour)
	d.ended(second, runs.Success)
	d.wantDone("a naps", "b naps", "b naps", "b woke")
	d.out("b")
}

func (d *dormitory) interruptCancels() { d.cancels(runs.Interrupt) }

func (d *dormitory) rollbackCancels() { d.cancels(runs.Rollback) }

// inputWaits: input for a thread that sleeps without the queue waits for that. It finishes it, as what a crash left.
func (d *dormitory) inputWaits() {
	if res, err := d.graph.Invoke(d.Context(), pregel.Thread("t"), word("a")); err != nil || len(res.Waits) != 1 {
		d.Fatalf("%+v, %v", res, err)
	}
	until := d.clock.Now().UTC().Truncate(time.Microsecond).Add(time.Hour)
	r := d.submit(word("b"), runs.Enqueue)
	d.until(r, func(r runs.Run) bool {
		return r.Status == runs.Pending && r.After.Equal(until) && r.Attempt == 0 && !r.Asleep()
	})
	d.clock.Move(time.Hour)
	d.asleep(r, d.clock.Now())
	d.clock.Move(time.Hour)
	d.ended(r, runs.Success)
	d.out("a", "b")
}

var letters = pregel.NewSignal[string]("letter")

func (d *dormitory) send(text string) {
	d.Helper()
	if err := letters.Send(d.Context(), d.graph, "t", text, pregel.SignalOptions{Queue: d.queue, Key: text}); err != nil {
		d.Fatal(err)
	}
}

// signalWakes: a signal makes a run due that waits for it. One that waits in vain is due at its time-out.
func (d *dormitory) signalWakes() {
	begun := d.clock.Now()
	first := d.submit(word("get"), runs.Enqueue)
	d.asleep(first, begun)
	d.send("a")
	d.send("a")
	d.ended(first, runs.Success)
	d.wantDone("waits", "waits", "letter a true")
	second := d.submit(word("get"), runs.Enqueue)
	d.asleep(second, begun)
	d.clock.Move(time.Hour)
	d.ended(second, runs.Success)
	d.wantDone("waits", "waits", "letter  false")
	d.out("a", "")
}

// rollbackPutsSignalsBack: what a run has taken is there again when it is rolled back.
func (d *dormitory) rollbackPutsSignalsBack() {
	first := d.submit(word("keep"), runs.Enqueue)
	d.asleep(first, d.clock.Now())
	d.clock.Move(time.Minute)
	d.send("a")
	d.asleep(first, d.clock.Now()) // it sleeps, with the letter
	second := d.submit(word("get"), runs.Rollback)
	d.ended(first, runs.Interrupted)
	d.ended(second, runs.Success)
	d.wantDone("waits", "waits", "letter a true", "waits", "letter a true")
	d.out("a")
}

// gone deletes the thread of a run that sleeps, calls between, and wakes the run. It returns the run when it has ended, or sleeps again.
func (d *dormitory) gone(r runs.Run, between func()) runs.Run {
	d.Helper()
	d.asleep(r, d.clock.Now())
	if err := d.saver.DeleteThread(d.Context(), "t"); err != nil {
		d.Fatal(err)
	}
	between()
	slept, err := d.queue.Get(d.Context(), r.ID)
	if err != nil {
		d.Fatal(err)
	}
	d.mu.Lock()
	d.done = nil
	d.mu.Unlock()
	d.clock.Move(time.Hour)
	return d.until(r, func(r runs.Run) bool { return r.Status.Ended() || r.Epoch > slept.Epoch && r.Asleep() })
}

// threadIsGone: a run whose thread is gone when it wakes ends with an error at once. It does not begin again.
func (d *dormitory) threadIsGone() {
	for _, in := range []string{"a", "ask"} { // the second gave its thread up
		r := d.gone(d.submit(word(in), runs.Enqueue), func() {})
		if r.Status != runs.Error || !strings.Contains(r.Error, saver.ErrThreadDeleted.Error()) || r.Attempt != 1 {
			d.Fatalf("%+v", r)
		}
		d.wantDone()
	}
}

// threadIsMadeAnew: nor does a run go on with another thread that has the id since: it is a stranger's.
func (d *dormitory) threadIsMadeAnew() {
	for _, in := range []string{"a", "ask"} {
		r := d.gone(d.submit(word(in), runs.Enqueue), func() {
			if _, err := d.graph.Invoke(d.Context(), pregel.Thread("t"), word("get"), pregel.RunOptions{RunID: "another"}); err != nil {
				d.Fatal(err)
			}
		})
		if r.Status != runs.Error || !strings.Contains(r.Error, saver.ErrThreadDeleted.Error()) || r.Attempt != 1 {
			d.Fatalf("%+v", r)
		}
		d.wantDone()
		if err := d.saver.DeleteThread(d.Context(), "t"); err != nil {
			d.Fatal(err)
		}
	}
}

// threadIsCut: a run goes on with its thread though what was before the newest checkpoint, where it fell asleep too, was removed.
func (d *dormitory) threadIsCut() {
	r := d.submit(word("a"), runs.Enqueue)
	d.asleep(r, d.clock.Now())
	if _, err := d.graph.UpdateState(d.Context(), pregel.Thread("t"), pregel.StateUpdate{AsNode: pregel.Copy}); err != nil { // it sleeps anew
		d.Fatal(err)
	}
	if _, err := d.saver.Prune(d.Context(), []string{"t"}, saver.KeepLatest); err != nil {
		d.Fatal(err)
	}
	d.clock.Move(time.Hour)
	d.asleep(r, d.clock.Now())
	d.clock.Move(time.Hour)
	d.ended(r, runs.Success)
}
