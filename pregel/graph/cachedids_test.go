package graph_test

import (
	"context"
	"testing"

	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/store/cache"
)

// A cached node says its message anew each time, also where the messages had to be named for a stream; and
// what is shown of a hit has the ids of the state.
func TestMessageIDsOfACachedNode(t *testing.T) {
	for _, modes := range [][]pregel.Mode{{pregel.ModeValues}, {pregel.ModeUpdates}, {pregel.ModeMessages}, {pregel.ModeTasks}} {
		for name, key := range map[string]graph.Field{"list": graph.Key("messages", message.Channel(nil)), "delta": graph.Key("messages", message.DeltaChannel(0, nil))} {
			kept, err := cache.NewMemory(cache.Options{})
			if err != nil {
				t.Fatal(err)
			}
			runs := 0
			b := graph.New(key).Node("say", func(context.Context, any) (any, error) {
				runs++
				return map[string]any{"messages": message.List{message.AI("hello")}}, nil
			}, graph.NodeOptions{Cache: &pregel.CachePolicy{Key: func(any) (string, error) { return "same", nil }}}).Edge(graph.Start, "say")
			g := compile(t, b, graph.Options{Saver: memory.New(memory.Options{}), Cache: kept})
			for range 2 {
				for _, err := range g.Stream(ctx, pregel.Thread("t"), map[string]any{"messages": message.List{message.Human("hi")}}, pregel.RunOptions{Modes: modes}) {
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			st, err := g.GetState(ctx, pregel.Thread("t"))
			if err != nil {
				t.Fatal(err)
			}
			list, err := message.FromList(st.Values.(map[string]any)["messages"])
			if err != nil || len(list) != 4 || runs != 1 {
				t.Errorf("%s, %v: %v, %v, %d runs", name, modes, list, err, runs)
			}
		}
	}
}
