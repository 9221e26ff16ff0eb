package graph_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
)

// Mode messages shows each message once: as its parts are sent, or when its node
// ends, and never those that came with the input.
func TestMessageStream(t *testing.T) { // STR-08
	b := graph.New(graph.Key("messages", channel.Messages(nil)))
	b.Node("bot", func(ctx context.Context, _ any) (any, error) {
		for _, part := range []string{"he", "llo"} {
			if err := pregel.EmitMessage(ctx, channel.Message{ID: "m1", Role: "ai", Content: part}); err != nil {
				return nil, err
			}
		}
		return map[string]any{"messages": []channel.Message{{ID: "m1", Role: "ai", Content: "hello"}, {ID: "m2", Role: "ai", Content: "bye"}}}, nil
	})
	b.Node("echo", func(_ context.Context, s any) (any, error) {
		return map[string]any{"messages": s.(map[string]any)["messages"]}, nil
	})
	b.Sequence(graph.Start, "bot", "echo")
	g := compile(t, b, graph.Options{})
	var got []string
	input := map[string]any{"messages": channel.Message{ID: "m0", Role: "human", Content: "hi"}}
	for e, err := range g.Stream(ctx, pregel.Address{}, input, pregel.RunOptions{Modes: []pregel.Mode{pregel.ModeMessages}}) {
		if err != nil {
			t.Fatal(err)
		}
		m := e.Data.(pregel.MessageEvent)
		got = append(got, m.Metadata["langgraph_node"].(string)+":"+m.Message.(channel.Message).Content.(string))
	}
	if want := []string{"bot:he", "bot:llo", "bot:bye"}; !slices.Equal(got, want) {
		t.Errorf("messages %q, want %q", got, want)
	}
}
