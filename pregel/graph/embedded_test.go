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

type hidden struct {
	Secret string `json:"secret"`
}

type Deep struct {
	hidden // not exported, so that its fields are no keys
	Depth  int
}

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
	b := graph.Of[embedding]()
	b.Node("a", graph.Typed(func(_ context.Context, s embedding) (any, error) {
		return embedding{Inner: Inner{Words: words{"b"}, Name: s.Inner.Name + "!"}, Deep: Deep{Depth: 2}, Count: s.Count + 1}, nil
	}))
	b.Sequence(graph.Start, "a")
	g := compile(t, b, graph.Options{RoundTrip: true})
	res := invoke(t, g, embedding{Inner: Inner{Words: words{"a"}, Name: "x"}, Count: 1}, pregel.Address{})
	want := map[string]any{"words": words{"a", "b"}, "name": "x!", "Depth": 2, "count": 2}
	got := res.Map()
	if _, ok := got["secret"]; ok {
		t.Error("a field of a type that is not exported is a key")
	}
	for k := range got {
		if _, ok := want[k]; !ok {
			delete(got, k)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestOuterFieldWins: of two fields for one key, the outer one counts.
func TestOuterFieldWins(t *testing.T) {
	type state struct {
		Inner
		Label string `json:"name"`
	}
	b := graph.Of[state]()
	b.Node("a", graph.Typed(func(_ context.Context, s state) (any, error) {
		if s.Inner.Name != "" {
			t.Errorf("the inner name is %q", s.Inner.Name)
		}
		return state{Label: s.Label + "!"}, nil
	}))
	b.Sequence(graph.Start, "a")
	if res := invoke(t, compile(t, b, graph.Options{}), map[string]any{"name": "x"}, pregel.Address{}); res.Map()["name"] != "x!" {
		t.Errorf("%v", res.Map())
	}
}
