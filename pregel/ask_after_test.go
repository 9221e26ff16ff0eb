package pregel_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/store"
)

// TestAskAfter: a question, a sleep and a signal wait for what comes before them, and no longer than their context.
func TestAskAfter(t *testing.T) {
	for name, wait := range map[string]func(ctx context.Context) error{
		"a question": func(ctx context.Context) error { _, err := pregel.Ask(ctx, "x"); return err },
		"a sleep":    func(ctx context.Context) error { return pregel.Sleep(ctx, time.Hour) },
		"a signal":   func(ctx context.Context) error { _, err := pregel.NewSignal[int]("x").Receive(ctx); return err },
	} {
		g := fan(t, pregel.Options{Saver: memory.New(memory.Options{}), Store: must(store.NewMemory(store.Options{}))}, node("a", func(ctx context.Context, _ any) (any, error) {
			first := make(chan struct{})
			cancelled, cancel := context.WithCancel(ctx)
			cancel()
			if err := wait(pregel.AskAfter(cancelled, []chan struct{}{first})); !errors.Is(err, context.Canceled) {
				t.Errorf("%s whose turn never comes: %v", name, err)
			}
			close(first)
			var asked *pregel.InterruptError
			if err := wait(pregel.AskAfter(ctx, []chan struct{}{first})); !errors.As(err, &asked) {
				t.Errorf("%s whose turn has come: %v", name, err)
			}
			return nil, nil
		}))
		if _, err := g.Invoke(t.Context(), pregel.Thread("t"), map[string]any{"n": 1}); err != nil {
			t.Fatal(err)
		}
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
