package graph_test

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
)

// TestFunc: a node that was not written for the state writes as one that was: what it writes to
// an any is plain data at once, and a key that nobody reads is an error.
func TestFunc(t *testing.T) {
	type point struct {
		X int `json:"x"`
	}
	type state struct {
		Log  []string `json:"log" state:"append"`
		Any  any      `json:"any"`
		Left int      `json:"left"`
	}
	run := func(out any) (*graph.Result[state], error) {
		g, err := graph.For[state](graph.Computed("left", channel.RemainingSteps)).
			Func("old", func(_ context.Context, in any) (any, error) {
				if _, ok := in.(map[string]any); !ok {
					t.Errorf("it got a %T", in)
				}
				return out, nil
			}).
			Node("next", func(_ context.Context, s *state) (graph.Update, error) {
				return graph.Write(&s.Log, []string{"next"}), nil
			}).
			Edge(graph.Start, "old").Compile(graph.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return g.Run(t.Context(), pregel.Address{}, state{Log: []string{"in"}})
	}
	plain := map[string]any{"x": int64(1)}
	for name, c := range map[string]struct {
		out  any
		want state
	}{
		"nothing":  {nil, state{Log: []string{"in"}}},
		"map":      {map[string]any{"log": []string{"a"}, "any": point{1}}, state{Log: []string{"in", "a"}, Any: plain}},
		"pairs":    {pregel.Pairs{{Key: "log", Value: []string{"a"}}, {Key: "log", Value: []string{"b"}}}, state{Log: []string{"in", "a", "b"}}},
		"command":  {pregel.Command{Update: map[string]any{"any": point{1}}, Goto: "next"}, state{Log: []string{"in", "next"}, Any: plain}},
		"packet":   {&pregel.Send{Node: "next", Arg: map[string]any{}}, state{Log: []string{"in", "next"}}},
		"commands": {[]any{pregel.Command{Update: map[string]any{"log": []string{"a"}}}, &pregel.Command{Goto: "next"}}, state{Log: []string{"in", "a", "next"}}},
		"whole":    {map[string]any{"log": pregel.Overwrite{Value: []string{"a"}}}, state{Log: []string{"a"}}},
	} {
		if res, err := run(c.out); err != nil || !reflect.DeepEqual(res.State.Log, c.want.Log) || !reflect.DeepEqual(res.State.Any, c.want.Any) {
			t.Errorf("%s: %+v, %v", name, res, err)
		}
	}
	for name, out := range map[string]any{
		"unknown key":  map[string]any{"lgo": []string{"a"}},
		"computed":     map[string]any{"left": 1},
		"in a command": pregel.Command{Update: pregel.Pairs{{Key: "lgo"}}},
		"in a list":    []any{pregel.Command{}, map[string]any{"lgo": 1}},
		"no update":    7,
		"another type": map[string]any{"log": 7},
		"not to store": map[string]any{"any": func() {}},
	} {
		if res, err := run(out); !errors.Is(err, pregel.ErrInvalidUpdate) {
			t.Errorf("%s: %+v, %v", name, res, err)
		}
	}
	if _, err := graph.For[state]().Func("nil", nil).Edge(graph.Start, "nil").Compile(graph.Options{}); err == nil {
		t.Error("a node without a function")
	}
}
