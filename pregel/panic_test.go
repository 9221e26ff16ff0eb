package pregel_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/store/cache"
)

// RES-24: a hook that panics is logged, and harms nothing.
func TestHooksThatPanic(t *testing.T) {
	calls := atomic.Int32{}
	ouch := func() { calls.Add(1); panic("hook") }
	hooks := pregel.Hooks{
		RunStart: func(pregel.RunInfo) { ouch() }, RunEnd: func(pregel.RunInfo, error) { ouch() }, Resume: func(pregel.RunInfo) { ouch() },
		Interrupt: func(pregel.RunInfo, []pregel.Interrupt) { ouch() }, StepStart: func(pregel.RunInfo, []string) { ouch() },
		StepEnd: func(pregel.RunInfo) { ouch() }, TaskStart: func(pregel.TaskInfo) { ouch() },
		TaskEnd: func(pregel.TaskInfo, time.Duration, error) { ouch() }, Save: func(pregel.RunInfo, string, time.Duration, error) { ouch() },
	}
	g := fan(t, pregel.Options{Saver: memory.New(memory.Options{}), Hooks: hooks}, node("a", func(c context.Context, _ any) (any, error) { return pregel.Ask(c, "?") }))
	at, cfg := pregel.Thread("t"), pregel.RunOptions{Durability: pregel.Sync}
	if res, err := g.Invoke(ctx, at, 1, cfg); err != nil || len(res.Interrupts) != 1 {
		t.Fatalf("%v, %v", res, err)
	}
	res, err := g.Invoke(ctx, at, pregel.Command{Resume: "yes"}, cfg)
	wantOut(t, res, err, "yes")
	if calls.Load() < 12 {
		t.Errorf("the hooks were called %d times", calls.Load())
	}
}

// laden is an error that holds much, and says little.
type laden struct{ with any }

func (laden) Error() string { return "laden" }

// TestPanicWithCycle: a node that panics with a value that holds itself fails, and the process
// lives on. Other values are printed.
func TestPanicWithCycle(t *testing.T) {
	cycle := map[string]any{}
	cycle["self"] = []any{cycle}
	deep := any("x")
	for range 20_000 {
		deep = []any{deep}
	}
	for want, v := range map[string]any{
		"panic: a map[string]interface {}": cycle, "panic: a *map[string]interface {}": &cycle, "panic: a []interface {}": deep,
		"panic: boom": errBoom, "panic: laden": laden{cycle}, "panic: {1 x}": struct {
			A int
			B any
		}{1, "x"}, "panic: map[a:[1 2]]": map[string][]int{"a": {1, 2}},
	} {
		s := memory.New(memory.Options{})
		_, _, line, _ := runtime.Caller(0)
		g := fan(t, pregel.Options{Saver: s}, node("a", func(context.Context, any) (any, error) { panic(v) }))
		line++
		_, err := g.Invoke(ctx, pregel.Thread("t"), 1)
		if err == nil || !strings.HasSuffix(err.Error(), want+fmt.Sprintf(" (panic_test.go:%d)", line)) {
			t.Errorf("%T: %.200v", v, err)
		}
		state, err := g.GetState(ctx, pregel.Thread("t"))
		if err != nil || len(state.Tasks) != 1 || fmt.Sprint(state.Tasks[0].Err) != want {
			t.Errorf("%T is stored as %.200v, %v", v, state.Tasks, err)
		}
	}
}

// TestPanicOfRuntime: of a panic that the runtime makes, the place is the line of the node.
func TestPanicOfRuntime(t *testing.T) {
	var list []int
	for name, f := range map[string]func(context.Context, any) (any, error){
		"index": func(context.Context, any) (any, error) { return list[len(list)], nil },
		"nil":   func(context.Context, any) (any, error) { return *(*int)(nil), nil },
	} {
		g := fan(t, pregel.Options{Saver: memory.New(memory.Options{})}, node("a", f))
		if _, err := g.Invoke(ctx, pregel.Thread("t"), 1); err == nil || !regexp.MustCompile(`panic: runtime error: .* \(panic_test\.go:\d+\)$`).MatchString(err.Error()) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whatever panics is an error of the node or channel it belongs to; nothing is
// left running, and the thread can be resumed.
func TestPanicsAreNamed(t *testing.T) {
	for name, c := range map[string]struct {
		policy func(*pregel.NodeBuilder)
		node   bool // the error names the node
	}{
		"retry predicate": {func(b *pregel.NodeBuilder) {
			b.Retry(pregel.RetryPolicy{RetryOn: func(error) bool { panic("ouch") }})
		}, true},
		"cache key": {func(b *pregel.NodeBuilder) {
			b.Cache(pregel.CachePolicy{Key: func(any) (string, error) { panic("ouch") }})
		}, false},
		"writer": {func(b *pregel.NodeBuilder) { b.Write(func(*pregel.Writing, any) error { panic("ouch") }) }, true},
	} {
		broken := node("b", fails(errBoom))
		if name == "writer" {
			broken = node("b", returns("b"))
		}
		c.policy(broken)
		g := fan(t, pregel.Options{Saver: memory.New(memory.Options{}), Cache: newCache(t, cache.Options{})}, node("a", returns("a")), broken)
		at := pregel.Thread("t")
		_, err := g.Invoke(ctx, at, 1)
		var p *pregel.PanicError
		var te *pregel.TaskError
		if !errors.As(err, &p) || p.Value != "ouch" || !strings.Contains(string(p.Stack), "panic_test") {
			t.Errorf("%s: error %v", name, err)
		}
		if errors.As(err, &te) != c.node || c.node && te.Node != "b" {
			t.Errorf("%s: the error does not name the node: %v", name, err)
		}
		fixed := fan(t, pregel.Options{Saver: nil}, node("a", returns("a")), node("b", returns("b")))
		if _, err := fixed.Invoke(ctx, pregel.Address{}, 1); err != nil {
			t.Error(err)
		}
		if state, err := g.GetState(ctx, at); err != nil || len(state.Next) == 0 {
			t.Errorf("%s: %v, %v; cannot be resumed", name, state, err)
		}
	}
}

// A reducer that panics refuses the superstep; error and state say so.
func TestReducerThatPanics(t *testing.T) {
	spec, o := pregel.Spec{Input: pregel.One("in"), Output: pregel.One("sum")}, pregel.Options{Saver: memory.New(memory.Options{})}
	spec.Channels = map[string]channel.Channel{"in": channel.LastValue[int](), "sum": channel.Reduce(func(a, b int) int {
		if b == 13 {
			panic("ouch")
		}
		return a + b
	})}
	n, err := node("n", func(_ context.Context, v any) (any, error) { return v, nil }).SubscribeOnly("in").WriteTo("sum").Build()
	if err != nil {
		t.Fatal(err)
	}
	spec.Nodes = []*pregel.Node{n}
	g, err := pregel.New(spec, o)
	if err != nil {
		t.Fatal(err)
	}
	at := pregel.Thread("t")
	for i, want := range []string{"7", "", "12"} {
		res, err := g.Invoke(ctx, at, []int{7, 13, 5}[i])
		if want != "" {
			if err != nil || fmt.Sprint(res.Value) != want {
				t.Errorf("input %d: %v, %v", i, res, err)
			}
			continue
		}
		var ue *channel.UpdateError
		var p *pregel.PanicError
		if !errors.As(err, &ue) || ue.Channel != "sum" || fmt.Sprint(ue.Nodes) != "[n]" || !errors.As(err, &p) {
			t.Errorf("error %v", err)
		}
	}
}

// A saver that panics has failed.
func TestSaverThatPanics(t *testing.T) {
	for _, op := range []string{"put", "writes"} {
		once := atomic.Bool{}
		s := watch(func(_ context.Context, asked string) error {
			if strings.HasPrefix(asked, op) && once.CompareAndSwap(false, true) {
				panic("ouch")
			}
			return nil
		})
		g := fan(t, pregel.Options{Saver: s}, node("a", returns("a")))
		_, err := g.Invoke(ctx, pregel.Thread("t"), 1)
		var p *pregel.PanicError
		if !errors.Is(err, pregel.ErrPersist) || !errors.As(err, &p) {
			t.Errorf("%s: error %v", op, err)
		}
	}
}

// A policy of a call that panics is an error of its caller, and cancels others.
func TestCallPolicyThatPanics(t *testing.T) {
	called := pregel.NewTask("called", func(context.Context, int) (int, error) { return 1, nil },
		pregel.TaskOptions{Cache: &pregel.CachePolicy{Key: func(any) (string, error) { panic("ouch") }}})
	running := atomic.Int32{}
	g := fan(t, pregel.Options{Cache: newCache(t, cache.Options{})}, node("caller", func(c context.Context, _ any) (any, error) {
		running.Add(1)
		defer running.Add(-1)
		return called.Call(c, 1)
	}), node("other", func(c context.Context, _ any) (any, error) {
		running.Add(1)
		defer running.Add(-1)
		return waits(c, nil)
	}))
	_, err := g.Invoke(ctx, pregel.Address{}, 1)
	var p *pregel.PanicError
	var te *pregel.TaskError
	if !errors.As(err, &p) || p.Value != "ouch" || !errors.As(err, &te) || te.Node != "caller" {
		t.Errorf("error %v", err)
	}
	if n := running.Load(); n != 0 {
		t.Errorf("%d nodes still run", n)
	}
}

// crashing is a cache whose Set panics, in the loop.
type crashing struct{ cache.Cache }

func (*crashing) Set(context.Context, ...cache.Entry) error {
	panic("ouch")
}

// A loop that panics waits for the tasks it started.
func TestLoopThatPanicsLeavesNobodyBehind(t *testing.T) {
	running := atomic.Int32{}
	slow := func(c context.Context, _ any) (any, error) {
		running.Add(1)
		defer running.Add(-1)
		return waits(c, nil)
	}
	leaf := pregel.NewTask("leaf", func(c context.Context, _ int) (any, error) { return slow(c, nil) })
	g := fan(t, pregel.Options{Cache: &crashing{newCache(t, cache.Options{})}}, node("quick", returns(1)).Cache(pregel.CachePolicy{}), node("slow", slow),
		node("caller", func(c context.Context, _ any) (any, error) {
			running.Add(1)
			defer running.Add(-1)
			_, err := leaf.Call(c, 1)
			_, again := leaf.Call(c, 2)
			return nil, errors.Join(err, again)
		}))
	for _, limit := range []int{0, 3} {
		_, err := g.Invoke(ctx, pregel.Address{}, 1, pregel.RunOptions{MaxConcurrency: limit})
		var p *pregel.PanicError
		if !errors.As(err, &p) || p.Value != "ouch" {
			t.Errorf("error %v", err)
		}
		if n := running.Load(); n != 0 {
			t.Errorf("%d nodes still run", n)
		}
	}
}

// TestPanicOnOneLine: the text of a panic is one line with its place, however deep it is wrapped and whatever its value is, and a log
// gets the stack beside it.
func TestPanicOnOneLine(t *testing.T) {
	for _, value := range []any{"a", "a\nb\r\n\nc", errors.New("x\ny"), []string{"\n"}} {
		g := fan(t, pregel.Options{}, node("a", func(context.Context, any) (any, error) { panic(value) }))
		_, err := g.Invoke(ctx, pregel.Address{}, 1)
		if err == nil || strings.ContainsAny(err.Error(), "\r\n") || strings.Count(err.Error(), "panic_test") != 1 || !strings.Contains(err.Error(), "panic: ") {
			t.Errorf("%q: %q", value, err)
		}
		var log strings.Builder
		slog.New(slog.NewTextHandler(&log, nil)).Info("m", pregel.LogError(err))
		if !strings.Contains(log.String(), "error=") || !strings.Contains(log.String(), "stack=") || !strings.Contains(log.String(), "panic_test.go") {
			t.Errorf("%q: logged %s", value, &log)
		}
	}
}
