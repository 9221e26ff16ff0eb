package graph_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ctx = context.Background()

// appends is a node that adds words to the key "steps".
func appends(words ...string) pregel.Func {
	return func(context.Context, any) (any, error) { return map[string]any{"steps": words}, nil }
}

func steps() graph.Field { return graph.Key("steps", channel.Reduce(channel.Append[string])) }

func compile(t *testing.T, b *graph.Builder, o graph.Options) *pregel.Graph {
	t.Helper()
	g, err := b.Compile(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func invoke(t *testing.T, g *pregel.Graph, input any, at pregel.Address, opts ...pregel.RunOptions) *pregel.Result {
	t.Helper()
	res, err := g.Invoke(ctx, at, input, opts...)
	if err != nil {
		t.Fatalf("invoke: %v", err)
	}
	return res
}

func wantSteps(t *testing.T, res *pregel.Result, want ...string) {
	t.Helper()
	got, _ := res.Map()["steps"].([]string)
	if !slices.Equal(got, want) {
		t.Errorf("steps = %q, want %q", got, want)
	}
}

func history(t *testing.T, g *pregel.Graph, at pregel.Address) []*pregel.StateSnapshot {
	t.Helper()
	var out []*pregel.StateSnapshot
	for s, err := range g.GetStateHistory(ctx, at, pregel.HistoryQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	return out
}

var durabilities = []pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit}

func TestLine(t *testing.T) {
	for _, d := range durabilities {
		b := graph.New(steps()).Node("a", appends("a")).Node("b", appends("b"))
		b.Sequence(graph.Start, "a", "b", graph.End)
		g := compile(t, b, graph.Options{Saver: memory.New(memory.Options{})})
		at, cfg := pregel.Thread("t"), pregel.RunOptions{Durability: d}
		wantSteps(t, invoke(t, g, map[string]any{"steps": []string{"in"}}, at, cfg), "in", "a", "b")
		wantSteps(t, invoke(t, g, map[string]any{"steps": []string{"again"}}, at, cfg), "in", "a", "b", "again", "a", "b")
		want := 8
		if d == pregel.Exit {
			want = 2
		}
		if n := len(history(t, g, at)); n != want {
			t.Errorf("%s: %d checkpoints, want %d", d, n, want)
		}
	}
}

func TestAskAndResume(t *testing.T) {
	for _, d := range durabilities {
		runs := 0
		ask := func(ctx context.Context, _ any) (any, error) {
			runs++
			one, err := pregel.Ask(ctx, "first?")
			if err != nil {
				return nil, err
			}
			two, err := pregel.Ask(ctx, "second?")
			if err != nil {
				return nil, err
			}
			return map[string]any{"steps": []string{fmt.Sprint(one, two)}}, nil
		}
		b := graph.New(steps()).Node("ask", ask)
		b.Sequence(graph.Start, "ask", graph.End)
		g := compile(t, b, graph.Options{Saver: memory.New(memory.Options{})})
		at, cfg := pregel.Thread("t"), pregel.RunOptions{Durability: d}
		res := invoke(t, g, map[string]any{"steps": []string{"in"}}, at, cfg)
		if len(res.Interrupts) != 1 || res.Interrupts[0].Value != "first?" {
			t.Fatalf("%s: interrupts %v", d, res.Interrupts)
		}
		state, err := g.GetState(ctx, at)
		if err != nil || len(state.Interrupts) != 1 || !slices.Equal(state.Next, []string{"ask"}) {
			t.Fatalf("%s: state %+v, %v", d, state, err)
		}
		res = invoke(t, g, pregel.Command{Resume: "A"}, at, cfg)
		if len(res.Interrupts) != 1 || res.Interrupts[0].Value != "second?" {
			t.Fatalf("%s: interrupts %v", d, res.Interrupts)
		}
		// The first answer must not leak into the second question.
		if res = invoke(t, g, nil, at, cfg); len(res.Interrupts) != 1 {
			t.Fatalf("%s: an old answer was used again: %v", d, res)
		}
		res = invoke(t, g, pregel.Command{Resume: map[string]any{res.Interrupts[0].ID: "B"}}, at, cfg)
		wantSteps(t, res, "in", "AB")
		if runs != 4 {
			t.Errorf("%s: the node ran %d times, want 4", d, runs)
		}
		if _, err := g.Invoke(ctx, at, pregel.Command{Resume: "C"}, cfg); !errors.Is(err, pregel.ErrNoInterrupt) {
			t.Errorf("%s: resuming a finished thread: %v", d, err)
		}
	}
}

func TestSendOrder(t *testing.T) {
	work := func(_ context.Context, in any) (any, error) {
		return map[string]any{"steps": []string{fmt.Sprint("w", in)}}, nil
	}
	b := graph.New(steps()).Node("plan", appends("plan")).Node("work", work).Node("end", appends("end"))
	b.Edge(graph.Start, "plan").Edge("work", "end")
	b.Conditional("plan", "fan", func(context.Context, any) (any, error) {
		var out []pregel.Send
		for i := range 50 {
			out = append(out, pregel.Send{Node: "work", Arg: i})
		}
		return out, nil
	}, "work")
	g := compile(t, b, graph.Options{})
	want := []string{"plan"}
	for i := range 50 {
		want = append(want, fmt.Sprint("w", i))
	}
	for _, limit := range []int{0, 3} {
		res := invoke(t, g, map[string]any{"steps": []string{}}, pregel.Address{}, pregel.RunOptions{MaxConcurrency: limit})
		wantSteps(t, res, append(slices.Clone(want), "end")...)
	}
}

func TestSubgraphInterrupt(t *testing.T) {
	for _, d := range durabilities {
		inner := graph.New(steps()).Node("first", appends("first")).Node("ask", func(ctx context.Context, _ any) (any, error) {
			v, err := pregel.Ask(ctx, "?")
			if err != nil {
				return nil, err
			}
			return map[string]any{"steps": []string{fmt.Sprint(v)}}, nil
		})
		inner.Sequence(graph.Start, "first", "ask", graph.End)
		sub := compile(t, inner, graph.Options{Name: "inner"})
		outer := graph.New(steps()).Node("before", appends("before")).Subgraph("sub", sub)
		outer.Sequence(graph.Start, "before", "sub", graph.End)
		g := compile(t, outer, graph.Options{Saver: memory.New(memory.Options{})})
		at, cfg := pregel.Thread("t"), pregel.RunOptions{Durability: d}
		res := invoke(t, g, map[string]any{"steps": []string{}}, at, cfg)
		if len(res.Interrupts) != 1 {
			t.Fatalf("%s: %+v", d, res)
		}
		st, err := g.GetState(ctx, at, pregel.StateOptions{Subgraphs: true})
		if err != nil || len(st.Tasks) != 1 || st.Tasks[0].State == nil || !slices.Equal(st.Tasks[0].State.Next, []string{"ask"}) {
			t.Fatalf("%s: nested state %+v %v", d, st, err)
		}
		res = invoke(t, g, pregel.Command{Resume: "yes"}, at, cfg)
		wantSteps(t, res, "before", "before", "first", "yes")
	}
}
