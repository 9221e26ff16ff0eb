package pregel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/store"
)

// made is one call in the body of a workflow: of the function name, with n. A function called "loose"
// ignores its input, "outer" calls another one, "graph" runs a graph inside, and "asks" asks. Those called
// "plain" take no idempotency key.
type made struct {
	name string
	n    int
	// with the one before it: both run at a time.
	with bool
}

// stop is how a run of a workflow ends behind its calls, and whether the change is made by then.
type stop struct {
	name string
	do   func(f *flow, ctx context.Context) error
	cut  bool // the caller goes away: the thread is unfinished
}

// flow is a workflow that is changed while its thread waits.
type flow struct {
	w      *world
	calls  []made
	stop   stop
	fails  bool // the stop has not been passed yet
	cancel context.CancelFunc
	inner  *pregel.Graph
}

// note notes an effect without an idempotency key, by its task.
func (w *world) note(ctx context.Context, what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if info, _ := pregel.Task(ctx); w.keys[what] == nil {
		w.keys[what] = map[string]bool{info.TaskID: true}
	} else {
		w.keys[what][info.TaskID] = true
	}
}

func (f *flow) task(name string) *pregel.TaskFunc[int, int] {
	return pregel.NewTask(name, func(ctx context.Context, n int) (int, error) {
		what := fmt.Sprint(name, n)
		switch name {
		case "loose":
			what = name
		case "outer":
			if _, err := f.task("plain").Call(ctx, n); err != nil {
				return 0, err
			}
			_, err := pregel.Ask(ctx, "go on in outer?")
			return n, err
		case "asks":
			_, err := pregel.Ask(ctx, "go on beside?")
			return n, err
		case "plain":
			f.w.note(ctx, what)
			return n, nil
		case "graph":
			_, err := f.inner.Invoke(ctx, pregel.Inside(), map[string]any{"steps": []string{}})
			return n, err
		}
		return n, f.w.do(ctx, what, "")
	}, pregel.TaskOptions{IgnoreInput: name == "loose"})
}

func (f *flow) body(ctx context.Context, _ int) (int, error) {
	var futures []pregel.Future[int]
	for i, c := range f.calls {
		futures = append(futures, f.task(c.name).Start(ctx, c.n))
		if i+1 < len(f.calls) && f.calls[i+1].with {
			continue
		}
		if _, err := pregel.GetAll(ctx, futures...); err != nil {
			return 0, err
		}
		futures = nil
	}
	return len(f.calls), f.stop.do(f, ctx)
}

func (f *flow) graph(t *testing.T, o pregel.Options) *pregel.Graph {
	t.Helper()
	var err error
	f.inner, err = graph.New(steps()).Node("first", func(ctx context.Context, _ any) (any, error) { f.w.note(ctx, "first"); return nil, nil }).
		Node("second", func(ctx context.Context, _ any) (any, error) {
			_, err := pregel.Ask(ctx, "go on inside?")
			return nil, err
		}).
		Sequence(graph.Start, "first", "second").Compile(graph.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := pregel.Entrypoint("flow", f.body, pregel.EntrypointOptions{Options: o})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// run runs the workflow; input nil goes on with the thread, with an answer if one is waited for.
func (f *flow) run(t *testing.T, g *pregel.Graph, input any, d pregel.Durability) (*pregel.Result, error) {
	t.Helper()
	at := pregel.Thread("t")
	if input == nil {
		state, err := g.GetState(ctx, at)
		if err != nil {
			t.Fatal(err)
		}
		if len(state.Interrupts) > 0 {
			input = pregel.Command{Resume: "yes"}
		}
	}
	c, cancel := context.WithCancel(ctx)
	defer cancel()
	f.cancel = cancel
	return g.Invoke(c, at, input, pregel.RunOptions{Durability: d})
}

var passes = stop{name: "passes", do: func(*flow, context.Context) error { return nil }}

// stops are the ways in which a run may end before the workflow is changed.
var stops = []stop{
	{name: "asks", do: func(_ *flow, ctx context.Context) error { _, err := pregel.Ask(ctx, "go on?"); return err }},
	{name: "a call asks", do: func(_ *flow, ctx context.Context) error {
		_, err := pregel.NewTask("approve", func(ctx context.Context, _ int) (any, error) { return pregel.Ask(ctx, "go on?") }).Call(ctx, 0)
		return err
	}},
	{name: "fails", do: func(f *flow, _ context.Context) error { return f.once() }},
	{name: "a call fails", do: func(f *flow, ctx context.Context) error {
		_, err := pregel.NewTask("weak", func(context.Context, int) (int, error) { return 0, f.once() }).Call(ctx, 0)
		return err
	}},
	{name: "crash", cut: true, do: func(f *flow, _ context.Context) error { return f.crash() }},
	{name: "crash in a call", cut: true, do: func(f *flow, ctx context.Context) error {
		_, err := pregel.NewTask("heavy", func(context.Context, int) (int, error) { return 0, f.crash() }).Call(ctx, 0)
		return err
	}},
}

// once fails the first time.
func (f *flow) once() error {
	if f.fails {
		f.fails = false
		return errDead
	}
	return nil
}

func (f *flow) crash() error {
	if f.fails {
		f.cancel()
	}
	return f.once()
}

// kept makes a saver of each kind.
var kept = map[string]func(t *testing.T) saver.Saver{
	"memory": func(*testing.T) saver.Saver { return memory.New(memory.Options{}) },
	"disk": func(t *testing.T) saver.Saver {
		t.Helper()
		d, err := disk.Open("store", disk.Options{ManualWork: true, Simulation: disk.Simulation{FS: vfs.NewMem(vfs.MemOptions{}), Inline: true}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		return d
	},
}

// A workflow that was changed while its thread waited, failed or died goes on if it makes the calls that
// ended before, and is refused otherwise before it calls anything else. No effect is had twice.
func TestChangedWorkflow(t *testing.T) {
	base := []made{{"pay", 1, false}, {"pay", 2, false}, {"loose", 3, false}, {"mail", 4, false}, {"mail", 5, true}}
	tax := made{"tax", 9, false}
	mismatch := func(position int, call, before string) *pregel.CallMismatchError {
		return &pregel.CallMismatchError{Node: "flow", Position: position, Call: call, Before: before}
	}
	for _, c := range []struct {
		name  string
		calls []made
		want  *pregel.CallMismatchError // nil: it goes on
	}{
		{"the same", base, nil},
		{"insert before", append([]made{tax}, base...), mismatch(1, "tax", "pay")},
		{"insert between", append([]made{base[0], tax}, base[1:]...), mismatch(2, "tax", "pay")},
		{"insert among parallel ones", append([]made{base[0], base[1], base[2], base[3], {"tax", 9, true}}, base[4]), mismatch(5, "tax", "mail")},
		{"insert after", append(append([]made{}, base...), tax), nil},
		{"insert into the loop", append([]made{{"pay", 0, false}}, base...), mismatch(1, "pay", "pay")},
		{"remove the first", base[1:], mismatch(1, "pay", "pay")},
		{"remove one between", append([]made{base[0], base[1]}, base[3:]...), mismatch(3, "mail", "loose")},
		{"remove the last", base[:4], mismatch(5, "", "mail")},
		{"remove all", nil, mismatch(5, "", "mail")},
		{"reorder", []made{base[0], base[1], base[3], base[4], base[2]}, mismatch(3, "mail", "loose")},
		{"reorder the loop", []made{base[1], base[0], base[2], base[3], base[4]}, mismatch(1, "pay", "pay")},
		{"other input", []made{base[0], {"pay", 7, false}, base[2], base[3], base[4]}, mismatch(2, "pay", "pay")},
		{"other input that is ignored", []made{base[0], base[1], {"loose", 7, false}, base[3], base[4]}, nil},
		{"rename", []made{base[0], base[1], {"free", 3, false}, base[3], base[4]}, mismatch(3, "free", "loose")},
	} {
		for _, stop := range stops {
			for _, d := range allDurabilities {
				for kind, open := range kept {
					t.Run(fmt.Sprint(c.name, "/", stop.name, "/", d, "/", kind), func(t *testing.T) {
						s := open(t)
						f := &flow{w: newWorld(), calls: base, stop: stop, fails: true}
						o := pregel.Options{Name: "flow", Saver: s}
						if res, err := f.run(t, f.graph(t, o), 1, d); err == nil && len(res.Interrupts) == 0 {
							t.Fatal("it did not stop")
						}
						changed := &flow{w: f.w, calls: c.calls, stop: stop}
						if c.want != nil && c.want.Call == "" {
							changed.stop = passes // else it may call something where a call is missing
						}
						_, err := changed.run(t, changed.graph(t, o), nil, d)
						if c.want == nil {
							if err != nil {
								t.Fatal(err)
							}
							f.w.check(t, len(c.calls))
							return
						}
						var got *pregel.CallMismatchError
						if !errors.As(err, &got) || *got != *c.want || !errors.Is(err, pregel.ErrCallMismatch) {
							t.Fatalf("got %v, want %v", err, c.want)
						}
						f.w.check(t, len(base))
						f.fails = false
						if res, err := f.run(t, f.graph(t, o), nil, d); err != nil || len(res.Interrupts) > 0 || fmt.Sprint(res.Value) != "5" {
							t.Fatalf("the former workflow: %+v, %v", res, err)
						}
						f.w.check(t, len(base))
					})
				}
			}
		}
	}
}

// New input drops the work that was left, and its calls with it: the body makes the calls that it likes, and is
// not compared with those of the former input.
func TestNewInputDropsTheCalls(t *testing.T) {
	base := []made{{"pay", 1, false}, {"plain", 2, false}, {"mail", 4, false}}
	for name, calls := range map[string][]made{
		"the same":       base,
		"other inputs":   {{"pay", 7, false}, {"pay", 8, false}},
		"another call":   {{"tax", 9, false}},
		"no call at all": nil,
	} {
		for _, stop := range stops {
			for _, d := range allDurabilities {
				for kind, open := range kept {
					t.Run(fmt.Sprint(name, "/", stop.name, "/", d, "/", kind), func(t *testing.T) {
						f := &flow{w: newWorld(), calls: base, stop: stop, fails: true}
						o := pregel.Options{Name: "flow", Saver: open(t)}
						if res, err := f.run(t, f.graph(t, o), 1, d); err == nil && len(res.Interrupts) == 0 {
							t.Fatal("it did not stop")
						}
						f.calls, f.stop = calls, passes
						again := pregel.RunOptions{Durability: d, Unfinished: pregel.DiscardUnfinished}
						res, err := f.graph(t, o).Invoke(ctx, pregel.Thread("t"), 2, again)
						if err != nil || fmt.Sprint(res.Value) != fmt.Sprint(len(f.calls)) {
							t.Fatal(res, err)
						}
					})
				}
			}
		}
	}
}

// Where what ended, or has a key, lies inside or behind a call that has not ended, nothing is put before
// that call.
func TestChangedWorkflowAroundACall(t *testing.T) {
	heavy := stop{do: func(f *flow, ctx context.Context) error {
		_, err := pregel.NewTask("heavy", func(ctx context.Context, _ int) (int, error) {
			return 0, errors.Join(f.w.do(ctx, "heavy", ""), f.crash())
		}).Call(ctx, 0)
		return err
	}}
	for _, c := range []struct {
		name  string
		calls []made
		stop  stop
		at    int // where another call is put
	}{
		{"a call inside ended", []made{{"outer", 1, false}}, passes, 0},
		{"a graph inside has a checkpoint", []made{{"graph", 1, false}}, passes, 0},
		{"it has a key", []made{{"pay", 1, false}}, heavy, 1},
		{"one beside it ended", []made{{"asks", 1, false}, {"plain", 2, true}}, passes, 0},
	} {
		for _, d := range allDurabilities {
			for kind, open := range kept {
				t.Run(fmt.Sprint(c.name, "/", d, "/", kind), func(t *testing.T) {
					f := &flow{w: newWorld(), calls: c.calls, stop: c.stop, fails: true}
					o := pregel.Options{Name: "flow", Saver: open(t)}
					_, _ = f.run(t, f.graph(t, o), 1, d)
					n := len(f.w.keys)
					changed := &flow{w: f.w, calls: slices.Insert(slices.Clone(c.calls), c.at, made{"tax", 9, false}), stop: c.stop}
					_, err := changed.run(t, changed.graph(t, o), nil, d)
					var e *pregel.CallMismatchError
					if !errors.As(err, &e) || e.Position != c.at+1 || e.Call != "tax" {
						t.Fatal(err)
					}
					f.w.check(t, n)
					f.fails = false
					if res, err := f.run(t, f.graph(t, o), nil, d); err != nil || len(res.Interrupts) > 0 {
						t.Fatalf("the former workflow: %+v, %v", res, err)
					}
					f.w.check(t, n)
				})
			}
		}
	}
}

// Wherever the process died, a changed workflow has no effect twice: it has it with the same key, or is
// refused.
func TestChangedWorkflowAfterEveryDeath(t *testing.T) {
	base := []made{{"pay", 1, false}, {"pay", 2, false}, {"mail", 4, false}, {"mail", 5, true}, {"mail", 6, true}}
	refused := 0
	for name, calls := range map[string][]made{
		"the same":       base,
		"insert before":  append([]made{{"tax", 9, false}}, base...),
		"insert between": append([]made{base[0], {"tax", 9, false}}, base[1:]...),
		"insert inside":  append([]made{base[0], base[1], base[2], {"tax", 9, true}}, base[3:]...),
		"remove":         base[1:],
		"reorder":        {base[1], base[0], base[3], base[2], base[4]},
	} {
		for _, d := range allDurabilities {
			run := func(death int) int {
				m := &mortal{Saver: memory.New(memory.Options{}), left: death, stored: map[string]bool{}}
				f := &flow{w: newWorld(), calls: base, stop: passes}
				o := pregel.Options{Name: "flow", Saver: m}
				_, _ = f.run(t, f.graph(t, o), 1, d) // it dies, or ends
				if death < 0 {
					return m.saves
				}
				m.left = -1
				f.calls = calls
				_, err := f.run(t, f.graph(t, o), nil, d)
				if errors.Is(err, pregel.ErrEmptyInput) {
					return 0
				}
				if errors.Is(err, pregel.ErrCallMismatch) {
					refused++
				} else if err != nil {
					t.Fatal(err)
				}
				if name == "the same" && err != nil {
					t.Errorf("%s, death at save %d: %v", d, death, err)
				}
				for what, keys := range f.w.keys {
					if len(keys) > 1 {
						t.Errorf("%s, %s, death at save %d: %s has %d keys", name, d, death, what, len(keys))
					}
				}
				return 0
			}
			for death := range run(-1) {
				run(death)
			}
		}
	}
	if refused < 40 {
		t.Errorf("%d were refused: the test tests too little", refused)
	}
}

// A body that handles the mismatch, or that a parallel node is beside, ends all the same, and nothing is
// stored of it.
func TestChangedWorkflowThatHandlesIt(t *testing.T) {
	s := memory.New(memory.Options{})
	f := &flow{w: newWorld(), calls: []made{{"pay", 1, false}}, stop: stops[0]}
	o := pregel.Options{Name: "flow", Saver: s}
	if _, err := f.run(t, f.graph(t, o), 1, pregel.Sync); err != nil {
		t.Fatal(err)
	}
	g, err := pregel.Entrypoint("flow", func(ctx context.Context, _ int) (int, error) {
		for range 3 {
			_, _ = f.task("tax").Call(ctx, 1)
		}
		return 0, nil
	}, pregel.EntrypointOptions{Options: o, Retry: []pregel.RetryPolicy{{MaxAttempts: 3, RetryOn: func(error) bool { return true }}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Invoke(ctx, pregel.Thread("t"), nil); !errors.Is(err, pregel.ErrCallMismatch) {
		t.Fatal(err)
	}
	f.w.check(t, 1)
	state, err := f.graph(t, o).GetState(ctx, pregel.Thread("t"))
	if err != nil || state.Status != saver.StatusWaiting || len(state.Interrupts) != 1 {
		t.Fatalf("%+v, %v", state, err)
	}
}

// A call that failed runs again, and if it succeeds then the body may take another way.
func TestOtherWayBehindAFailure(t *testing.T) {
	for _, d := range allDurabilities {
		s := memory.New(memory.Options{})
		w, fails := newWorld(), true
		effect := func(name string) *pregel.TaskFunc[int, int] {
			return pregel.NewTask(name, func(ctx context.Context, n int) (int, error) {
				if name == "first" && fails {
					return 0, errDead
				}
				return n, w.do(ctx, name, "")
			})
		}
		g, err := pregel.Entrypoint("flow", func(ctx context.Context, _ int) (int, error) {
			if _, err := effect("first").Call(ctx, 1); err != nil {
				if _, err := effect("instead").Call(ctx, 1); err != nil {
					return 0, err
				}
			}
			if _, err := effect("then").Call(ctx, 1); err != nil {
				return 0, err
			}
			_, err := pregel.Ask(ctx, "go on?")
			return 7, err
		}, pregel.EntrypointOptions{Options: pregel.Options{Saver: s}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Invoke(ctx, pregel.Thread("t"), 1, pregel.RunOptions{Durability: d}); err != nil {
			t.Fatal(err)
		}
		fails = false
		for _, input := range []any{nil, pregel.Command{Resume: "yes"}} {
			if _, err := g.Invoke(ctx, pregel.Thread("t"), input, pregel.RunOptions{Durability: d}); err != nil {
				t.Fatalf("%s, %v: %v", d, input, err)
			}
		}
	}
}

// With LangGraph's ways calls are told apart by their order alone, and no record is stored. Threads
// without records, from earlier versions, go on like that.
func TestCallsWithoutRecords(t *testing.T) {
	for _, langGraph := range []bool{true, false} {
		s := memory.New(memory.Options{})
		f := &flow{w: newWorld(), calls: []made{{"pay", 1, false}}, stop: stops[0]}
		if _, err := f.run(t, f.graph(t, pregel.Options{Saver: s, LangGraph: true}), 1, pregel.Sync); err != nil {
			t.Fatal(err)
		}
		tup, err := s.GetTuple(ctx, saver.Config{ThreadID: "t"})
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range tup.PendingWrites {
			if w.Channel == "__stele_calls__" {
				t.Error("a record with LangGraph's ways")
			}
		}
		f.calls = append([]made{{"tax", 9, false}}, f.calls...)
		if res, err := f.run(t, f.graph(t, pregel.Options{Saver: s, LangGraph: langGraph}), nil, pregel.Sync); err != nil || len(res.Interrupts) > 0 {
			t.Fatalf("%+v, %v", res, err)
		}
		if keys := len(f.w.keys["pay1/"]); keys != 2 {
			t.Errorf("%d keys, not one more by the new order", keys)
		}
	}
}

// ways are bodies that make other calls behind an error than without it. They do not change.
var ways = map[string]func(ctx context.Context, o *otherWay) error{
	"a call asks": func(ctx context.Context, o *otherWay) error {
		return o.either(ctx, func() error {
			_, err := pregel.NewTask("approve", func(ctx context.Context, _ int) (any, error) { return pregel.Ask(ctx, "go on?") }).Call(ctx, 0)
			return err
		})
	},
	"it asks": func(ctx context.Context, o *otherWay) error {
		return o.either(ctx, func() error { _, err := pregel.Ask(ctx, "go on?"); return err })
	},
	"an answer is refused": func(ctx context.Context, o *otherWay) error {
		return o.either(ctx, func() error { _, err := pregel.AskFor[string](ctx, "go on?"); return err })
	},
	"a graph inside asks": func(ctx context.Context, o *otherWay) error {
		return o.either(ctx, func() error {
			_, err := o.inner.Invoke(ctx, pregel.Inside(), map[string]any{"steps": []string{}})
			return err
		})
	},
	"a call fails": func(ctx context.Context, o *otherWay) error {
		return o.either(ctx, func() error {
			_, err := pregel.NewTask("weak", func(context.Context, int) (int, error) { return 0, o.once() }).Call(ctx, 0)
			return err
		})
	},
	"a call that took a key, behind a question": func(ctx context.Context, o *otherWay) error {
		return o.either(ctx, func() error { _, err := pregel.Ask(ctx, "go on?"); return err }, "keyed")
	},
	"a retry takes another way": func(ctx context.Context, o *otherWay) error {
		if err := o.either(ctx, o.once); err != nil {
			return err
		}
		_, err := pregel.Ask(ctx, "go on?")
		return err
	},
	"a retry makes fewer calls": func(ctx context.Context, o *otherWay) error {
		if err := o.once(); err != nil {
			return errors.Join(err, o.call(ctx, "alert"), o.call(ctx, "audit"))
		}
		return o.call(ctx, "ship")
	},
}

type otherWay struct {
	flow
	counts map[string]int
}

func (o *otherWay) call(ctx context.Context, name string) error {
	_, err := pregel.NewTask(name, func(ctx context.Context, n int) (int, error) {
		o.counts[name]++
		if name == "keyed" {
			_, err := pregel.IdempotencyKey(ctx, name)
			return n, errors.Join(err, errDead)
		}
		return n, nil
	}).Call(ctx, 1)
	return err
}

// either calls ship if do succeeds, and otherwise audit and the others.
func (o *otherWay) either(ctx context.Context, do func() error, others ...string) error {
	if err := o.call(ctx, "reserve"); err != nil {
		return err
	}
	if err := do(); err != nil {
		for _, name := range append(others, "audit", "alert") {
			_ = o.call(ctx, name)
		}
		return err
	}
	return o.call(ctx, "ship")
}

// A body that makes other calls once it has seen an error goes on when it sees none: it did not change.
func TestOtherWayBehindAnError(t *testing.T) {
	for name, body := range ways {
		for _, d := range allDurabilities {
			t.Run(fmt.Sprint(name, "/", d), func(t *testing.T) {
				o := &otherWay{flow: flow{w: newWorld(), fails: true}, counts: map[string]int{}}
				s := memory.New(memory.Options{})
				o.graph(t, pregel.Options{Saver: s}) // for the graph inside
				retry := []pregel.RetryPolicy{{InitialInterval: 1, NoJitter: true, RetryOn: func(err error) bool { return errors.Is(err, errDead) }}}
				if name == "a call fails" {
					retry = nil
				}
				g, err := pregel.Entrypoint("flow", func(ctx context.Context, _ int) (int, error) { return 7, body(ctx, o) },
					pregel.EntrypointOptions{Options: pregel.Options{Saver: s}, Retry: retry})
				if err != nil {
					t.Fatal(err)
				}
				res, err := o.run(t, g, 1, d)
				if name == "an answer is refused" {
					if _, err := g.Invoke(ctx, pregel.Thread("t"), pregel.Command{Resume: 1}, pregel.RunOptions{Durability: d}); err == nil {
						t.Error("it was not refused")
					}
				}
				for i := 0; i < 3 && (err != nil || len(res.Interrupts) > 0); i++ {
					res, err = o.run(t, g, nil, d)
				}
				if err != nil || fmt.Sprint(res.Value) != "7" || o.counts["ship"] != 1 {
					t.Errorf("%+v, %v, calls %v", res, err, o.counts)
				}
			})
		}
	}
}

// A call whose input has the state finds what it did, although the state has another value now that no
// superstep has written: from the Command that answers, or a value that is not stored.
func TestInputThatTheStateChanges(t *testing.T) {
	untracked := graph.Key("scratch", channel.UntrackedValue[string](channel.Guarded))
	for _, c := range []struct {
		name   string
		field  graph.Field
		answer pregel.Command
	}{
		{"a Command with an update", graph.Key("address", channel.LastValue[string]()), pregel.Command{Resume: "yes", Update: map[string]any{"address": "Rome"}}},
		{"a computed value", graph.Computed("left", channel.RemainingSteps), pregel.Command{Resume: "yes"}},
		{"an untracked value", untracked, pregel.Command{Resume: "yes"}},
	} {
		for _, d := range allDurabilities {
			t.Run(fmt.Sprint(c.name, "/", d), func(t *testing.T) {
				quotes := 0
				quote := pregel.NewTask("quote", func(context.Context, map[string]any) (int, error) { quotes++; return quotes, nil })
				s := memory.New(memory.Options{})
				g, err := graph.New(graph.Key("price", channel.LastValue[int]()), c.field).
					Node("first", func(context.Context, any) (any, error) { return nil, nil }).
					Node("offer", func(ctx context.Context, state any) (any, error) {
						price, err := quote.Call(ctx, state.(map[string]any))
						if err != nil {
							return nil, err
						}
						if _, err := pregel.Ask(ctx, "go on?"); err != nil {
							return nil, err
						}
						return map[string]any{"price": price}, nil
					}).Sequence(graph.Start, "first", "offer").Compile(graph.Options{Saver: s})
				if err != nil {
					t.Fatal(err)
				}
				input := map[string]any{"price": 0, c.field.Name: "x"}
				if c.field.Managed != nil {
					delete(input, c.field.Name)
				}
				if _, err := g.Invoke(ctx, pregel.Thread("t"), input, pregel.RunOptions{Durability: d}); err != nil {
					t.Fatal(err)
				}
				res, err := g.Invoke(ctx, pregel.Thread("t"), c.answer, pregel.RunOptions{Durability: d})
				if err != nil || fmt.Sprint(res.Value.(map[string]any)["price"]) != "1" || quotes != 1 {
					t.Errorf("%+v, %v, %d quotes", res, err, quotes)
				}
			})
		}
	}
}

// What a call wrote that had failed in runs before is stored whole, whatever the failures left: the call does not run again,
// its record and its items are there, and a changed body is refused.
func TestRecordBehindAFailure(t *testing.T) {
	homes(t, store.Options{}, func(t *testing.T, h home) {
		for _, d := range allDurabilities {
			for _, way := range []string{"a run fails", "two runs fail", "the body is tried again"} {
				behindAFailure(t, h, d, way)
			}
		}
	})
}

// behindAFailure has a call fail once, also again behind its question, or before its body is tried again, and then end.
func behindAFailure(t *testing.T, h home, d pregel.Durability, way string) {
	ended := map[string]int{}
	name, asks, fails := "f", false, true
	call := func(ctx context.Context, n int) (int, error) {
		info, _ := pregel.Task(ctx)
		for _, key := range []string{"a", "b"} {
			if err := info.Store.Put(ctx, facts, key, map[string]any{"n": n}); err != nil {
				return 0, err
			}
		}
		if asks {
			if _, err := pregel.Ask(ctx, "which?"); err != nil {
				return 0, err
			}
		}
		if fails {
			fails = way != "the body is tried again"
			return 0, errDead
		}
		ended[name]++
		return n, nil
	}
	o := pregel.EntrypointOptions{Options: pregel.Options{Saver: h.saver, Store: h.items, AtomicStore: true}}
	if way == "the body is tried again" {
		o.Retry = []pregel.RetryPolicy{{MaxAttempts: 2, InitialInterval: time.Microsecond, RetryOn: func(error) bool { return true }}}
	}
	g := must(pregel.Entrypoint("flow", func(ctx context.Context, n int) (int, error) {
		if _, err := pregel.NewTask(name, call).Call(ctx, n); err != nil {
			return 0, err
		}
		_, err := pregel.Ask(ctx, "go on?")
		return 7, err
	}, o))
	thread := fmt.Sprint(d, ", ", way)
	run := func(what string, input any, want error) {
		t.Helper()
		if _, err := g.Invoke(ctx, pregel.Thread(thread), input, pregel.RunOptions{Durability: d}); !errors.Is(err, want) {
			t.Fatalf("%s: %s: %v", thread, what, err)
		}
	}
	if way == "the body is tried again" {
		run("the body asks", 1, nil)
	} else {
		run("it fails", 1, errDead)
		if way == "two runs fail" {
			asks = true
			run("it asks", nil, nil)
			run("it is answered, and fails", pregel.Command{Resume: "this"}, errDead)
		}
		fails = false
		run("the body asks", nil, nil)
	}
	told := must(pregel.Steps(ctx, h.saver, pregel.Thread(thread)))
	if got := inLines(told); fmt.Sprint(got) != "[call f: done 1, 1 attempts]" || told[0].Began.IsZero() {
		t.Errorf("%s: the steps are %v", thread, got)
	}
	name = "other"
	run("a changed body", pregel.Command{Resume: "yes"}, pregel.ErrCallMismatch)
	name = "f"
	run("the former body", pregel.Command{Resume: "yes"}, nil)
	if fmt.Sprint(ended) != "map[f:1]" {
		t.Errorf("%s: calls that ended: %v", thread, ended)
	}
	h.knows(t, "a", "b")
	for _, key := range []string{"a", "b"} {
		if err := h.items.Delete(ctx, facts, key); err != nil {
			t.Fatal(err)
		}
	}
}
