package graph_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
)

// words declares its channel: it adds up.
type words []string

func (words) Channel() channel.Channel {
	return channel.Fold(nil, func(v, w words) (words, error) { return append(v, w...), nil })
}

type Deep struct{ Depth int }

type Inner struct {
	Words words  `json:"words"`
	Name  string `json:"name"`
}

type embedding struct {
	Inner
	Deep
	Name  int               // an int; "name" of Inner is another key
	Count int               `json:"count"`
	Tag   Inner             `json:"tag"`
	Extra map[string]string `json:"-"`
}

// TestEmbedded: the fields of embedded structs are keys of the state, and a type's own channel
// keeps its field.
func TestEmbedded(t *testing.T) {
	b := graph.For[embedding]()
	b.Node("a", func(_ context.Context, s *embedding) (graph.Update, error) {
		return graph.Write(&s.Words, words{"b"}).And(graph.Write(&s.Inner.Name, s.Inner.Name+"!"), graph.Write(&s.Depth, 2), graph.Write(&s.Count, s.Count+1)), nil
	})
	b.Sequence(graph.Start, "a")
	g, err := b.Compile(graph.Options{RoundTrip: true})
	if err != nil {
		t.Fatal(err)
	}
	res := invoke(t, g.Untyped(), embedding{Inner: Inner{Words: words{"a"}, Name: "x"}, Count: 1}, pregel.Address{})
	want := map[string]any{"words": words{"a", "b"}, "name": "x!", "Depth": 2, "count": 2}
	got := res.Map()
	for k := range got {
		if _, ok := want[k]; !ok {
			delete(got, k)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
