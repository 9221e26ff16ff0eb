package graph_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/serde"
)

// Chat is the state of a conversation.
type Chat struct {
	message.State
	Topic string          `json:"topic"`
	Last  message.Message `json:"last"`
}

// Messages of a typed graph are the same before a restart and after it.
func TestMessagesInATypedState(t *testing.T) {
	for _, l := range restarts(t) {
		ctx, at := t.Context(), pregel.Thread("t")
		build := func() *graph.Graph[Chat] {
			return made(t, graph.For[Chat]().Node("model", does(func(c *Chat) graph.Update {
				answer := message.AI("hello")
				return graph.Write(&c.Messages, message.List{answer}).And(graph.Write(&c.Topic, "greeting"), graph.Write(&c.Last, answer))
			})).Node("ask", asks[Chat]).Sequence(graph.Start, "model", "ask"), l.open(t))
		}
		res, err := build().Run(ctx, at, Chat{State: message.State{Messages: message.List{message.Human("hi")}}})
		if err != nil || len(res.State.Messages) != 2 {
			t.Fatalf("%s: %+v, %v", l.name, res, err)
		}
		snap, err := build().State(ctx, at)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(res.State, snap.State, cmp.Comparer(sameMessage)); diff != "" {
			t.Errorf("%s (-before +after):\n%s", l.name, diff)
		}
	}
}

// sameMessage compares what is stored of two messages.
func sameMessage(a, b message.Message) bool {
	x, errA := serde.Default().Encode(a)
	y, errB := serde.Default().Encode(b)
	return errA == nil && errB == nil && bytes.Equal(x.Data, y.Data)
}
