package pregel_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// oneNode is a graph with a node that runs body.
func oneNode(t *testing.T, name, node string, s saver.Saver, body pregel.Func) *pregel.Graph {
	t.Helper()
	g, err := graph.New(graph.Key("log", channel.LastValue[string]())).Node(node, body).Sequence(graph.Start, node, graph.End).Compile(graph.Options{Name: name, Saver: s})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestGraphsInsideABodyChanged: a body that runs other graphs than before, or in another order, is refused before any
// of them runs, also if it does not care, and the former body goes on with one effect a graph; with LangGraph's ways it
// is not looked at.
func TestGraphsInsideABodyChanged(t *testing.T) {
	for name, order := range map[string][]string{
		"one more in front": {"tax", "charge", "mail"}, "one more between": {"charge", "tax", "mail"}, "swapped": {"mail", "charge"}, "one less": {"mail"},
	} {
		for _, langGraph := range []bool{false, true} {
			s, err := disk.Open(t.TempDir(), disk.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			ran := map[string]int{}
			flow := func(order ...string) *pregel.Graph {
				g, err := pregel.Entrypoint("flow", func(ctx context.Context, _ int) (string, error) {
					for _, x := range order {
						inside := oneNode(t, x, "do", nil, func(context.Context, any) (any, error) {
							ran[x]++
							return map[string]any{"log": x}, nil
						})
						res, err := inside.Invoke(ctx, pregel.Inside(), map[string]any{"log": ""})
						if err != nil {
							continue
						}
						if got := res.Value.(map[string]any)["log"]; got != x && !langGraph {
							t.Errorf("%s: %s returned what %v did", name, x, got)
						}
					}
					_, err := pregel.Ask(ctx, "go on?")
					return "done", err
				}, pregel.EntrypointOptions{Options: pregel.Options{Name: "flow", Saver: s, LangGraph: langGraph}})
				if err != nil {
					t.Fatal(err)
				}
				return g
			}
			if _, err := flow("charge", "mail").Invoke(ctx, pregel.Thread("t"), 1); err != nil {
				t.Fatal(err)
			}
			_, err = flow(order...).Invoke(ctx, pregel.Thread("t"), pregel.Command{Resume: "yes"})
			if langGraph {
				if errors.Is(err, pregel.ErrCallMismatch) {
					t.Errorf("%s, LangGraph: %v", name, err)
				}
				continue
			}
			var e *pregel.CallMismatchError
			if !errors.As(err, &e) || !e.Graph || ran["tax"] > 0 || ran["charge"] != 1 || ran["mail"] != 1 {
				t.Errorf("%s: %v, ran %v", name, err, ran)
			}
			if res, err := flow("charge", "mail").Invoke(ctx, pregel.Thread("t"), pregel.Command{Resume: "yes"}); err != nil || res.Value != "done" || ran["charge"]+ran["mail"] != 2 {
				t.Errorf("%s: the former body: %+v, %v, ran %v", name, res, err, ran)
			}
		}
	}
}

// TestNodeBecomesAGraph: a node whose body made calls, and that is a graph now, does not make them again: it is refused, and
// the former program goes on. A body that handles a failed call by a graph inside, and has not changed, goes on.
func TestNodeBecomesAGraph(t *testing.T) {
	for _, d := range allDurabilities {
		s, err := disk.Open(t.TempDir(), disk.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		keys, run := map[string]int{}, pregel.RunOptions{Durability: d}
		pay := pregel.NewTask("pay", func(ctx context.Context, _ int) (int, error) {
			k, err := pregel.IdempotencyKey(ctx, "pay")
			keys[k]++
			return 1, err
		})
		body := func(ctx context.Context, _ any) (any, error) {
			if _, err := pay.Call(ctx, 1); err != nil {
				return nil, err
			}
			a, err := pregel.Ask(ctx, "go on?")
			return map[string]any{"log": fmt.Sprint(a)}, err
		}
		plain := oneNode(t, "g", "order", s, body)
		nested, err := graph.New(graph.Key("log", channel.LastValue[string]())).Subgraph("order", oneNode(t, "inside", "do", nil, body)).
			Sequence(graph.Start, "order", graph.End).Compile(graph.Options{Name: "g", Saver: s})
		if err != nil {
			t.Fatal(err)
		}
		at, yes := pregel.Thread("t"), pregel.Command{Resume: "yes"}
		if _, err := plain.Invoke(ctx, at, map[string]any{"log": "x"}, run); err != nil {
			t.Fatal(err)
		}
		if r, err := nested.Preflight(ctx, s, saver.ThreadQuery{}); err != nil || len(r.Broken) != 1 {
			t.Errorf("%v: %v, %v", d, r, err)
		}
		if _, err := nested.Invoke(ctx, at, yes, run); !errors.Is(err, pregel.ErrCallMismatch) || len(keys) != 1 {
			t.Errorf("%v: %v, paid under %d keys", d, err, len(keys))
		}
		if res, err := plain.Invoke(ctx, at, yes, run); err != nil || len(keys) != 1 || fmt.Sprint(res.Value) != "map[log:yes]" {
			t.Errorf("%v: the former program: %+v, %v, paid under %d keys", d, res, err, len(keys))
		}

		quick := pregel.NewTask("quick", func(context.Context, int) (int, error) { return 0, errBoom })
		helper := oneNode(t, "helper", "do", nil, func(ctx context.Context, _ any) (any, error) {
			a, err := pregel.Ask(ctx, "and you?")
			return map[string]any{"log": fmt.Sprint(a)}, err
		})
		handles := oneNode(t, "g", "order", s, func(ctx context.Context, _ any) (any, error) {
			if _, err := quick.Call(ctx, 1); err == nil {
				return nil, err
			}
			res, err := helper.Invoke(ctx, pregel.Inside(), map[string]any{"log": ""})
			if err != nil {
				return nil, err
			}
			return res.Value, nil
		})
		at = pregel.Thread("handles")
		if _, err := handles.Invoke(ctx, at, map[string]any{"log": "x"}, run); err != nil {
			t.Fatal(err)
		}
		if res, err := handles.Invoke(ctx, at, yes, run); err != nil || fmt.Sprint(res.Value) != "map[log:yes]" {
			t.Errorf("%v: %+v, %v", d, res, err)
		}
	}
}
