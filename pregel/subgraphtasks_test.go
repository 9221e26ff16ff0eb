package pregel_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
)

// TestSubgraphTasks: with SubgraphTasks a stream shows the tasks of graphs inside, and of their other events none. A graph
// between that streams by itself shows what it is asked for, and takes nothing from the stream around it.
func TestSubgraphTasks(t *testing.T) {
	shown := func(e pregel.Event) string {
		what := string(e.Mode)
		switch x := e.Data.(type) {
		case pregel.TaskEvent:
			what = "begin " + x.Name
		case pregel.TaskResult:
			what = "end " + x.Name
		}
		return fmt.Sprint(len(e.NS), " ", what)
	}
	modes := []pregel.Mode{pregel.ModeTasks, pregel.ModeCustom, pregel.ModeMessages, pregel.ModeUpdates, pregel.ModeValues, pregel.ModeTools}
	leaf := compiled(t, graph.New(stepsField()).Node("leaf", func(ctx context.Context, _ any) (any, error) {
		for _, err := range []error{pregel.Emit(ctx, "leaf"), pregel.EmitMessage(ctx, "leaf"), pregel.EmitTool(ctx, pregel.ToolEvent{Step: pregel.ToolStarted})} {
			if err != nil {
				return nil, err
			}
		}
		return m{"steps": []string{"leaf"}}, nil
	}).Edge(graph.Start, "leaf"), graph.Options{})
	inside := []string{"1 begin middle", "2 begin leaf", "2 end leaf", "1 end middle"}
	own := []string{"0 values", "0 begin root", "0 custom", "0 updates", "0 end root", "0 values"}
	for name, c := range map[string]struct {
		middle, root pregel.RunOptions
		fromMiddle   []string // what the stream of the graph between shows
		fromRoot     []string
	}{
		"nothing":           {pregel.RunOptions{}, pregel.RunOptions{Modes: modes}, nil, own},
		"tasks":             {pregel.RunOptions{}, pregel.RunOptions{Modes: modes, SubgraphTasks: true}, nil, append(inside, own...)},
		"tasks of both":     {pregel.RunOptions{Modes: modes[:1], SubgraphTasks: true}, pregel.RunOptions{Modes: modes, SubgraphTasks: true}, inside, append(inside, own...)},
		"tasks between":     {pregel.RunOptions{Modes: modes[:1], SubgraphTasks: true}, pregel.RunOptions{Modes: modes}, inside, own},
		"all between":       {pregel.RunOptions{Modes: modes[:2], Subgraphs: true}, pregel.RunOptions{Modes: modes, SubgraphTasks: true}, append(inside, "2 custom"), append(inside, own...)},
		"all, and the same": {pregel.RunOptions{}, pregel.RunOptions{Modes: modes[:1], Subgraphs: true, SubgraphTasks: true}, nil, append(inside, "0 begin root", "0 end root")},
	} {
		var fromMiddle, fromRoot []string
		middle := compiled(t, graph.New(stepsField()).Node("middle", func(ctx context.Context, in any) (any, error) {
			_, err := leaf.Invoke(ctx, pregel.Inside(), m{"steps": []string{}})
			return m{"steps": []string{"middle"}}, err
		}).Edge(graph.Start, "middle"), graph.Options{})
		root := compiled(t, graph.New(stepsField()).Node("root", func(ctx context.Context, _ any) (any, error) {
			if err := pregel.Emit(ctx, "root"); err != nil {
				return nil, err
			}
			for e, err := range middle.Stream(ctx, pregel.Inside(), m{"steps": []string{}}, c.middle) {
				if err != nil {
					return nil, err
				}
				if c.fromMiddle != nil {
					fromMiddle = append(fromMiddle, shown(e))
				}
			}
			return m{"steps": []string{"root"}}, nil
		}).Edge(graph.Start, "root"), graph.Options{})
		for e, err := range root.Stream(ctx, pregel.Address{}, m{"steps": []string{}}, c.root) {
			if err != nil {
				t.Fatal(err)
			}
			fromRoot = append(fromRoot, shown(e))
		}
		for which, got := range map[string][2][]string{"between": {fromMiddle, c.fromMiddle}, "root": {fromRoot, c.fromRoot}} {
			if !slices.Equal(slices.Sorted(slices.Values(got[0])), slices.Sorted(slices.Values(got[1]))) {
				t.Errorf("%s: the stream %s shows\n%q, want\n%q", name, which, got[0], got[1])
			}
		}
	}
}
