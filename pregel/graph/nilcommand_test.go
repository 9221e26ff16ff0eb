package graph_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
)

var (
	noCommand *pregel.Command
	noSend    *pregel.Send
)

// TestNilCommand: a nil pointer to a Command or a Send says nothing, as nil does.
func TestNilCommand(t *testing.T) {
	steps := channel.Reduce(channel.Append[string])
	for _, root := range []bool{false, true} {
		for name, out := range map[string]any{
			"command": noCommand, "send": noSend, "list": []any{noCommand, pregel.Command{}}, "nothing but a list": []any{noCommand},
		} {
			b := graph.New(graph.Key("steps", steps))
			input := any(map[string]any{"steps": []string{"in"}})
			if root {
				if _, isList := out.([]any); isList {
					continue // the value of the state
				}
				b, input = graph.New(graph.Root(steps)), []string{"in"}
			}
			b.Node("a", func(context.Context, any) (any, error) { return out, nil })
			b.Sequence(graph.Start, "a")
			g := compile(t, b, graph.Options{Saver: memory.New(memory.Options{}), RoundTrip: true})
			res, err := g.Invoke(ctx, pregel.Thread("t"), input, pregel.RunOptions{Modes: []pregel.Mode{pregel.ModeMessages, pregel.ModeUpdates}})
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if !root {
				wantSteps(t, res, "in")
			}
		}
	}
}

// TestNilDestination: where to go is not nil.
func TestNilDestination(t *testing.T) {
	for name, out := range map[string]any{
		"goto": pregel.Command{Goto: noSend}, "goto, in a list": pregel.Command{Goto: []any{"b", noSend}},
	} {
		b := graph.New(graph.Key("steps", channel.Reduce(channel.Append[string])))
		b.Node("a", func(context.Context, any) (any, error) { return out, nil }).Node("b", func(context.Context, any) (any, error) { return nil, nil })
		b.Edge(graph.Start, "a")
		var e *pregel.InvalidUpdateError
		if _, err := compile(t, b, graph.Options{}).Invoke(ctx, pregel.Address{}, map[string]any{"steps": []string{}}); !errors.As(err, &e) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, to := range map[string]any{"one": noSend, "in a list": []any{"b", noSend}, "nil": nil} {
		b := graph.New(graph.Key("steps", channel.Reduce(channel.Append[string])))
		b.Node("b", func(context.Context, any) (any, error) { return nil, nil })
		b.Conditional(graph.Start, "to", func(context.Context, any) (any, error) { return to, nil }, "b")
		var e *pregel.InvalidUpdateError
		if _, err := compile(t, b, graph.Options{}).Invoke(ctx, pregel.Address{}, map[string]any{"steps": []string{}}); !errors.As(err, &e) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNilCommandAsInput: it is no input.
func TestNilCommandAsInput(t *testing.T) {
	b := graph.New(graph.Key("steps", channel.Reduce(channel.Append[string])))
	b.Node("a", func(context.Context, any) (any, error) { return nil, nil })
	b.Sequence(graph.Start, "a")
	g := compile(t, b, graph.Options{Saver: memory.New(memory.Options{})})
	if _, err := g.Invoke(ctx, pregel.Thread("t"), noCommand); !errors.Is(err, pregel.ErrEmptyInput) {
		t.Errorf("%v", err)
	}
}
