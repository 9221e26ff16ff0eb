package pregel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver/memory"
)

func TestPanicKeepsSiblings(t *testing.T) {
	fixed := false
	ran := atomic.Int32{}
	g := fan(t, pregel.Options{Saver: memory.New(memory.Options{})},
		node("a", func(context.Context, any) (any, error) { ran.Add(1); return "a", nil }),
		node("b", func(context.Context, any) (any, error) {
			if !fixed {
				panic("ouch")
			}
			return "b", nil
		}))
	at, cfg := pregel.Thread("t"), pregel.RunOptions{MaxConcurrency: 1}
	_, err := g.Invoke(ctx, at, 1, cfg)
	var task *pregel.TaskError
	var p *pregel.PanicError
	if !errors.As(err, &task) || task.Node != "b" || !errors.As(err, &p) || p.Value != "ouch" || !strings.Contains(string(p.Stack), "engine_test") {
		t.Fatalf("error %v", err)
	}
	state, err := g.GetState(ctx, at)
	if err != nil || !slices.Equal(state.Next, []string{"b"}) {
		t.Fatalf("next %v, %v", state, err)
	}
	fixed = true
	res, err := g.Invoke(ctx, at, nil, cfg)
	wantOut(t, res, err, "a", "b")
	if ran.Load() != 1 {
		t.Errorf("the finished sibling ran %d times", ran.Load())
	}
}

func TestGoexitIsAnError(t *testing.T) {
	g := fan(t, pregel.Options{}, node("a", func(context.Context, any) (any, error) {
		done := make(chan struct{})
		defer close(done)
		testing.TB.FailNow(quitter{})
		return nil, nil
	}))
	if _, err := g.Invoke(ctx, pregel.Address{}, 1); err == nil || !strings.Contains(err.Error(), "Goexit") {
		t.Errorf("error %v", err)
	}
}

// quitter ends the calling goroutine, as a failed test assertion in a node does.
type quitter struct{ testing.TB }

func (quitter) FailNow() { goexit() }

func TestFailureCancelsSiblings(t *testing.T) {
	g := fan(t, pregel.Options{Saver: memory.New(memory.Options{})}, node("slow", waits), node("bad", fails(errBoom)))
	at := pregel.Thread("t")
	_, err := g.Invoke(ctx, at, 1)
	var task *pregel.TaskError
	if !errors.Is(err, errBoom) || !errors.As(err, &task) || task.Node != "bad" {
		t.Fatalf("error %v", err)
	}
	state, err := g.GetState(ctx, at)
	if err != nil {
		t.Fatal(err)
	}
	for _, ts := range state.Tasks {
		if ts.Err == nil || ts.Finished {
			t.Errorf("task %s: error %v, finished %v", ts.Name, ts.Err, ts.Finished)
		}
	}
}

// Whether the loop or a task sees the end of the context first depends on the
// scheduler, so each durability has several tries.
func TestCancelKeepsWhatEnded(t *testing.T) {
	for _, d := range slices.Repeat([]pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit}, 10) {
		runs := atomic.Int32{}
		ended := make(chan struct{})
		c, cancel := context.WithCancel(ctx)
		g := fan(t, pregel.Options{Saver: memory.New(memory.Options{}), Hooks: pregel.Hooks{TaskEnd: func(i pregel.TaskInfo, _ time.Duration, err error) {
			if i.Node == "quick" && err == nil {
				close(ended)
			}
		}}}, node("quick", func(context.Context, any) (any, error) { runs.Add(1); return "quick", nil }),
			node("slow", func(ctx context.Context, _ any) (any, error) {
				if c.Err() != nil {
					return "slow", nil
				}
				return waits(ctx, nil)
			}))
		go func() { <-ended; cancel() }()
		at, cfg := pregel.Thread("t"), pregel.RunOptions{Durability: d}
		if _, err := g.Invoke(c, at, 1, cfg); !errors.Is(err, context.Canceled) {
			t.Fatalf("%s: error %v", d, err)
		}
		res, err := g.Invoke(ctx, at, nil, cfg)
		wantOut(t, res, err, "quick", "slow")
		if runs.Load() != 1 {
			t.Errorf("%s: the finished task ran %d times", d, runs.Load())
		}
	}
}

func TestSelfCancelIsAFailure(t *testing.T) {
	g := fan(t, pregel.Options{}, node("n", fails(context.Canceled)))
	var nc *pregel.NodeCancelledError
	if _, err := g.Invoke(ctx, pregel.Address{}, 1); !errors.As(err, &nc) || nc.Node != "n" {
		t.Errorf("error %v", err)
	}
}

func TestRetry(t *testing.T) { // RTY-03..06
	var slept []time.Duration
	env := pregel.Environment{Sleep: func(d time.Duration, _ <-chan struct{}) { slept = append(slept, d) }, Jitter: func() float64 { return 0.25 }}
	var attempts []int
	flaky := func(ctx context.Context, _ any) (any, error) {
		info, _ := pregel.Task(ctx)
		attempts = append(attempts, info.Attempt)
		if len(attempts) < 3 {
			return nil, errBoom
		}
		return "ok", nil
	}
	policy := pregel.RetryPolicy{InitialInterval: 10 * time.Millisecond, NoJitter: true}
	res, err := fan(t, pregel.Options{Env: env}, node("n", flaky).Retry(policy)).Invoke(ctx, pregel.Address{}, 1)
	wantOut(t, res, err, "ok")
	if !slices.Equal(attempts, []int{1, 2, 3}) || !slices.Equal(slept, []time.Duration{10 * time.Millisecond, 20 * time.Millisecond}) {
		t.Errorf("attempts %v, slept %v", attempts, slept)
	}
	slept = nil
	never := pregel.RetryPolicy{RetryOn: pregel.RetryOnErrors()}
	other := errors.New("other")
	some := pregel.RetryPolicy{InitialInterval: 10 * time.Millisecond, MaxAttempts: 2, RetryOn: pregel.RetryOnErrors(other, errBoom)}
	if _, err := fan(t, pregel.Options{Env: env}, node("n", fails(errBoom)).Retry(never, some)).Invoke(ctx, pregel.Address{}, 1); !errors.Is(err, errBoom) {
		t.Errorf("error %v", err)
	}
	if !slices.Equal(slept, []time.Duration{260 * time.Millisecond}) {
		t.Errorf("slept %v; want one wait with jitter", slept)
	}
}

// A second attempt finds the calls of the first one under the same ids.
func TestRetryFindsItsCalls(t *testing.T) {
	env := pregel.Environment{Sleep: func(time.Duration, <-chan struct{}) {}}
	calls, tries := atomic.Int32{}, 0
	count := pregel.NewTask("count", func(context.Context, int) (int32, error) { return calls.Add(1), nil })
	g := fan(t, pregel.Options{Env: env}, node("n", func(ctx context.Context, _ any) (any, error) {
		v, err := count.Call(ctx, 0)
		if tries++; tries == 1 {
			return nil, errBoom
		}
		return v, err
	}).Retry(pregel.RetryPolicy{}))
	res, err := g.Invoke(ctx, pregel.Address{}, 1)
	wantOut(t, res, err, int32(1))
	if calls.Load() != 1 {
		t.Errorf("the call ran %d times", calls.Load())
	}
}

func TestNodeTimeouts(t *testing.T) { // RTY-08..10
	synctest.Test(t, func(t *testing.T) {
		g := fan(t, pregel.Options{}, node("n", waits).Timeout(pregel.Timeout(5*time.Millisecond, time.Hour)))
		var nt *pregel.NodeTimeoutError
		if _, err := g.Invoke(ctx, pregel.Address{}, 1); !errors.As(err, &nt) || nt.Kind != "run" || nt.IdleTimeout != time.Hour || !errors.Is(err, pregel.ErrNodeTimeout) {
			t.Errorf("error %v", err)
		}
		g = fan(t, pregel.Options{}, node("n", waits).Timeout(pregel.Timeout(0, 5*time.Millisecond)))
		if _, err := g.Invoke(ctx, pregel.Address{}, 1); !errors.As(err, &nt) || nt.Kind != "idle" {
			t.Errorf("error %v", err)
		}
		// What a timed-out attempt writes afterwards is ignored.
		release, wrote := make(chan struct{}), make(chan error, 1)
		tries := atomic.Int32{}
		g = fan(t, pregel.Options{Env: pregel.Environment{Sleep: func(time.Duration, <-chan struct{}) {}}}, node("n", func(ctx context.Context, _ any) (any, error) {
			if tries.Add(1) > 1 {
				return "second", nil
			}
			<-release
			wrote <- pregel.Emit(ctx, "late")
			return "first", nil
		}).Timeout(pregel.Timeout(5*time.Millisecond, 0)).Retry(pregel.RetryPolicy{}))
		res, err := g.Invoke(ctx, pregel.Address{}, 1)
		wantOut(t, res, err, "second")
		close(release)
		if err := <-wrote; !errors.Is(err, pregel.ErrOutsideTask) {
			t.Errorf("a late event: %v", err)
		}
	})
}

func TestStepTimeout(t *testing.T) { // ERR-13
	synctest.Test(t, func(t *testing.T) {
		g := fan(t, pregel.Options{StepTimeout: 20 * time.Millisecond, Saver: memory.New(memory.Options{})}, node("fast", returns("fast")), node("slow", waits))
		at := pregel.Thread("t")
		var nodes []string
		var last error
		for e, err := range g.Stream(ctx, at, 1, pregel.RunOptions{Modes: []pregel.Mode{pregel.ModeUpdates}}) {
			if last = err; err == nil {
				nodes = append(nodes, e.Data.(pregel.Update).Node)
			}
		}
		if !errors.Is(last, pregel.ErrStepTimeout) || !slices.Equal(nodes, []string{"fast"}) {
			t.Errorf("nodes %v, error %v", nodes, last)
		}
		state, err := g.GetState(ctx, at)
		if err != nil || !slices.Equal(state.Next, []string{"slow"}) {
			t.Errorf("next %v, %v", state.Next, err)
		}
	})
}

func TestMaxConcurrency(t *testing.T) { // STEP-18
	var now, most atomic.Int32
	var nodes []*pregel.NodeBuilder
	var want []any
	for i := range 30 {
		name := fmt.Sprintf("n%02d", i)
		want = append(want, name)
		nodes = append(nodes, node(name, func(context.Context, any) (any, error) {
			n := now.Add(1)
			defer now.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			time.Sleep(time.Millisecond)
			return name, nil
		}))
	}
	res, err := fan(t, pregel.Options{}, nodes...).Invoke(ctx, pregel.Address{}, 1, pregel.RunOptions{MaxConcurrency: 4})
	wantOut(t, res, err, want...)
	if most.Load() > 4 {
		t.Errorf("%d tasks ran at once", most.Load())
	}
}

// A task that waits for a call gives its place back, or a limit of one would
// stand still.
func TestCallsUnderConcurrencyLimit(t *testing.T) {
	leaf := pregel.NewTask("leaf", func(_ context.Context, n int) (int, error) { return n * 2, nil })
	mid := pregel.NewTask("mid", func(ctx context.Context, n int) (int, error) { return leaf.Call(ctx, n+1) })
	flow, err := pregel.Entrypoint("flow", func(ctx context.Context, n int) ([]int, error) {
		var fs []pregel.Future[int]
		for i := range n {
			fs = append(fs, mid.Start(ctx, i))
		}
		return pregel.GetAll(ctx, fs...)
	}, pregel.EntrypointOptions{})
	if err != nil {
		t.Fatal(err)
	}
	res, err := flow.Invoke(ctx, pregel.Address{}, 3, pregel.RunOptions{MaxConcurrency: 1})
	if err != nil || fmt.Sprint(res.Value) != "[2 4 6]" {
		t.Errorf("%v, %v", res, err)
	}
}

func TestStopEarly(t *testing.T) {
	s := memory.New(memory.Options{})
	g := fan(t, pregel.Options{Saver: s}, node("a", returns("a")), node("b", waits))
	for e, err := range g.Stream(ctx, pregel.Thread("t"), 1, pregel.RunOptions{Modes: []pregel.Mode{pregel.ModeUpdates}}) {
		if err != nil || e.Data.(pregel.Update).Node != "a" {
			t.Fatalf("%v %v", e, err)
		}
		break
	}
	state, err := g.GetState(ctx, pregel.Thread("t"))
	if err != nil || !slices.Equal(state.Next, []string{"b"}) {
		t.Errorf("next %v, %v", state.Next, err)
	}
}

func TestBadInput(t *testing.T) {
	plain := fan(t, pregel.Options{}, node("a", returns("a")))
	saved := fan(t, pregel.Options{Saver: memory.New(memory.Options{})}, node("a", returns("a")))
	invoke := func(g *pregel.Graph, in any, at pregel.Address, c pregel.RunOptions) error {
		_, err := g.Invoke(ctx, at, in, c)
		return err
	}
	_, noSaver := plain.GetState(ctx, pregel.Thread("t"))
	_, noUpdate := plain.UpdateState(ctx, pregel.Thread("t"), pregel.StateUpdate{})
	_, noSub := saved.GetState(ctx, pregel.Address{ThreadID: "t", Namespace: "x:1"})
	_, ask := pregel.Ask(ctx, "?")
	_, mixed := saved.BulkUpdateState(ctx, pregel.Thread("t"), [][]pregel.StateUpdate{{{AsNode: pregel.End}, {AsNode: pregel.Copy}}})
	for name, c := range map[string]struct{ err, want error }{
		"limit":      {invoke(plain, 1, pregel.Address{}, pregel.RunOptions{RecursionLimit: -1}), pregel.ErrInvalidArgument},
		"thread":     {invoke(saved, 1, pregel.Address{}, pregel.RunOptions{}), pregel.ErrInvalidArgument},
		"before":     {invoke(plain, 1, pregel.Address{}, pregel.RunOptions{InterruptBefore: []string{"nobody"}}), pregel.ErrInvalidArgument},
		"after":      {invoke(plain, 1, pregel.Address{}, pregel.RunOptions{InterruptAfter: []string{pregel.AllNodes, "nobody"}}), pregel.ErrInvalidArgument},
		"durability": {invoke(plain, 1, pregel.Address{}, pregel.RunOptions{Durability: "maybe"}), pregel.ErrInvalidArgument},
		"empty":      {invoke(saved, nil, pregel.Thread("t"), pregel.RunOptions{}), pregel.ErrEmptyInput},
		"command":    {invoke(saved, pregel.Command{}, pregel.Thread("t"), pregel.RunOptions{}), pregel.ErrEmptyInput},
		"resume":     {invoke(plain, pregel.Command{Resume: 1}, pregel.Address{}, pregel.RunOptions{}), pregel.ErrNoSaver},
		"nothing":    {invoke(saved, pregel.Command{Resume: 1}, pregel.Thread("t"), pregel.RunOptions{}), pregel.ErrNoInterrupt},
		"parent":     {invoke(saved, pregel.Command{Graph: pregel.Parent}, pregel.Thread("t"), pregel.RunOptions{}), pregel.ErrInvalidUpdate},
		"output":     {invoke(plain, 1, pregel.Address{}, pregel.RunOptions{OutputKeys: &pregel.Keys{Names: []string{"nope"}}}), pregel.ErrInvalidGraph},
		"state":      {noSaver, pregel.ErrNoSaver},
		"update":     {noUpdate, pregel.ErrNoSaver},
		"cache":      {plain.ClearCache(ctx), pregel.ErrNoCache},
		"ask":        {ask, pregel.ErrOutsideTask},
		"mixed":      {mixed, pregel.ErrInvalidUpdate},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v; want %v", name, c.err, c.want)
		}
	}
	var se *pregel.SubgraphError
	if !errors.As(noSub, &se) {
		t.Errorf("subgraph: %v", noSub)
	}
}

func TestInvalidGraphs(t *testing.T) {
	build := func(change func(*pregel.Spec, *pregel.Options)) error {
		spec, o := pregel.Spec{Channels: map[string]channel.Channel{"in": channel.LastValue[any](), "out": channel.LastValue[any]()}, Nodes: []*pregel.Node{{Name: "n", Triggers: []string{"in"}, Reads: pregel.One("in")}}, Input: pregel.One("in"), Output: pregel.One("out")},
			pregel.Options{}
		change(&spec, &o)
		_, err := pregel.New(spec, o)
		return err
	}
	if err := build(func(*pregel.Spec, *pregel.Options) {}); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*pregel.Spec, *pregel.Options){
		"reserved channel": func(spec *pregel.Spec, _ *pregel.Options) { spec.Channels["__interrupt__"] = channel.LastValue[any]() },
		"packet channel":   func(spec *pregel.Spec, _ *pregel.Options) { spec.Channels["__pregel_tasks"] = channel.LastValue[any]() },
		"reserved node":    func(spec *pregel.Spec, _ *pregel.Options) { spec.Nodes[0].Name = "__error__" },
		"twin nodes":       func(spec *pregel.Spec, _ *pregel.Options) { spec.Nodes = append(spec.Nodes, spec.Nodes[0]) },
		"unknown read":     func(spec *pregel.Spec, _ *pregel.Options) { spec.Nodes[0].Reads = pregel.Many("x") },
		"unknown trigger":  func(spec *pregel.Spec, _ *pregel.Options) { spec.Nodes[0].Triggers = []string{"x"} },
		"unknown input":    func(spec *pregel.Spec, _ *pregel.Options) { spec.Input = pregel.One("x") },
		"unread input":     func(spec *pregel.Spec, _ *pregel.Options) { spec.Input = pregel.One("out") },
		"unknown output":   func(spec *pregel.Spec, _ *pregel.Options) { spec.Output = pregel.One("x") },
		"breakpoint":       func(_ *pregel.Spec, o *pregel.Options) { o.InterruptAfter = []string{"x"} },
		"handler":          func(spec *pregel.Spec, _ *pregel.Options) { spec.Nodes[0].ErrorHandler = "x" },
		"no channel":       func(spec *pregel.Spec, _ *pregel.Options) { spec.Channels["out"] = nil },
		"no node":          func(spec *pregel.Spec, _ *pregel.Options) { spec.Nodes = append(spec.Nodes, nil) },
		"no writer":        func(spec *pregel.Spec, _ *pregel.Options) { spec.Nodes[0].Writers = []pregel.Writer{nil} },
		"no graph inside":  func(spec *pregel.Spec, _ *pregel.Options) { spec.Nodes[0].Subgraphs = []*pregel.Graph{nil} },
		"nothing managed":  func(spec *pregel.Spec, _ *pregel.Options) { spec.Managed = map[string]channel.Managed{"x": nil} },
		"managed channel": func(spec *pregel.Spec, _ *pregel.Options) {
			spec.Managed = map[string]channel.Managed{"out": channel.IsLastStep}
		},
		"ordered twice":   func(spec *pregel.Spec, _ *pregel.Options) { spec.ChannelOrder = []string{"in", "in"} },
		"ordered unknown": func(spec *pregel.Spec, _ *pregel.Options) { spec.ChannelOrder = []string{"x"} },
	} {
		if err := build(change); !errors.Is(err, pregel.ErrInvalidGraph) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
