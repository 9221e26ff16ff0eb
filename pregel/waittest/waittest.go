// Package waittest has the tests of waits and signals: a saver and a store with which they pass keep what
// pregel.Sleep and pregel.Signal promise.
package waittest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
)

// Clock is a clock that stands still until it is moved.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock makes a clock that stands at some time.
func NewClock() *Clock { return &Clock{now: time.Date(2030, 1, 2, 3, 4, 5, 678901234, time.UTC)} }

// Now is the time of the clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Move moves the clock, also backwards.
func (c *Clock) Move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// fixture is one test: a saver, a clock, and what the nodes did, over all graphs that were made.
type fixture struct {
	t     *testing.T
	s     saver.Saver
	items store.Store // nil if there are no signals
	clock *Clock

	mu   sync.Mutex
	done []string
}

// Test runs the tests on savers that open returns, a fresh one for each.
func Test(t *testing.T, open func(t *testing.T) saver.Saver) {
	for name, test := range map[string]func(*fixture){
		"instant":  (*fixture).instant,
		"answer":   (*fixture).answer,
		"siblings": (*fixture).siblings,
		"input":    (*fixture).input,
		"recover":  (*fixture).recover,
		"attempts": (*fixture).attempts,
		"calls":    (*fixture).calls,
		"inside":   (*fixture).inside,
		"unstored": (*fixture).unstored,
		"failure":  (*fixture).failure,
		"fork":     (*fixture).fork,
		"copy":     (*fixture).copy,
		"exposed":  (*fixture).exposed,
		"passed":   (*fixture).passed,
	} {
		t.Run(name, func(t *testing.T) { test(&fixture{t: t, s: open(t), clock: NewClock()}) })
	}
}

// exposed: what a body exposes is seen while it waits, in every durability, the newest of a name. A body that runs
// again does not bring back older values, and nothing is left when its superstep ends.
func (f *fixture) exposed() {
	for _, d := range []pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit} {
		o := pregel.RunOptions{Durability: d, Unfinished: pregel.DiscardUnfinished}
		runs := 0
		expose := func(ctx context.Context, name string, value any) {
			if err := pregel.Expose(ctx, name, value); err != nil {
				f.t.Error(err)
			}
		}
		inner := f.graph(map[string]body{"in": func(ctx context.Context) (string, error) {
			expose(ctx, "below", runs)
			return "", pregel.Sleep(ctx, time.Hour)
		}})
		g := f.graph(map[string]body{"a": func(ctx context.Context) (string, error) {
			runs++
			for day := range 3 {
				expose(ctx, "day", day*10)
				if runs == 1 || day == 2 {
					expose(ctx, fmt.Sprint("run ", runs), map[string]any{"of": day})
				}
				if err := pregel.Sleep(ctx, 24*time.Hour); err != nil {
					return "", err
				}
			}
			_, err := inner.Invoke(ctx, pregel.Inside(), "y")
			return "done", err
		}})
		has := func(want string) {
			f.t.Helper()
			if got := fmt.Sprint(f.state(g).Exposed); got != want {
				f.t.Errorf("%s: exposed %s, want %s", d, got, want)
			}
		}
		f.run(g, "x", 0, 1, o)
		has("map[day:0 run 1:map[of:0]]")
		f.run(g, nil, 0, 1, o) // nothing is over
		for _, want := range []string{"map[day:10 run 1:map[of:0]]", "map[day:20 run 1:map[of:0] run 3:map[of:2]]"} {
			f.clock.Move(24 * time.Hour)
			f.run(g, nil, 0, 1, o)
			has(want)
		}
		f.clock.Move(24 * time.Hour)
		f.run(g, nil, 0, 1, o)
		f.clock.Move(time.Hour)
		f.run(g, nil, 0, 0, o)
		has("map[]")
	}
	if err := pregel.Expose(f.t.Context(), "n", 1); !errors.Is(err, pregel.ErrOutsideTask) {
		f.t.Error(err)
	}
}

// passed: a sleep that was over stays so, also if the clock is set back before what came behind it goes on: a
// question, another sleep, a failure. That holds in every durability, for a sleep that was over when it was first
// reached, in a call and in a graph inside.
func (f *fixture) passed() {
	errFails := errors.New("it fails")
	for _, d := range []pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit} {
		for _, where := range []string{"node", "call", "inside"} {
			for _, next := range []string{"asks", "sleeps", "fails"} {
				if err := f.s.DeleteThread(f.t.Context(), "t"); err != nil {
					f.t.Fatal(err)
				}
				half, failed := f.clock.Now().Add(30*time.Minute), false
				work := func(ctx context.Context) (string, error) {
					if err := pregel.Sleep(ctx, time.Hour); err != nil {
						return "", err
					}
					if err := pregel.SleepUntil(ctx, half); err != nil { // it is over when it is first reached
						return "", err
					}
					f.did("woke")
					switch {
					case next == "asks":
						return pregel.AskFor[string](ctx, "?")
					case next == "sleeps":
						return "yes", pregel.Sleep(ctx, time.Hour)
					case !failed:
						failed = true
						return "", errFails
					}
					return "yes", nil
				}
				g, o := f.graphAt(where, work), pregel.RunOptions{Durability: d}
				f.run(g, "x", 0, 1, o)
				f.clock.Move(time.Hour)
				input := any(nil)
				switch next {
				case "asks":
					f.run(g, nil, 1, 0, o)
					input = pregel.Command{Resume: "yes"}
				case "sleeps":
					f.run(g, nil, 0, 1, o)
				case "fails":
					if _, err := g.Invoke(f.t.Context(), pregel.Thread("t"), nil, o); !errors.Is(err, errFails) {
						f.t.Fatal(err)
					}
				}
				f.wantDone("woke")
				if next == "sleeps" {
					f.clock.Move(time.Hour) // the second is over, and then the clock is set back by less
					f.clock.Move(-time.Minute)
					f.run(g, nil, 0, 1, o)
					f.clock.Move(time.Minute)
				} else {
					f.clock.Move(-2 * time.Hour)
				}
				if res := f.run(g, input, 0, 0, o); fmt.Sprint(res.Value) != "[yes]" {
					f.t.Fatalf("%s, %s, %s: %+v", d, where, next, res)
				}
				f.wantDone("woke")
			}
		}
	}
}

func (f *fixture) did(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done = append(f.done, what)
}

// wantDone checks what was done, in any order, since the last call.
func (f *fixture) wantDone(want ...string) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	slices.Sort(f.done)
	slices.Sort(want)
	if !slices.Equal(f.done, want) {
		f.t.Fatalf("done: %v, want %v", f.done, want)
	}
	f.done = nil
}

// opts are the options of a graph.
func (f *fixture) opts() pregel.Options {
	return pregel.Options{Name: "waits", Saver: f.s, Store: f.items, Env: pregel.Environment{Now: f.clock.Now}}
}

type body = func(ctx context.Context) (string, error)

// graph has a node for each body. All run in the first superstep.
func (f *fixture) graph(bodies map[string]body) *pregel.Graph {
	f.t.Helper()
	spec := pregel.Spec{Input: pregel.One("in"), Output: pregel.One("out"),
		Channels: map[string]channel.Channel{"in": channel.LastValue[any](), "out": channel.Reduce(channel.Append[string])}}
	for _, name := range slices.Sorted(mapKeys(bodies)) {
		run := bodies[name]
		n, err := pregel.NewNode(name).Do(func(ctx context.Context, _ any) (any, error) { return run(ctx) }).SubscribeOnly("in").
			WriteFunc("out", func(v any) (any, error) { return []string{fmt.Sprint(v)}, nil }).Build()
		if err != nil {
			f.t.Fatal(err)
		}
		spec.Nodes = append(spec.Nodes, n)
	}
	g, err := pregel.New(spec, f.opts())
	if err != nil {
		f.t.Fatal(err)
	}
	return g
}

func mapKeys(m map[string]body) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// run runs a thread of g, and checks how many questions and waits it ends with.
func (f *fixture) run(g *pregel.Graph, input any, questions, waits int, opts ...pregel.RunOptions) *pregel.Result {
	f.t.Helper()
	res, err := g.Invoke(f.t.Context(), pregel.Thread("t"), input, opts...)
	if err != nil {
		f.t.Fatal(err)
	}
	f.wantWaiting(res.Interrupts, res.Waits, questions, waits)
	snap := f.state(g)
	f.wantWaiting(snap.Interrupts, snap.Waits, questions, waits)
	info, found, err := saver.ThreadOf(f.t.Context(), f.s, "t")
	want := saver.StatusWaiting
	if questions == 0 {
		want = saver.StatusSleeping
	}
	if err != nil || !found || questions+waits > 0 && (info.Status != saver.StatusWaiting || snap.Status != want) {
		f.t.Fatalf("the thread: %+v, %v; its state %q", info, err, snap.Status)
	}
	return res
}

// state is the thread's. The saver lists it with its status; to a saver, a thread that sleeps waits.
func (f *fixture) state(g *pregel.Graph) *pregel.StateSnapshot {
	f.t.Helper()
	snap, err := g.GetState(f.t.Context(), pregel.Thread("t"))
	if err != nil {
		f.t.Fatal(err)
	}
	for info, err := range f.s.Threads(f.t.Context(), saver.ThreadQuery{Prefix: "t"}) {
		is := snap.Status
		if is == saver.StatusSleeping {
			is = saver.StatusWaiting
		}
		if err != nil || info.ThreadID == "t" && info.Status != is {
			f.t.Fatalf("thread %s is listed as %s, and is %s: %v", info.ThreadID, info.Status, snap.Status, err)
		}
	}
	return snap
}

func (f *fixture) wantWaiting(asked []pregel.Interrupt, open []pregel.Wait, questions, waits int) {
	f.t.Helper()
	if len(asked) != questions || len(open) != waits {
		f.t.Fatalf("%d questions and %d waits; want %d and %d: %+v, %+v", len(asked), len(open), questions, waits, asked, open)
	}
	if !slices.IsSortedFunc(open, func(a, b pregel.Wait) int {
		if a.Until.IsZero() || b.Until.IsZero() { // those come last
			return cmp.Compare(b.Until.Unix(), a.Until.Unix())
		}
		return a.Until.Compare(b.Until)
	}) {
		f.t.Errorf("the waits are not in order: %+v", open)
	}
}

func (f *fixture) recovers(g *pregel.Graph, want pregel.Outcome) pregel.Recovery {
	f.t.Helper()
	report, err := g.Recover(f.t.Context(), pregel.RecoverOptions{})
	if err != nil || len(report.Threads) != 1 || report.Threads[0].Outcome != want {
		f.t.Fatalf("%+v, %v; want %s", report, err, want)
	}
	return report.Threads[0]
}

// sleeper sleeps once, between two effects.
func (f *fixture) sleeper(name string, d time.Duration) body {
	return func(ctx context.Context) (string, error) {
		f.did(name + " begins")
		if err := pregel.Sleep(ctx, d); err != nil {
			return "", err
		}
		f.did(name + " woke")
		return name, nil
	}
}

func (f *fixture) asker(name string) body {
	return func(ctx context.Context) (string, error) {
		f.did(name + " begins")
		v, err := pregel.AskFor[string](ctx, name)
		if err != nil {
			return "", err
		}
		f.did(name + " got " + v)
		return v, nil
	}
}

// instant: the instant of each sleep of a node is fixed when it is first reached, in every durability. A
// run that comes too early runs nothing, and says until when the thread sleeps.
func (f *fixture) instant() {
	for _, d := range []pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit} {
		if err := f.s.DeleteThread(f.t.Context(), "t"); err != nil {
			f.t.Fatal(err)
		}
		o := pregel.RunOptions{Durability: d}
		make := func() *pregel.Graph { // as after a restart
			return f.graph(map[string]body{"twice": func(ctx context.Context) (string, error) {
				f.did("begins")
				if err := pregel.Sleep(ctx, time.Hour); err != nil {
					return "", err
				}
				f.did("one")
				if err := pregel.SleepUntil(ctx, f.clock.Now().Add(-time.Minute)); err != nil {
					return "", err
				}
				if err := pregel.Sleep(ctx, time.Hour); err != nil {
					return "", err
				}
				return "two", nil
			}})
		}
		begun := f.clock.Now().UTC().Truncate(time.Microsecond)
		res := f.run(make(), "x", 0, 1, o)
		f.wantDone("begins")
		f.clock.Move(time.Hour - time.Second)
		early := f.run(make(), nil, 0, 1, o)
		f.wantDone()
		for _, r := range []*pregel.Result{res, early} {
			if w := r.Waits[0]; !w.Until.Equal(begun.Add(time.Hour)) || w.Signal != "" {
				f.t.Fatalf("%s: %+v, begun %v", d, w, begun)
			}
		}
		f.clock.Move(-3 * time.Hour) // it is set back
		f.run(make(), nil, 0, 1, o)
		f.wantDone()
		f.clock.Move(3*time.Hour + time.Second)
		second := f.clock.Now().UTC().Truncate(time.Microsecond)
		if w := f.run(make(), nil, 0, 1, o).Waits[0]; !w.Until.Equal(second.Add(time.Hour)) {
			f.t.Fatalf("%s: %+v, second sleep at %v", d, w, second)
		}
		f.wantDone("begins", "one")
		f.clock.Move(time.Hour)
		if res := f.run(make(), nil, 0, 0, o); fmt.Sprint(res.Value) != "[two]" {
			f.t.Fatalf("%s: %+v", d, res)
		}
		f.wantDone("begins", "one")
	}
}

// answer: no answer wakes a sleep, not even one that is due, and none is kept for later.
func (f *fixture) answer() {
	g := f.graph(map[string]body{"a": f.sleeper("a", time.Hour)})
	id := f.run(g, "x", 0, 1).Waits[0].ID
	for range 2 {
		for _, resume := range []any{"yes", map[string]any{id: "yes"}, map[string]any{strings.Repeat("0", 32): "yes"}} {
			_, err := g.Invoke(f.t.Context(), pregel.Thread("t"), pregel.Command{Resume: resume})
			if _, byID := resume.(map[string]any); !errors.Is(err, pregel.ErrNoInterrupt) && !(byID && errors.Is(err, pregel.ErrUnknownInterrupt)) {
				f.t.Fatalf("the answer %v: %v", resume, err)
			}
		}
		f.clock.Move(2 * time.Hour)
	}
	f.wantDone("a begins")
	f.run(g, nil, 0, 0)
	f.wantDone("a begins", "a woke")
}

// siblings: a wake runs the tasks whose wait is over, and an answer the task that asked. The others keep
// their place and are not run again.
func (f *fixture) siblings() {
	make := func() *pregel.Graph {
		return f.graph(map[string]body{"ask": f.asker("ask"), "long": f.sleeper("long", 3*time.Hour), "short": f.sleeper("short", time.Hour),
			"free": func(context.Context) (string, error) { f.did("free"); return "free", nil }})
	}
	f.run(make(), "x", 1, 2)
	f.wantDone("ask begins", "long begins", "short begins", "free")
	f.run(make(), nil, 1, 2)
	f.wantDone()
	f.clock.Move(time.Hour)
	f.run(make(), nil, 1, 1)
	f.wantDone("short begins", "short woke")
	f.run(make(), pregel.Command{Resume: "yes"}, 0, 1)
	f.wantDone("ask begins", "ask got yes")
	f.recovers(make(), pregel.Asleep)
	f.wantDone()
	f.clock.Move(2 * time.Hour)
	if res := f.run(make(), nil, 0, 0); fmt.Sprint(res.Value) != "[yes free long short]" {
		f.t.Fatalf("%+v", res)
	}
	f.wantDone("long begins", "long woke")
}

// input: new input is refused while the thread sleeps, unless it discards.
func (f *fixture) input() {
	g := f.graph(map[string]body{"a": f.sleeper("a", time.Hour)})
	until := f.run(g, "x", 0, 1).Waits[0].Until
	for _, unfinished := range []pregel.Unfinished{"", pregel.FinishFirst, pregel.RefuseUnfinished} {
		_, err := g.Invoke(f.t.Context(), pregel.Thread("t"), "y", pregel.RunOptions{Unfinished: unfinished})
		var sleeping *pregel.SleepingError
		if !errors.Is(err, pregel.ErrSleeping) || !errors.As(err, &sleeping) || !sleeping.Waits[0].Until.Equal(until) ||
			!strings.Contains(err.Error(), "2030-01-02T04:04:05.678901Z") {
			f.t.Fatalf("%q: %v", unfinished, err)
		}
	}
	f.clock.Move(time.Minute)
	res := f.run(g, "y", 0, 1, pregel.RunOptions{Unfinished: pregel.DiscardUnfinished})
	if want := until.Add(time.Minute); !res.Waits[0].Until.Equal(want) {
		f.t.Fatalf("%+v, want %v", res.Waits, want)
	}
	f.wantDone("a begins", "a begins")
}

// recover: Recover lists a thread that sleeps, without an attempt, and resumes it when that is over. It
// leaves one alone that waits for a person.
func (f *fixture) recover() {
	g := f.graph(map[string]body{"a": f.sleeper("a", time.Hour)})
	until := f.run(g, "x", 0, 1).Waits[0].Until
	for _, node := range []string{"a", "gone"} {
		if _, err := f.graph(map[string]body{node: f.asker("q")}).Invoke(f.t.Context(), pregel.Thread("person "+node), "x"); err != nil {
			f.t.Fatal(err)
		}
	}
	for range 5 {
		if r := f.recovers(g, pregel.Asleep); r.Attempt != 0 || r.ThreadID != "t" || len(r.Waits) != 1 || !r.Waits[0].Until.Equal(until) {
			f.t.Fatalf("%+v", r)
		}
	}
	f.clock.Move(time.Hour)
	if r := f.recovers(g, pregel.Recovered); r.Attempt != 1 {
		f.t.Fatalf("%+v", r)
	}
	f.wantDone("a begins", "a begins", "a woke", "q begins", "q begins")
}

// attempts: a wait that is over is progress, so that a node may sleep as often as it likes. One that never
// gets to its next wait is given up.
func (f *fixture) attempts() {
	const sleeps = 8
	g := f.graph(map[string]body{"a": func(ctx context.Context) (string, error) {
		for range sleeps {
			if err := pregel.Sleep(ctx, time.Hour); err != nil {
				return "", err
			}
		}
		return "done", nil
	}})
	f.run(g, "x", 0, 1)
	for range sleeps - 1 {
		f.clock.Move(time.Hour)
		f.killed(g, 2)
		if r := f.recovers(g, pregel.RecoveredToStop); r.Attempt != 3 || len(r.Waits) != 1 {
			f.t.Fatalf("%+v", r)
		}
	}
	f.clock.Move(time.Hour)
	f.killed(g, 3)
	f.recovers(g, pregel.GivenUp)
	f.run(g, nil, 0, 0)
}

// killed counts n recoveries whose process was killed.
func (f *fixture) killed(g *pregel.Graph, n int) {
	f.t.Helper()
	at := f.state(g).Address
	for range n {
		if _, err := f.s.CountAttempt(f.t.Context(), saver.Config{ThreadID: at.ThreadID, CheckpointID: at.CheckpointID}); err != nil {
			f.t.Fatal(err)
		}
	}
}

// calls: functions that a body calls sleep each by itself, and one that is not due is not run again.
func (f *fixture) calls() {
	make := func() *pregel.Graph {
		nap := pregel.NewTask("nap", func(ctx context.Context, hours int) (int, error) {
			f.did(fmt.Sprint("nap ", hours))
			return hours, pregel.Sleep(ctx, time.Duration(hours)*time.Hour)
		})
		ask := pregel.NewTask("ask", func(ctx context.Context, _ int) (int, error) {
			f.did("ask")
			return pregel.AskFor[int](ctx, "how many?")
		})
		o := f.opts()
		g, err := pregel.Entrypoint("waits", func(ctx context.Context, _ string) (int, error) {
			f.did("body")
			all, err := pregel.GetAll(ctx, nap.Start(ctx, 3), nap.Start(ctx, 1), ask.Start(ctx, 0), nap.Start(ctx, 2))
			if err != nil {
				return 0, err
			}
			return all[0]*1000 + all[1]*100 + all[2]*10 + all[3], nil
		}, pregel.EntrypointOptions{Options: o})
		if err != nil {
			f.t.Fatal(err)
		}
		return g
	}
	res, err := make().Invoke(f.t.Context(), pregel.Thread("t"), "x")
	if err != nil || len(res.Waits) != 3 || !res.Waits[0].Until.Equal(f.clock.Now().UTC().Truncate(time.Microsecond).Add(time.Hour)) {
		f.t.Fatalf("%+v, %v", res, err)
	}
	f.wantDone("body", "nap 3", "nap 1", "ask", "nap 2")
	f.clock.Move(time.Hour)
	if res, err = make().Invoke(f.t.Context(), pregel.Thread("t"), nil); err != nil || len(res.Waits) != 2 {
		f.t.Fatalf("%+v, %v", res, err)
	}
	f.wantDone("body", "nap 1")
	if res, err = make().Invoke(f.t.Context(), pregel.Thread("t"), pregel.Command{Resume: 4}); err != nil || len(res.Waits) != 2 {
		f.t.Fatalf("%+v, %v", res, err)
	}
	f.wantDone("body", "ask")
	f.clock.Move(time.Hour)
	if res, err = make().Invoke(f.t.Context(), pregel.Thread("t"), nil); err != nil || len(res.Waits) != 1 {
		f.t.Fatalf("%+v, %v", res, err)
	}
	f.wantDone("body", "nap 2")
	f.clock.Move(time.Hour)
	if res, err = make().Invoke(f.t.Context(), pregel.Thread("t"), nil); err != nil || fmt.Sprint(res.Value) != "3142" {
		f.t.Fatalf("%+v, %v", res, err)
	}
	f.wantDone("body", "nap 3")
}

// inside: a graph inside sleeps by its own records, and the thread knows of it.
func (f *fixture) inside() {
	make := func() *pregel.Graph {
		inner := f.graph(map[string]body{"nap": f.sleeper("nap", time.Hour), "ask": f.asker("ask"), "late": f.sleeper("late", 2*time.Hour)})
		return f.graph(map[string]body{"outer": func(ctx context.Context) (string, error) {
			f.did("outer")
			res, err := inner.Invoke(ctx, pregel.Inside(), "y")
			if err != nil {
				return "", err
			}
			return fmt.Sprint(res.Value), nil
		}, "other": f.sleeper("other", 4*time.Hour)})
	}
	f.run(make(), "x", 1, 3)
	f.wantDone("outer", "nap begins", "ask begins", "late begins", "other begins")
	f.clock.Move(time.Hour)
	f.run(make(), nil, 1, 2)
	f.wantDone("outer", "nap begins", "nap woke")
	f.run(make(), pregel.Command{Resume: "yes"}, 0, 2)
	f.wantDone("outer", "ask begins", "ask got yes")
	f.clock.Move(time.Hour)
	f.run(make(), nil, 0, 1)
	f.wantDone("outer", "late begins", "late woke")
	f.clock.Move(2 * time.Hour)
	f.run(make(), nil, 0, 0)
	f.wantDone("other begins", "other woke")
}

// unstored: a graph inside that stores nothing begins anew, and finds its instants all the same.
func (f *fixture) unstored() {
	make := func() *pregel.Graph {
		o := f.opts()
		o.Checkpointing, o.Saver = pregel.Off, nil
		nap, err := pregel.Entrypoint("inner", func(ctx context.Context, _ any) (string, error) {
			f.did("inner")
			return "slept", pregel.Sleep(ctx, time.Hour)
		}, pregel.EntrypointOptions{Options: o})
		if err != nil {
			f.t.Fatal(err)
		}
		return f.graph(map[string]body{"outer": func(ctx context.Context) (string, error) {
			res, err := nap.Invoke(ctx, pregel.Inside(), "y")
			if err != nil {
				return "", err
			}
			return fmt.Sprint(res.Value), nil
		}})
	}
	until := f.run(make(), "x", 0, 1).Waits[0].Until
	f.clock.Move(time.Hour - time.Second)
	if got := f.run(make(), nil, 0, 1).Waits[0].Until; !got.Equal(until) {
		f.t.Fatalf("%v, before %v", got, until)
	}
	f.wantDone("inner")
	f.clock.Move(time.Second)
	f.run(make(), nil, 0, 0)
	f.wantDone("inner")
}

// failure: a node that fails when it woke leaves a thread that failed. When it then sleeps again, the thread
// sleeps.
func (f *fixture) failure() {
	broken := errors.New("broken")
	fails := true
	make := func() *pregel.Graph {
		return f.graph(map[string]body{"a": func(ctx context.Context) (string, error) {
			if err := pregel.Sleep(ctx, time.Hour); err != nil {
				return "", err
			}
			if fails {
				return "", broken
			}
			return "woke", pregel.Sleep(ctx, time.Hour)
		}})
	}
	f.run(make(), "x", 0, 1)
	f.clock.Move(time.Hour)
	if r := f.recovers(make(), pregel.RecoveryFailed); !errors.Is(r.Err, broken) {
		f.t.Fatalf("%+v", r)
	}
	if snap := f.state(make()); snap.Status != saver.StatusFailed || len(snap.Waits) > 0 {
		f.t.Fatalf("%+v", snap)
	}
	fails = false
	f.run(make(), nil, 0, 1)
	f.clock.Move(time.Hour)
	f.recovers(make(), pregel.Recovered)
}

// fork: a fork sleeps anew, and the sleep of the branch that it left wakes nobody.
func (f *fixture) fork() {
	g := f.graph(map[string]body{"a": f.sleeper("a", time.Hour)})
	f.run(g, "x", 0, 1)
	at := f.state(g).Address
	f.clock.Move(time.Minute)
	res, err := g.Invoke(f.t.Context(), at, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	if want := f.clock.Now().UTC().Truncate(time.Microsecond).Add(time.Hour); len(res.Waits) != 1 || !res.Waits[0].Until.Equal(want) {
		f.t.Fatalf("%+v, want %v", res.Waits, want)
	}
	f.clock.Move(time.Hour - time.Second)
	f.recovers(g, pregel.Asleep)
	f.clock.Move(time.Second)
	f.recovers(g, pregel.Recovered)
	f.wantDone("a begins", "a begins", "a begins", "a woke")
}
