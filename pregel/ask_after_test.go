package pregel_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver/memory"
)

// TestAskAfter: a question waits for what comes before it, and no longer than its context.
func TestAskAfter(t *testing.T) {
	g := fan(t, pregel.Options{Saver: memory.New(memory.Options{})}, node("a", func(ctx context.Context, _ any) (any, error) {
		first := make(chan struct{})
		cancelled, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := pregel.Ask(pregel.AskAfter(cancelled, []chan struct{}{first}), "x"); !errors.Is(err, context.Canceled) {
			t.Errorf("a question whose turn never comes: %v", err)
		}
		close(first)
		var asked *pregel.InterruptError
		if _, err := pregel.Ask(pregel.AskAfter(ctx, []chan struct{}{first}), "x"); !errors.As(err, &asked) {
			t.Errorf("a question whose turn has come: %v", err)
		}
		return nil, nil
	}))
	if _, err := g.Invoke(context.Background(), pregel.Thread("t"), map[string]any{"n": 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := pregel.ReadState(context.Background()); !errors.Is(err, pregel.ErrOutsideTask) {
		t.Errorf("the state outside of a task: %v", err)
	}
}

// TestAskWithoutASaver: a question that nobody could answer is an error, at any depth; LangGraph asks it all the same.
func TestAskWithoutASaver(t *testing.T) {
	asks := func(ctx context.Context, _ any) (any, error) { return pregel.AskFor[string](ctx, "x") }
	ask := func(o pregel.Options) *pregel.Graph { return fan(t, o, node("a", asks)) }
	for _, langGraph := range []bool{false, true} {
		flat := ask(pregel.Options{LangGraph: langGraph})
		around := fan(t, pregel.Options{LangGraph: langGraph}, node("b", func(ctx context.Context, in any) (any, error) {
			r, err := ask(pregel.Options{Saver: memory.New(memory.Options{})}).Invoke(ctx, pregel.Inside(), in)
			if err != nil {
				return nil, err
			}
			return r.Value, nil
		}))
		for name, g := range map[string]*pregel.Graph{"flat": flat, "inside": around} {
			r, err := g.Invoke(t.Context(), pregel.Address{}, 1)
			if langGraph && (err != nil || len(r.Interrupts) != 1) || !langGraph && !errors.Is(err, pregel.ErrNoSaver) {
				t.Errorf("%s, LangGraph %v: %v, %v", name, langGraph, r, err)
			}
		}
	}
}

// TestReadStateOfANode: a task reads the keys that its node reads, as the node gets them, and what the graph streams
// if the node reads none.
func TestReadStateOfANode(t *testing.T) {
	got := map[string]any{}
	read := func(name string) pregel.Func {
		return func(ctx context.Context, _ any) (any, error) {
			v, err := pregel.ReadState(ctx)
			got[name] = v
			return nil, err
		}
	}
	mapped := pregel.NewNode("mapped").SubscribeTo("in").Do(read("mapped"))
	nodes := []*pregel.NodeBuilder{pregel.NewNode("none").TriggerOn("in").Do(read("none")), pregel.NewNode("one").SubscribeOnly("in").Do(read("one")), mapped}
	spec := pregel.Spec{Channels: map[string]channel.Channel{"in": channel.LastValue[int]()}, Input: pregel.One("in"), Stream: pregel.One("in")}
	for _, b := range nodes {
		n := must(b.Build())
		if n.Name == "mapped" {
			n.Mapper = func(in any) (any, error) { return fmt.Sprint(in), nil }
		}
		spec.Nodes = append(spec.Nodes, n)
	}
	g := must(pregel.New(spec, pregel.Options{}))
	must(g.Invoke(t.Context(), pregel.Address{}, 7, pregel.RunOptions{MaxConcurrency: 1}))
	if want := fmt.Sprint(map[string]any{"mapped": "map[in:7]", "none": 7, "one": 7}); fmt.Sprint(got) != want {
		t.Errorf("%v, want %v", got, want)
	}
}
