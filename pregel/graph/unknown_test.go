package graph_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
)

// TestUnknownKeys: a key that a typed graph does not have is refused before anything is stored,
// wherever it comes from outside. Options.LangGraph ignores it.
func TestUnknownKeys(t *testing.T) {
	type state struct {
		Text string `json:"text"`
		Left int    `json:"left"`
	}
	compile := func(langGraph bool) *pregel.Graph {
		g, err := graph.For[state](graph.Computed("left", channel.RemainingSteps)).Node("n", func(_ context.Context, s *state) (graph.Update, error) {
			return graph.Write(&s.Text, s.Text+"!"), nil
		}).Edge(graph.Start, "n").Compile(graph.Options{Saver: memory.New(memory.Options{}), LangGraph: langGraph})
		if err != nil {
			t.Fatal(err)
		}
		return g.Untyped()
	}
	ctx, at := t.Context(), pregel.Thread("t")
	calls := map[string]func(g *pregel.Graph, values any) error{
		"input": func(g *pregel.Graph, values any) error {
			_, err := g.Invoke(ctx, at, values)
			return err
		},
		"command": func(g *pregel.Graph, values any) error {
			_, err := g.Invoke(ctx, at, pregel.Command{Update: values, Goto: "n"})
			return err
		},
		"update": func(g *pregel.Graph, values any) error {
			_, err := g.UpdateState(ctx, at, pregel.StateUpdate{Values: values, AsNode: "n"})
			return err
		},
		"input without a run": func(g *pregel.Graph, values any) error {
			_, err := g.UpdateState(ctx, at, pregel.StateUpdate{Values: values, AsNode: pregel.Input})
			return err
		},
		"second superstep": func(g *pregel.Graph, values any) error {
			_, err := g.BulkUpdateState(ctx, at, [][]pregel.StateUpdate{{{Values: map[string]any{"text": "x"}, AsNode: "n"}}, {{Values: values, AsNode: "n"}}})
			return err
		},
	}
	for name, call := range calls {
		for _, values := range []any{map[string]any{"text": "x", "txt": "y"}, pregel.Pairs{{Key: "txt", Value: "y"}}, struct{ Txt string }{"y"}} {
			g := compile(false)
			var refused *pregel.InvalidUpdateError
			if err := call(g, values); !errors.As(err, &refused) || !strings.Contains(strings.ToLower(err.Error()), `no key "txt"`) {
				t.Errorf("%s %v: %v", name, values, err)
			}
			if st, err := g.GetState(ctx, at); err != nil || st.Address.CheckpointID != "" {
				t.Errorf("%s %v: something is stored: %v, %v", name, values, st, err)
			}
		}
		for _, langGraph := range []bool{false, true} {
			values := map[string]any{"text": "x", "left": 7} // a computed key is no mistake
			if langGraph {
				values["txt"] = "y"
			}
			if err := call(compile(langGraph), values); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	// The updates of a copy are no values, and each of them is checked.
	g := compile(false)
	if _, err := g.Invoke(ctx, at, map[string]any{"text": "x"}); err != nil {
		t.Fatal(err)
	}
	before, err := g.GetState(ctx, at)
	if err != nil {
		t.Fatal(err)
	}
	bad := pregel.StateUpdate{Values: map[string]any{"txt": "y"}, AsNode: "n"}
	var refused *pregel.InvalidUpdateError
	if _, err := g.UpdateState(ctx, at, pregel.StateUpdate{Values: []pregel.StateUpdate{bad}, AsNode: pregel.Copy}); !errors.As(err, &refused) || !strings.Contains(err.Error(), `no key "txt"`) {
		t.Errorf("copy: %v", err)
	}
	if st, err := g.GetState(ctx, at); err != nil || st.Address.CheckpointID != before.Address.CheckpointID {
		t.Errorf("copy: something is stored: %v, %v", st, err)
	}
	bad.Values = map[string]any{"text": "y"}
	if _, err := g.UpdateState(ctx, at, pregel.StateUpdate{Values: []pregel.StateUpdate{bad}, AsNode: pregel.Copy}); err != nil {
		t.Errorf("copy: %v", err)
	}
	// A graph around has other keys.
	type wider struct {
		Text  string `json:"text"`
		Other string `json:"other"`
	}
	around, err := graph.For[wider]().Subgraph("in", compile(false)).Edge(graph.Start, "in").Compile(graph.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if res, err := around.Run(ctx, pregel.Address{}, wider{"x", "y"}); err != nil || res.State != (wider{"x!", "y"}) {
		t.Errorf("%v, %v", res, err)
	}
}

// TestUnknownStruct: a struct of which nothing would be taken is no input and no update of an untyped
// graph. One that sets a key, or nothing, and a map are.
func TestUnknownStruct(t *testing.T) {
	type state struct {
		Text string `stele:"text"`
		More int
	}
	type other struct{ Text string }
	for _, langGraph := range []bool{false, true} {
		b := graph.New(graph.Key("text", channel.LastValue[string]()))
		b.Node("n", func(context.Context, any) (any, error) { return nil, nil }).Edge(graph.Start, "n")
		g, err := b.Compile(graph.Options{Saver: memory.New(memory.Options{}), LangGraph: langGraph})
		if err != nil {
			t.Fatal(err)
		}
		at := pregel.Thread("t")
		for _, c := range []struct {
			input   any
			refused bool
		}{{state{Text: "x", More: 1}, false}, {&other{"x"}, true}, {other{"x"}, true}, {other{}, false}, {map[string]any{"Text": "x"}, false}} {
			if _, err := g.Invoke(t.Context(), at, c.input); errors.Is(err, pregel.ErrInvalidUpdate) != (c.refused && !langGraph) {
				t.Errorf("LangGraph %v: input %T: %v", langGraph, c.input, err)
			}
			if _, err := g.UpdateState(t.Context(), at, pregel.StateUpdate{Values: c.input, AsNode: "n"}); errors.Is(err, pregel.ErrInvalidUpdate) != (c.refused && !langGraph) {
				t.Errorf("LangGraph %v: update %T: %v", langGraph, c.input, err)
			}
		}
	}
}
