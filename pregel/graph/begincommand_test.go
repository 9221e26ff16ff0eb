package graph_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
)

// TestCommandBeginsAThread: a Command on an empty thread updates the state, and runs the nodes that it names beside
// the first ones. server/parity has the recordings of LangGraph's answers, which apply the update twice.
func TestCommandBeginsAThread(t *testing.T) {
	b := graph.New(steps()).Node("a", appends("a")).Node("b", appends("b"))
	b.Node("c", func(_ context.Context, in any) (any, error) {
		return map[string]any{"steps": []string{fmt.Sprint("c of ", in)}}, nil
	})
	b.Sequence(graph.Start, "a", "b")
	update := map[string]any{"steps": []string{"in"}}
	packet := pregel.Send{Node: "c", Arg: "p"}
	for i, test := range []struct {
		in        any
		want      []string
		langGraph []string // nil where it is the same
	}{
		{pregel.Command{Goto: "b"}, []string{"a", "b", "b"}, nil},
		{&pregel.Command{Goto: "b"}, []string{"a", "b", "b"}, nil},
		{pregel.Command{Goto: []any{"b", packet}}, []string{"a", "b", "c of p", "b"}, nil},
		{pregel.Command{Goto: packet, Update: update}, []string{"in", "a", "c of p", "b"}, []string{"in", "in", "a", "c of p", "b"}},
		{pregel.Command{Update: update}, []string{"in", "a", "b"}, []string{"in", "in", "a", "b"}},
	} {
		for _, langGraph := range []bool{false, true} {
			for _, d := range durabilities {
				g := compile(t, b, graph.Options{Saver: memory.New(memory.Options{}), LangGraph: langGraph, RoundTrip: true})
				want := test.want
				if langGraph && test.langGraph != nil {
					want = test.langGraph
				}
				res := invoke(t, g, test.in, pregel.Thread("t"), pregel.RunOptions{Durability: d})
				wantSteps(t, res, want...)
				st, err := g.GetState(ctx, pregel.Thread("t"))
				if err != nil {
					t.Fatal(err)
				}
				if got := fmt.Sprint(st.Values); got != fmt.Sprint(map[string]any{"steps": want}) || len(st.Next) > 0 {
					t.Errorf("%d, %v: %s, next %v", i, d, got, st.Next)
				}
			}
		}
		wantSteps(t, invoke(t, compile(t, b, graph.Options{}), test.in, pregel.Address{}), test.want...)
	}
}

// TestUpdateByCommand: the values of an update are what a node may return, a Command too.
func TestUpdateByCommand(t *testing.T) {
	b := graph.New(steps()).Node("a", appends("a")).Node("b", appends("b")).Node("c", appends("c"))
	b.Sequence(graph.Start, "a", "b")
	for _, langGraph := range []bool{false, true} {
		g := compile(t, b, graph.Options{Saver: memory.New(memory.Options{}), LangGraph: langGraph})
		values := pregel.Command{Update: map[string]any{"steps": []string{"u"}}, Goto: "c"}
		if _, err := g.UpdateState(ctx, pregel.Thread("t"), pregel.StateUpdate{Values: values, AsNode: "a"}); err != nil {
			t.Fatal(err)
		}
		st, err := g.GetState(ctx, pregel.Thread("t"))
		if err != nil || !slices.Equal(st.Next, []string{"b", "c"}) {
			t.Errorf("next %v, %v", st.Next, err)
		}
		wantSteps(t, invoke(t, g, nil, pregel.Thread("t")), "u", "b", "c")
	}
}
