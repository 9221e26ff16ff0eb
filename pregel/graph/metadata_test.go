package graph_test

import (
	"context"
	"maps"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

// TestMetadata: the metadata of a graph is that of its runs and updates. The caller's counts before
// it, and inside another graph it counts before what is inherited.
func TestMetadata(t *testing.T) {
	quiet := func(context.Context, any) (any, error) { return nil, nil }
	list := graph.Key("steps", channel.Reduce(channel.Append[string]))
	inner := compile(t, graph.New(list).Node("b", quiet).Sequence(graph.Start, "b"), graph.Options{Metadata: map[string]any{"team": "inner", "who": "b"}})
	sv := memory.New(memory.Options{})
	own := map[string]any{"team": "outer", "who": "a"}
	g := compile(t, graph.New(list).Subgraph("in", inner).Sequence(graph.Start, "in"), graph.Options{Saver: sv, Metadata: own})
	at := pregel.Thread("t")
	invoke(t, g, map[string]any{"steps": []string{"x"}}, at, pregel.RunOptions{Metadata: map[string]any{"who": "me"}})
	stored := func(want map[string]map[string]any) {
		t.Helper()
		seen := 0
		for tuple, err := range sv.List(ctx, saver.Query{ThreadID: "t"}) {
			if err != nil {
				t.Fatal(err)
			}
			where := "outer"
			if tuple.Config.Namespace != "" {
				where = "inner"
			}
			for k, v := range want[where] {
				if seen++; tuple.Metadata[k] != v {
					t.Errorf("%s: %s is %v, want %v", where, k, tuple.Metadata[k], v)
				}
			}
		}
		if seen < 8 {
			t.Errorf("%d looked at", seen)
		}
	}
	stored(map[string]map[string]any{"outer": {"team": "outer", "who": "me"}, "inner": {"team": "inner", "who": "b"}})
	if _, err := g.UpdateState(ctx, at, pregel.StateUpdate{Values: map[string]any{"steps": []string{"y"}}}); err != nil {
		t.Fatal(err)
	}
	head, err := sv.GetTuple(ctx, saver.Config{ThreadID: "t"})
	if err != nil || head.Metadata["who"] != "a" || head.Metadata["source"] != "update" {
		t.Errorf("%v %v", head.Metadata, err)
	}
	if !maps.Equal(own, map[string]any{"team": "outer", "who": "a"}) {
		t.Errorf("changed: %v", own)
	}
}
