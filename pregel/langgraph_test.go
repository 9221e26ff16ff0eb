package pregel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
)

// With LangGraph's ways an answer on a thread that has ended returns its state, one on a thread that has not
// begun begins it, a map as the values of a copy is ignored, and what is queued behind a task that fails
// still runs and is stored. Without them the answer and the copy are refused, and what is queued does not run.
func TestLangGraphsWays(t *testing.T) {
	for _, langGraph := range []bool{true, false} {
		s := memory.New(memory.Options{})
		g := compiled(t, graph.New(steps()).Node("a", step("a")).Edge(graph.Start, "a"), graph.Options{Saver: s, LangGraph: langGraph})
		at := pregel.Thread("t")
		if _, err := g.Invoke(ctx, at, m{"steps": []string{"in"}}); err != nil {
			t.Fatal(err)
		}
		res, err := g.Invoke(ctx, at, pregel.Command{Resume: "yes"})
		if langGraph && (err != nil || fmt.Sprint(res.Map()["steps"]) != "[in a]") || !langGraph && !errors.Is(err, pregel.ErrNoInterrupt) {
			t.Errorf("an answer: %+v, %v", res, err)
		}
		_, err = g.UpdateState(ctx, at, pregel.StateUpdate{Values: m{"steps": []string{"x"}}, AsNode: pregel.Copy})
		if langGraph && err != nil || !langGraph && !errors.Is(err, pregel.ErrInvalidUpdate) {
			t.Errorf("a copy with a map: %v", err)
		}
		state, err := g.GetState(ctx, at)
		if err != nil || fmt.Sprint(state.Map()["steps"]) != "[in a]" {
			t.Errorf("after it: %+v, %v", state, err)
		}

		res, err = g.Invoke(ctx, pregel.Thread("none"), pregel.Command{Resume: "yes"})
		if langGraph && (err != nil || fmt.Sprint(res.Map()["steps"]) != "[a]") || !langGraph && !errors.Is(err, pregel.ErrNoInterrupt) {
			t.Errorf("an answer on a thread that has not begun: %+v, %v", res, err)
		}

		var ran []string // one at a time
		b := graph.New(steps())
		for _, name := range []string{"a", "b", "c", "d"} {
			b.Node(name, func(ctx context.Context, _ any) (any, error) {
				ran = append(ran, name)
				if name == "b" {
					return nil, errDead
				}
				return m{"steps": []string{name}}, ctx.Err()
			}).Edge(graph.Start, name)
		}
		g = compiled(t, b, graph.Options{Saver: s, LangGraph: langGraph})
		_, err = g.Invoke(ctx, pregel.Thread("u"), m{"steps": []string{"in"}}, pregel.RunOptions{MaxConcurrency: 1})
		want := map[bool][]string{true: {"a", "b", "c", "d"}, false: {"a", "b"}}[langGraph]
		if !errors.Is(err, errDead) || !slices.Equal(ran, want) {
			t.Errorf("ran %q, %v", ran, err)
		}
		if state, err = g.GetState(ctx, pregel.Thread("u")); err != nil || len(state.Map()["steps"].([]string)) != len(want) {
			t.Errorf("stored: %+v, %v", state, err)
		}
	}
}

// With LangGraph's ways, too, a failure ends tasks beside it that wait for the end of their context. What
// is queued behind it runs before.
func TestFailureBesideATaskThatWaits(t *testing.T) {
	for _, langGraph := range []bool{true, false} {
		for _, slots := range []int{2, 3} { // one task is queued, or none
			b := graph.New(steps()).Node("a", func(context.Context, any) (any, error) { return nil, errDead }).
				Node("b", func(ctx context.Context, _ any) (any, error) { <-ctx.Done(); return nil, ctx.Err() }).
				Node("c", step("c")).Edge(graph.Start, "a").Edge(graph.Start, "b").Edge(graph.Start, "c")
			g := compiled(t, b, graph.Options{Saver: memory.New(memory.Options{}), LangGraph: langGraph})
			_, err := g.Invoke(ctx, pregel.Thread("t"), m{"steps": []string{"in"}}, pregel.RunOptions{MaxConcurrency: slots})
			if !errors.Is(err, errDead) {
				t.Error(err)
			}
		}
	}
}

// Nor does a run hang in which all tasks that run wait for the end of their context, and others are queued.
func TestFailureBesideTasksThatAllWait(t *testing.T) {
	for _, langGraph := range []bool{true, false} {
		waits := func(ctx context.Context, _ any) (any, error) { <-ctx.Done(); return nil, ctx.Err() }
		b := graph.New(steps()).Node("a", func(context.Context, any) (any, error) { return nil, errDead }).Edge(graph.Start, "a")
		for _, name := range []string{"b", "c", "d"} {
			b.Node(name, waits).Edge(graph.Start, name)
		}
		g := compiled(t, b, graph.Options{Saver: memory.New(memory.Options{}), LangGraph: langGraph,
			Env: pregel.Environment{DrainTimeout: time.Millisecond}})
		out := make(chan error, 1)
		go func() {
			_, err := g.Invoke(ctx, pregel.Thread("t"), m{"steps": []string{"in"}}, pregel.RunOptions{MaxConcurrency: 2})
			out <- err
		}()
		select {
		case err := <-out:
			if !errors.Is(err, errDead) {
				t.Error(err)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("the run has not ended")
		}
	}
}

// With LangGraph's ways a task that waits for its call when another one fails ends as well, and is stored.
func TestFailureBesideATaskThatCalls(t *testing.T) {
	twice := pregel.NewTask("twice", func(_ context.Context, s string) (string, error) { return s + s, nil })
	for _, langGraph := range []bool{true, false} {
		b := graph.New(steps()).Node("a", func(ctx context.Context, _ any) (any, error) {
			s, err := twice.Call(ctx, "a")
			if err == nil {
				s, err = twice.Call(ctx, s)
			}
			return m{"steps": []string{s}}, err
		}).Node("b", func(context.Context, any) (any, error) { return nil, errDead }).Edge(graph.Start, "a").Edge(graph.Start, "b")
		g := compiled(t, b, graph.Options{Saver: memory.New(memory.Options{}), LangGraph: langGraph})
		_, err := g.Invoke(ctx, pregel.Thread("t"), m{"steps": []string{"in"}}, pregel.RunOptions{MaxConcurrency: 1})
		if !errors.Is(err, errDead) {
			t.Error(err)
		}
		state, err := g.GetState(ctx, pregel.Thread("t"))
		if want := map[bool]string{true: "[in aaaa]", false: "[in]"}[langGraph]; err != nil || fmt.Sprint(state.Map()["steps"]) != want {
			t.Errorf("stored: %+v, %v", state, err)
		}
	}
}
