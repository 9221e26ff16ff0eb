package graph_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
)

var errBoom = errors.New("boom")

func failing(runs *atomic.Int32) pregel.Func {
	return func(context.Context, any) (any, error) { runs.Add(1); return nil, errBoom }
}

// handled adds to "steps" what the handler was told.
func handled(c context.Context, _ any) (any, error) {
	info, _ := pregel.Task(c)
	return map[string]any{"steps": []string{fmt.Sprint("handled ", info.Failure.Node, ": ", info.Failure.Err)}}, nil
}

var noWaiting = pregel.Environment{Sleep: func(time.Duration, <-chan struct{}) {}}

func TestErrorHandlers(t *testing.T) {
	in := map[string]any{"steps": []string{}}
	t.Run("RTY-12", func(t *testing.T) { // after the retries, and it may steer
		var runs atomic.Int32
		b := graph.New(steps()).Node("bad", failing(&runs), graph.NodeOptions{Retry: []pregel.RetryPolicy{{MaxAttempts: 2}}, OnError: func(c context.Context, v any) (any, error) {
			update, err := handled(c, v)
			return pregel.Command{Update: update, Goto: "after"}, err
		}}).Node("after", appends("after")).Edge(graph.Start, "bad")
		wantSteps(t, invoke(t, compile(t, b, graph.Options{Env: noWaiting}), in, pregel.Address{}), "handled bad: boom", "after")
		if runs.Load() != 2 {
			t.Errorf("%d attempts", runs.Load())
		}
	})
	t.Run("RTY-13", func(t *testing.T) { // a handler that fails fails the run with its own error
		worse := errors.New("worse")
		b := graph.New(steps()).Node("bad", failing(new(atomic.Int32)), graph.NodeOptions{OnError: func(context.Context, any) (any, error) { return nil, worse }}).Edge(graph.Start, "bad")
		_, err := compile(t, b, graph.Options{}).Invoke(ctx, pregel.Address{}, in)
		var te *pregel.TaskError
		if !errors.Is(err, worse) || !errors.As(err, &te) || !strings.Contains(te.Node, "bad") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("RTY-14", func(t *testing.T) { // what fails inside a nested graph is the outer node's failure
		inner := compile(t, graph.New(steps()).Node("deep", failing(new(atomic.Int32))).Edge(graph.Start, "deep"), graph.Options{})
		b := graph.New(steps()).Subgraph("outer", inner, graph.NodeOptions{OnError: func(c context.Context, _ any) (any, error) {
			info, _ := pregel.Task(c)
			if !errors.Is(info.Failure.Err, errBoom) {
				t.Errorf("told of %v", info.Failure.Err)
			}
			return map[string]any{"steps": []string{"handled " + info.Failure.Node}}, nil
		}}).Edge(graph.Start, "outer")
		wantSteps(t, invoke(t, compile(t, b, graph.Options{}), in, pregel.Address{}), "handled outer")
	})
	t.Run("RTY-15,RTY-16", func(t *testing.T) { // handlers that fail run again; the nodes they handle do not
		for _, d := range durabilities {
			var runs, handlers atomic.Int32
			broken := true
			opts := graph.NodeOptions{OnError: func(c context.Context, v any) (any, error) {
				if handlers.Add(1); broken {
					for runs.Load() < 2 { // both nodes have failed
						time.Sleep(time.Millisecond)
					}
					return nil, errors.New("crashed")
				}
				return handled(c, v)
			}}
			b := graph.New(steps()).Node("a", failing(&runs), opts).Node("b", failing(&runs), opts).Edge(graph.Start, "a").Edge(graph.Start, "b")
			g := compile(t, b, graph.Options{Saver: memory.New(memory.Options{})})
			at, cfg := pregel.Thread("t"), pregel.RunOptions{Durability: d}
			if _, err := g.Invoke(ctx, at, in, cfg); err == nil || !strings.Contains(err.Error(), "crashed") {
				t.Fatalf("%s: error %v", d, err)
			}
			broken = false
			handlers.Store(0)
			wantSteps(t, invoke(t, g, nil, at, cfg), "handled a: boom", "handled b: boom")
			// b runs once more if the failure of the handler of a came before its own.
			if runs.Load() > 3 || handlers.Load() != 2 {
				t.Errorf("%s: nodes ran %d times, handlers %d", d, runs.Load(), handlers.Load())
			}
		}
	})
	t.Run("RTY-17", func(t *testing.T) { // its own handler, or else the default one
		b := graph.New(steps()).Defaults(graph.NodeOptions{OnError: func(context.Context, any) (any, error) { return map[string]any{"steps": []string{"default"}}, nil }})
		b.Node("a", failing(new(atomic.Int32)), graph.NodeOptions{OnError: handled}).Node("b", failing(new(atomic.Int32)))
		b.Edge(graph.Start, "a").Edge(graph.Start, "b")
		wantSteps(t, invoke(t, compile(t, b, graph.Options{}), in, pregel.Address{}), "handled a: boom", "default")
		clash := graph.New(steps()).Defaults(graph.NodeOptions{OnError: handled}).Node("__default_error_handler__", appends("x")).Edge(graph.Start, "__default_error_handler__")
		if _, err := clash.Compile(graph.Options{}); !errors.Is(err, pregel.ErrInvalidGraph) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("RTY-18", func(t *testing.T) { // what a node says wins over the defaults
		var one, two atomic.Int32
		b := graph.New(steps()).Defaults(graph.NodeOptions{OnError: handled, Retry: []pregel.RetryPolicy{{MaxAttempts: 4}}})
		b.Node("a", failing(&one), graph.NodeOptions{Retry: []pregel.RetryPolicy{{MaxAttempts: 2}}}).Node("b", failing(&two)).Edge(graph.Start, "a").Edge(graph.Start, "b")
		invoke(t, compile(t, b, graph.Options{Env: noWaiting}), in, pregel.Address{})
		if one.Load() != 2 || two.Load() != 4 {
			t.Errorf("%d and %d attempts", one.Load(), two.Load())
		}
	})
	t.Run("RES-19", func(t *testing.T) { // a question is no failure, also beside one that is handled
		ask := func(c context.Context, _ any) (any, error) {
			a, err := pregel.AskFor[string](c, "?")
			return map[string]any{"steps": []string{a}}, err
		}
		b := graph.New(steps()).Node("ask", ask, graph.NodeOptions{OnError: handled}).Node("bad", failing(new(atomic.Int32)), graph.NodeOptions{OnError: handled})
		b.Edge(graph.Start, "ask").Edge(graph.Start, "bad")
		g := compile(t, b, graph.Options{Saver: memory.New(memory.Options{})})
		at := pregel.Thread("t")
		if res := invoke(t, g, in, at); len(res.Interrupts) != 1 {
			t.Fatalf("%+v", res)
		}
		res := invoke(t, g, pregel.Command{Resume: "answer"}, at)
		wantSteps(t, res, "answer", "handled bad: boom")
	})
}

// RUN-03: a drain that a nested graph is asked for stops both, and both go on.
func TestDrainInside(t *testing.T) {
	for _, d := range durabilities {
		control := &pregel.Control{}
		inner := graph.New(steps()).Node("first", func(context.Context, any) (any, error) {
			control.RequestDrain("shutdown")
			return map[string]any{"steps": []string{"child first"}}, nil
		}).Node("second", appends("child second")).Sequence(graph.Start, "first", "second")
		child := compile(t, inner, graph.Options{})
		b := graph.New(steps()).Node("child", func(c context.Context, _ any) (any, error) {
			res, err := child.Invoke(c, pregel.Inside(), map[string]any{"steps": []string{}})
			if err != nil {
				return nil, err
			}
			return res.Value, nil
		}).Node("end", appends("parent second")).Sequence(graph.Start, "child", "end")
		g := compile(t, b, graph.Options{Saver: memory.New(memory.Options{})})
		at, cfg := pregel.Thread("t"), pregel.RunOptions{Durability: d, Control: control}
		if _, err := g.Invoke(ctx, at, map[string]any{"steps": []string{}}, cfg); !errors.Is(err, pregel.ErrDrained) {
			t.Fatalf("%s: error %v", d, err)
		}
		cfg.Control = nil
		wantSteps(t, invoke(t, g, nil, at, cfg), "child first", "child second", "parent second")
	}
}

// TestHandlerAfterSibling: a node fails when the run has stopped because of another. By
// itself: its handler is called on resume, and not the node. Because its context ended,
// or because the caller went away: the node runs again.
func TestHandlerAfterSibling(t *testing.T) {
	own := func(context.Context) error { return errBoom }
	for name, tc := range map[string]struct {
		err     func(context.Context) error
		caller  bool // cancels the run, instead of a sibling that fails
		runs    int32
		handled bool
	}{
		"by itself":       {own, false, 1, true},
		"by its context":  {func(c context.Context) error { return c.Err() }, false, 2, false},
		"after cancelled": {own, true, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			var runs, handlers atomic.Int32
			broken, begun := true, make(chan struct{})
			sibling := func(c context.Context, v any) (any, error) {
				switch {
				case !broken:
				case tc.caller:
					<-c.Done()
				default:
					<-begun
					return nil, errors.New("the sibling fails")
				}
				return nil, nil
			}
			late := func(c context.Context, v any) (any, error) {
				if runs.Add(1) > 1 {
					return nil, nil
				}
				close(begun)
				<-c.Done()
				return nil, tc.err(c)
			}
			handler := func(c context.Context, v any) (any, error) { handlers.Add(1); return handled(c, v) }
			b := graph.New(steps()).Node("sibling", sibling).Node("late", late, graph.NodeOptions{OnError: handler}).
				Edge(graph.Start, "sibling").Edge(graph.Start, "late")
			g, thread := compile(t, b, graph.Options{Saver: memory.New(memory.Options{})}), pregel.Thread("t")
			run, cancel := context.WithCancel(ctx)
			defer cancel()
			if tc.caller {
				go func() { <-begun; cancel() }()
			}
			if _, err := g.Invoke(run, thread, map[string]any{"steps": []string{}}); err == nil {
				t.Fatal("the run did not fail")
			}
			broken = false
			invoke(t, g, nil, thread)
			if runs.Load() != tc.runs || (handlers.Load() == 1) != tc.handled {
				t.Errorf("%d runs and %d calls of the handler", runs.Load(), handlers.Load())
			}
		})
	}
}
