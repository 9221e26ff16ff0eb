package graph_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
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

// TestUnknownInput: a struct or a map of which nothing would be taken is no input and no update of an untyped
// graph. One that has a key of the state among others, or nothing, is.
func TestUnknownInput(t *testing.T) {
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
		for i, c := range []struct {
			input   any
			refused bool
		}{{state{Text: "x", More: 1}, false}, {&other{"x"}, true}, {other{"x"}, true}, {other{}, false}, {map[string]any{"Text": "x"}, true},
			{pregel.Pairs{{Key: "Text", Value: "x"}}, true}, {map[string]any{"Text": "x", "text": "y"}, false},
			{map[string]any{}, false}} {
			calls := map[string]func(at pregel.Address) error{
				"input": func(at pregel.Address) error { _, err := g.Invoke(t.Context(), at, c.input); return err },
				"command": func(at pregel.Address) error {
					_, err := g.Invoke(t.Context(), at, pregel.Command{Update: c.input, Goto: "n"})
					return err
				},
				"update": func(at pregel.Address) error {
					_, err := g.UpdateState(t.Context(), at, pregel.StateUpdate{Values: c.input, AsNode: "n"})
					return err
				},
			}
			for name, call := range calls {
				at := pregel.Thread(fmt.Sprint(name, i))
				err := call(at)
				if errors.Is(err, pregel.ErrInvalidUpdate) != (c.refused && !langGraph) {
					t.Errorf("LangGraph %v: %s %T %v: %v", langGraph, name, c.input, c.input, err)
				}
				if st, err2 := g.GetState(t.Context(), at); err2 != nil || err != nil && st.Address.CheckpointID != "" {
					t.Errorf("LangGraph %v: %s %T: something is stored: %v, %v", langGraph, name, c.input, st, err2)
				}
			}
		}
	}
}

// TestUnknownGoto: a Command from outside that goes, or sends a packet, to a node that the graph does not have is
// refused, on an empty thread, beside an answer and as an update, and nothing is stored. Options.LangGraph
// ignores it.
func TestUnknownGoto(t *testing.T) {
	ctx := t.Context()
	for _, langGraph := range []bool{false, true} {
		b := graph.New(graph.Key("text", channel.LastValue[string]()))
		b.Node("ask", func(ctx context.Context, _ any) (any, error) {
			answer, err := pregel.AskFor[string](ctx, "?")
			return map[string]any{"text": answer}, err
		}).Edge(graph.Start, "ask")
		g, err := b.Compile(graph.Options{Saver: memory.New(memory.Options{}), LangGraph: langGraph})
		if err != nil {
			t.Fatal(err)
		}
		invoke := func(at pregel.Address, cmd pregel.Command) error { _, err := g.Invoke(ctx, at, cmd); return err }
		for name, call := range map[string]func(at pregel.Address, cmd pregel.Command) error{
			"run":         invoke,
			"with answer": func(at pregel.Address, cmd pregel.Command) error { cmd.Resume = "yes"; return invoke(at, cmd) },
			"update": func(at pregel.Address, cmd pregel.Command) error {
				_, err := g.UpdateState(ctx, at, pregel.StateUpdate{Values: cmd, AsNode: "ask"})
				return err
			},
		} {
			for _, begun := range []bool{false, true} {
				if name == "with answer" && !begun {
					continue // nothing asks
				}
				for i, c := range []struct {
					to   any
					says string // what the error says; "" if there is none
				}{{"nope", `goes to "nope", which is no node`}, {[]any{"ask", "nope"}, `goes to "nope"`}, {pregel.Send{Node: "nope"}, `sends to "nope", which is no node`},
					{graph.End, ""}, {"ask", ""}, {pregel.Send{Node: "ask"}, ""}} {
					at := pregel.Thread(fmt.Sprint(name, begun, i))
					if begun {
						if _, err := g.Invoke(ctx, at, map[string]any{"text": "x"}); err != nil {
							t.Fatal(err)
						}
					}
					before, err := g.GetState(ctx, at)
					if err != nil {
						t.Fatal(err)
					}
					err = call(at, pregel.Command{Goto: c.to, Update: map[string]any{"text": "y"}})
					if c.says == "" || langGraph {
						if err != nil && strings.Contains(err.Error(), "no node") {
							t.Errorf("LangGraph %v: %s to %v: %v", langGraph, name, c.to, err)
						}
						continue
					}
					if !errors.Is(err, pregel.ErrInvalidUpdate) || !strings.Contains(err.Error(), c.says) {
						t.Errorf("%s to %v, begun %v: %v", name, c.to, begun, err)
					}
					after, err := g.GetState(ctx, at)
					if err != nil || after.Address.CheckpointID != before.Address.CheckpointID || !reflect.DeepEqual(after.Values, before.Values) || len(after.Interrupts) != len(before.Interrupts) {
						t.Errorf("%s to %v, begun %v: something is stored: %v, was %v, %v", name, c.to, begun, after, before, err)
					}
				}
			}
		}
	}
}

// TestNodesGoToNodes: a node that goes, or sends a packet, to a node that the graph does not have fails, also by the second
// of several Commands; with LangGraph's ways the graph ends there.
func TestNodesGoToNodes(t *testing.T) {
	for _, langGraph := range []bool{false, true} {
		for name, out := range map[string]any{
			"goto":     pregel.Command{Goto: "nope"},
			"gotos":    pregel.Command{Goto: []string{graph.End, "nope"}},
			"packet":   pregel.Command{Goto: pregel.Send{Node: "nope"}},
			"send":     &pregel.Send{Node: "nope"},
			"commands": []any{map[string]any{"text": "y"}, pregel.Command{Goto: "nope"}},
		} {
			b := graph.New(graph.Key("text", channel.LastValue[string]()))
			b.Node("a", func(context.Context, any) (any, error) { return out, nil }).Edge(graph.Start, "a")
			g, err := b.Compile(graph.Options{LangGraph: langGraph})
			if err != nil {
				t.Fatal(err)
			}
			_, err = g.Invoke(t.Context(), pregel.Address{}, map[string]any{"text": "x"})
			if langGraph && err != nil || !langGraph && (!errors.Is(err, pregel.ErrInvalidUpdate) || !strings.Contains(err.Error(), `"nope", which is no node`)) {
				t.Errorf("LangGraph %v, %s: %v", langGraph, name, err)
			}
		}
	}
}
