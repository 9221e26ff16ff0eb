package graph_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
)

// seen is the events of a run with the time at which each came.
func seen(t *testing.T, g *pregel.Graph, modes ...pregel.Mode) []string {
	t.Helper()
	var out []string
	begin := time.Now()
	for e, err := range g.Stream(ctx, pregel.Thread("t"), map[string]any{"steps": []string{}}, pregel.RunOptions{Subgraphs: true, Modes: modes}) {
		if err != nil {
			t.Fatal(err)
		}
		what := fmt.Sprint(e.Data)
		if u, ok := e.Data.(pregel.Update); ok {
			what = u.Node
		}
		for i, part := range e.NS {
			e.NS[i], _, _ = strings.Cut(part, ":")
		}
		out = append(out, fmt.Sprintf("%v %s%s", time.Since(begin), strings.Join(append(e.NS, ""), "/"), what))
	}
	return out
}

func after(wait time.Duration, word string) pregel.Func {
	return func(c context.Context, _ any) (any, error) {
		time.Sleep(wait)
		return map[string]any{"steps": []string{word}}, nil
	}
}

// What happens in a graph inside is shown as it happens, between what the tasks
// beside it do.
func TestSubgraphEventsAreLive(t *testing.T) { // STR-03
	synctest.Test(t, func(t *testing.T) {
		inner := graph.New(steps()).Node("inner_1", after(0, "i1")).Node("inner_2", after(500*time.Millisecond, "i2")).Sequence(graph.Start, "inner_1", "inner_2")
		b := graph.New(steps()).Subgraph("inner", compile(t, inner, graph.Options{})).Node("outer_1", after(200*time.Millisecond, "o1")).Node("outer_2", after(0, "o2"))
		b.Edge(graph.Start, "inner").Edge(graph.Start, "outer_1").Join([]string{"inner", "outer_1"}, "outer_2")
		got := seen(t, compile(t, b, graph.Options{Saver: memory.New(memory.Options{})}), pregel.ModeUpdates)
		want := []string{"0s inner/inner_1", "200ms outer_1", "500ms inner/inner_2", "500ms inner", "500ms outer_2"}
		if !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
	})
}

// What a node emits is shown before the node ends.
func TestEmittedAtOnce(t *testing.T) { // STR-11
	synctest.Test(t, func(t *testing.T) {
		b := graph.New(steps()).Node("node", func(c context.Context, _ any) (any, error) {
			before := pregel.Emit(c, "Before sleep")
			time.Sleep(200 * time.Millisecond)
			return map[string]any{"steps": []string{"done"}}, errors.Join(before, pregel.Emit(c, "After sleep"))
		}).Edge(graph.Start, "node")
		got := seen(t, compile(t, b, graph.Options{}), pregel.ModeCustom)
		if want := []string{"0s Before sleep", "200ms After sleep"}; !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
	})
}
