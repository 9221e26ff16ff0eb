package graph_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
)

type tally struct {
	Log   []string       `json:"log" state:"append"`
	Sum   int            `json:"sum" state:"add,alias=total"`
	Marks map[string]int `json:"marks" state:"merge"`
	Last  string         `json:"last"`
}

type taggedInside struct {
	tally
	Tally tally `json:"tally"`
	Embedded
}

// Embedded is embedded by states of tests.
type Embedded struct {
	Seen []string `json:"seen" state:"append"`
}

// TestTagsOfOf: Of keeps fields as their tags say, as For does.
func TestTagsOfOf(t *testing.T) {
	s := memory.New(memory.Options{})
	older, err := graph.New(graph.Key("total", channel.LastValue[int]())).Node("n", func(context.Context, any) (any, error) { return nil, nil }).
		Edge(graph.Start, "n").Compile(graph.Options{Saver: s})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := older.Invoke(t.Context(), pregel.Thread("t"), map[string]any{"total": 40}); err != nil {
		t.Fatal(err)
	}
	g, err := graph.Of[tally]().Node("n", graph.Typed(func(_ context.Context, in tally) (any, error) {
		return tally{Log: []string{"said"}, Sum: 1, Marks: map[string]int{"b": len(in.Log)}, Last: "n"}, nil
	})).Edge(graph.Start, "n").Compile(graph.Options{Saver: s})
	if err != nil {
		t.Fatal(err)
	}
	res, err := g.Invoke(t.Context(), pregel.Thread("t"), tally{Log: []string{"in"}, Sum: 1, Marks: map[string]int{"a": 1}})
	want := map[string]any{"log": []string{"in", "said"}, "sum": 42, "marks": map[string]int{"a": 1, "b": 1}, "last": "n"}
	if err != nil || !reflect.DeepEqual(res.Map(), want) {
		t.Errorf("%v, %v; want %v", res, err, want)
	}
	inside := graph.Of[taggedInside]()
	g, err = inside.Node("n", func(context.Context, any) (any, error) { return map[string]any{"seen": []string{"b"}}, nil }).
		Edge(graph.Start, "n").Compile(graph.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if res, err := g.Invoke(t.Context(), pregel.Address{}, map[string]any{"seen": []string{"a"}}); err != nil || !reflect.DeepEqual(res.Map()["seen"], []string{"a", "b"}) {
		t.Errorf("%v, %v", res, err)
	}
}

// compilesOf is compiles for Of.
func compilesOf[T any](fields ...graph.Field) error {
	_, err := graph.Of[T](fields...).Node("n", func(context.Context, any) (any, error) { return nil, nil }).Edge(graph.Start, "n").Compile(graph.Options{})
	return err
}

// TestTagsThatOfRefuses: a tag that says nothing is an error, not a field that loses its reducer.
func TestTagsThatOfRefuses(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{compilesOf[struct {
			L []int `state:"apend"`
		}](), "L: has the tag `state:\"apend\"`: there is no such reducer"},
		{compilesOf[struct {
			L []int `state:"append,add"`
		}](), "L: has the tag"},
		{compilesOf[struct {
			N int `state:"append"`
		}](), "N: has the tag `state:\"append\"`: append needs a slice"},
		{compilesOf[struct {
			M []string `state:"messages"`
		}](), "M: has type []string, but its channel holds []channel.Message"},
		{compilesOf[struct {
			L []int `state:"append"`
		}](graph.Key("L", channel.Reduce(channel.Append[int]))), "L: has a reducer in its tag, and one in the call of Of"},
		{compilesOf[struct {
			A int `state:"alias=B"`
			B int
		}](), `A: has the alias "B", which is a field`},
	} {
		var refused *pregel.GraphError
		if !errors.As(c.err, &refused) || refused.Field == "" || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%v, want a GraphError with %q", c.err, c.want)
		}
	}
}
