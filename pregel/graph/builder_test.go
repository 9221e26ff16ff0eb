package graph

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stele-go/stele/pregel"
)

// TestManyNodes: nodes are found by name and edges by their ends, both in maps beside the lists: a list alone is searched once
// for each node and edge. The lists keep their order, and of nodes of one name the first is found.
func TestManyNodes(t *testing.T) {
	run := func(context.Context, any) (any, error) { return nil, nil }
	b, last := New(Key("x", nil)), Start
	var names []string
	for i := range 500 {
		name := fmt.Sprint("n", 499-i)
		b.Node(name, run).Edge(last, name).Edge(last, name)
		names, last = append(names, name), name
	}
	b.Node("__error_handler__h", run).Node("h", run, NodeOptions{OnError: run})
	if b.err != nil {
		t.Fatal(b.err)
	}
	var order []string
	for _, n := range b.nodes {
		order = append(order, n.name)
	}
	if !slices.Equal(order, append(names, "__error_handler__h", "h", "__error_handler__h")) || len(b.edges) != 500 {
		t.Errorf("%d edges, and the nodes %q", len(b.edges), order)
	}
	if len(b.named) != 502 || len(b.drawn) != 500 || b.find("__error_handler__h") != b.nodes[500] || b.find("x") != nil {
		t.Errorf("%d names, %d edges", len(b.named), len(b.drawn))
	}
}

// TestGraphKeepsItsNodes: a graph reads the nodes of its builder while it runs. Those that the builder gets later are not in it.
func TestGraphKeepsItsNodes(t *testing.T) {
	run := func(context.Context, any) (any, error) { return nil, nil }
	b := New(Key("x", nil))
	g, err := b.Node("a", func(context.Context, any) (any, error) { return pregel.Command{Goto: "late"}, nil }).Edge(Start, "a").Compile(Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, before := g.Invoke(t.Context(), pregel.Address{}, map[string]any{"x": 1})
	b.Node("late", run)
	_, after := g.Invoke(t.Context(), pregel.Address{}, map[string]any{"x": 1})
	for _, err := range []error{before, after} {
		if refused := new(pregel.InvalidUpdateError); !errors.As(err, &refused) {
			t.Errorf("a node that is not in the graph: %v", err)
		}
	}
}
