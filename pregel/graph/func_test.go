package graph_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
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
		"nothing":         {nil, state{Log: []string{"in"}}},
		"map":             {map[string]any{"log": []string{"a"}, "any": point{1}}, state{Log: []string{"in", "a"}, Any: plain}},
		"pairs":           {pregel.Pairs{{Key: "log", Value: []string{"a"}}, {Key: "log", Value: []string{"b"}}}, state{Log: []string{"in", "a", "b"}}},
		"command":         {pregel.Command{Update: map[string]any{"any": point{1}}, Goto: "next"}, state{Log: []string{"in", "next"}, Any: plain}},
		"a list of pairs": {pregel.Command{Update: []any{[]any{"log", []string{"a"}}, []any{"any", point{1}}}}, state{Log: []string{"in", "a"}, Any: plain}},
		"packet":          {&pregel.Send{Node: "next", Arg: map[string]any{}}, state{Log: []string{"in", "next"}}},
		"commands":        {[]any{pregel.Command{Update: map[string]any{"log": []string{"a"}}}, &pregel.Command{Goto: "next"}}, state{Log: []string{"in", "a", "next"}}},
		"whole":           {map[string]any{"log": pregel.Overwrite{Value: []string{"a"}}}, state{Log: []string{"a"}}},
	} {
		if res, err := run(c.out); err != nil || !reflect.DeepEqual(res.State.Log, c.want.Log) || !reflect.DeepEqual(res.State.Any, c.want.Any) {
			t.Errorf("%s: %+v, %v", name, res, err)
		}
	}
	for name, out := range map[string]any{
		"unknown key":  map[string]any{"lgo": []string{"a"}},
		"computed":     map[string]any{"left": 1},
		"in a command": pregel.Command{Update: pregel.Pairs{{Key: "lgo"}}},
		"in pairs":     pregel.Command{Update: []any{[]any{"lgo", 1}}},
		"no keys":      pregel.Command{Update: "x"},
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

// TestFuncSends: packets of a node that was not written for the state are those of one that was.
func TestFuncSends(t *testing.T) {
	type point struct {
		X int `json:"x"`
	}
	type state struct {
		Log []string `json:"log" state:"append"`
		Who string   `json:"who"`
	}
	run := func(out any) (*graph.Result[state], error) {
		b := graph.For[state]().
			Func("old", func(context.Context, any) (any, error) { return out, nil }).
			Node("node", func(_ context.Context, s *state) (graph.Update, error) {
				return graph.Write(&s.Log, []string{"node " + s.Who}), nil
			}).
			Func("func", func(_ context.Context, in any) (any, error) {
				return map[string]any{"log": []string{fmt.Sprintf("func %v", in)}}, nil
			}).
			Edge(graph.Start, "old")
		graph.Worker(b, "worker", func(_ context.Context, p point, s *state) (graph.Update, error) {
			return graph.Write(&s.Log, []string{fmt.Sprint("worker ", p.X)}), nil
		})
		g, err := b.Compile(graph.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return g.Run(t.Context(), pregel.Address{}, state{})
	}
	sends := func(node string, arg any) map[string]any {
		p := pregel.Send{Node: node, Arg: arg}
		return map[string]any{
			"bare":           p,
			"pointer":        &p,
			"Goto":           pregel.Command{Goto: p},
			"Goto of a list": pregel.Command{Goto: []any{&p}},
			"Goto of Sends":  []any{pregel.Command{Goto: []pregel.Send{p}}},
		}
	}
	for _, c := range []struct {
		node string
		arg  any
		want string
	}{
		{"node", state{Who: "me"}, "node me"},
		{"node", &state{Who: "me"}, "node me"},
		{"node", map[string]any{"who": "me"}, "node me"},
		{"worker", point{7}, "worker 7"},
		{"worker", map[string]any{"x": 7}, "worker 7"},
		{"func", 7, "func 7"},
	} {
		for form, out := range sends(c.node, c.arg) {
			if res, err := run(out); err != nil || !slices.Equal(res.State.Log, []string{c.want}) {
				t.Errorf("%s of %T to %s: %+v, %v", form, c.arg, c.node, res, err)
			}
		}
	}
	for _, c := range []struct {
		node string
		arg  any
	}{
		{"node", 7},
		{"node", map[string]any{"how": "me"}},
		{"worker", "seven"},
		{"worker", nil},
		{"nobody", nil},
	} {
		for form, out := range sends(c.node, c.arg) {
			var refused *pregel.InvalidUpdateError
			if res, err := run(out); !errors.As(err, &refused) || refused.Node != "old" { // the sender is to blame
				t.Errorf("%s of %T to %s: %+v, %v", form, c.arg, c.node, res, err)
			}
		}
	}
}
