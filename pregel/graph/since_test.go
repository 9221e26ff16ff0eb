package graph_test

import (
	"context"
	"testing"

	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
)

// TestLostAndKept: a graph inside that takes a message out of the conversation takes it out of that around
// it, in each kind of channel. One that keeps the last value is written without removals.
func TestLostAndKept(t *testing.T) {
	for name, ch := range map[string]channel.Channel{
		"messages": message.Channel(nil), "deltas": message.DeltaChannel(0, nil), "last": channel.LastValue[message.List](),
	} {
		inside, err := graph.New(graph.Key("messages", message.Channel(nil))).Node("forget", func(context.Context, any) (any, error) {
			return map[string]any{"messages": message.List{message.Remove("b"), message.Message{Type: message.TypeHuman, ID: "d", Content: "d"}, message.Message{Type: message.TypeHuman, ID: "a", Content: "new a"}}}, nil
		}).Edge(graph.Start, "forget").Compile(graph.Options{})
		if err != nil {
			t.Fatal(err)
		}
		g, err := graph.New(graph.Key("messages", ch)).Subgraph("inside", inside).Edge(graph.Start, "inside").Compile(graph.Options{})
		if err != nil {
			t.Fatal(err)
		}
		before := message.List{message.Message{Type: message.TypeHuman, ID: "a", Content: "a"}, message.Message{Type: message.TypeHuman, ID: "b", Content: "b"}, message.Message{Type: message.TypeHuman, ID: "c", Content: "c"}}
		res, err := g.Invoke(t.Context(), pregel.Address{}, map[string]any{"messages": before})
		if err != nil {
			t.Fatal(name, err)
		}
		got := ""
		for _, m := range res.Map()["messages"].(message.List) {
			got += string(m.Type) + " " + m.Text() + ", "
		}
		if want := "human new a, human c, human d, "; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
