package pregel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

// threadDump is all that is stored of a thread.
func threadDump(t *testing.T, s saver.Saver) string {
	t.Helper()
	var b strings.Builder
	for tup, err := range s.List(ctx, saver.Query{ThreadID: "t"}) {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%+v %+v %+v %v %v\n", tup.Config, tup.Metadata, tup.Note, tup.Checkpoint.Versions, tup.Checkpoint.Seen)
		for _, name := range sortedKeys(tup.Checkpoint.Values) {
			v, err := tup.Checkpoint.Values[name].Any()
			fmt.Fprintf(&b, "  %s: %#v %v\n", name, v, err)
		}
		for _, w := range tup.PendingWrites {
			v, err := w.Value.Any()
			fmt.Fprintf(&b, "  %s %d %s %#v %v\n", w.TaskID, w.Index, w.Channel, v, err)
		}
	}
	return b.String()
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// form is a state as a struct.
type form struct {
	N    int
	Tags []string
}

// typedGraphs are graphs of one node "a" with typed state, each with a good input and
// bad ones.
func typedGraphs(t *testing.T, s saver.Saver, body pregel.Func) map[string]typedGraph {
	t.Helper()
	made := func(g *pregel.Graph, err error) *pregel.Graph {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	state := func(b *graph.Builder) *pregel.Graph {
		return made(b.Node("a", body).Sequence(graph.Start, "a", graph.End).Compile(graph.Options{Name: "g", Saver: s}))
	}
	n, err := node("a", body).SubscribeOnly("n").WriteFunc("out", func(v any) (any, error) { return nil, nil }).Build()
	if err != nil {
		t.Fatal(err)
	}
	spec, plain := pregel.Spec{Nodes: []*pregel.Node{n}, Input: pregel.One("n"), Output: pregel.One("out"), Channels: map[string]channel.Channel{"n": channel.LastValue[int](), "out": channel.LastValue[any]()}},
		pregel.Options{Name: "g", Saver: s}
	in := func(k string, v any) map[string]any { return map[string]any{k: v} }
	return map[string]typedGraph{
		"keys": {state(graph.New(graph.Key("n", channel.LastValue[int]()), graph.Key("tags", channel.Reduce(channel.Append[string])),
			graph.Key("log", channel.Delta(5, func(v []string, ws [][]string) ([]string, error) { return append(v, slices.Concat(ws...)...), nil })))),
			in("n", 1), []any{in("n", "text"), in("tags", 3), in("log", 3), in("tags", pregel.Overwrite{Value: 3}), 7, map[string]any{"log": []string{"fine"}, "n": func() {}}}},
		"messages": {state(graph.New(graph.Key("messages", channel.Messages(nil)))), in("messages", "hello"), []any{in("messages", 42)}},
		"delta":    {state(graph.New(graph.Key("messages", channel.DeltaMessages(0, nil)))), in("messages", "hello"), []any{in("messages", 42)}},
		"struct":   {state(graph.New(graph.Key("N", channel.LastValue[int]()), graph.Key("Tags", channel.LastValue[[]string]()))), form{N: 1}, []any{in("N", "text"), in("Tags", 3)}},
		"channels": {made(pregel.New(spec, plain)), 1, []any{"text", in("n", 1)}},
		"function": {made(pregel.Entrypoint("f", func(ctx context.Context, n int) (any, error) { return body(ctx, n) },
			pregel.EntrypointOptions{Options: pregel.Options{Saver: s}})), 1, []any{"text", in("n", 1)}},
	}
}

type typedGraph struct {
	g    *pregel.Graph
	good any
	bad  []any
}

// Input of a wrong type is refused before anything is stored or run, on a new thread
// and on one that is there, and also where earlier work would have been finished first.
func TestInputOfAWrongType(t *testing.T) {
	for _, d := range allDurabilities {
		for name := range typedGraphs(t, nil, returns(nil)) {
			t.Run(fmt.Sprint(d, "/", name), func(t *testing.T) {
				s := memory.New(memory.Options{})
				var leave func()
				ran := 0
				c := typedGraphs(t, s, func(c context.Context, _ any) (any, error) {
					if ran++; leave != nil {
						leave()
					}
					return nil, c.Err()
				})[name]
				at, cfg := pregel.Thread("t"), pregel.RunOptions{Durability: d}
				check := func(when string) {
					t.Helper()
					before := threadDump(t, s)
					ran = 0
					for _, bad := range c.bad {
						_, err := c.g.Invoke(ctx, at, bad, cfg)
						var encode *pregel.EncodeError
						if !errors.Is(err, pregel.ErrInvalidUpdate) && !errors.As(err, &encode) {
							t.Errorf("%s: input %v: %v", when, bad, err)
						}
						if _, err := c.g.UpdateState(ctx, at, pregel.StateUpdate{AsNode: pregel.Input, Values: bad}); err == nil {
							t.Errorf("%s: UpdateState with input %v: no error", when, bad)
						}
					}
					if after := threadDump(t, s); after != before || ran > 0 {
						t.Errorf("%s: a node ran %d times; the thread was\n%s, and is\n%s", when, ran, before, after)
					}
				}
				check("new")
				if _, err := c.g.Invoke(ctx, at, c.good, cfg); err != nil {
					t.Fatal(err)
				}
				check("done")
				var life context.Context
				life, leave = context.WithCancel(ctx)
				if _, err := c.g.Invoke(life, at, c.good, cfg); !errors.Is(err, context.Canceled) {
					t.Fatal(err)
				}
				leave = nil
				check("unfinished")
				sameStatus(t, "unfinished", c.g, s, saver.StatusUnfinished)
			})
		}
	}
}

// Updates of a wrong type, by UpdateState and by a Command, leave the thread as it is.
func TestUpdateOfAWrongType(t *testing.T) {
	log := channel.Delta(5, func(v []string, ws [][]string) ([]string, error) { return append(v, slices.Concat(ws...)...), nil })
	for name, b := range map[string]*graph.Builder{
		"keys":   graph.New(graph.Key("N", channel.LastValue[int]()), graph.Key("Tags", channel.Reduce(channel.Append[string])), graph.Key("log", log)),
		"struct": graph.New(graph.Key("N", channel.LastValue[int]()), graph.Key("Tags", channel.LastValue[[]string]())),
	} {
		s := memory.New(memory.Options{})
		g, err := b.Node("a", func(c context.Context, _ any) (any, error) {
			_, err := pregel.Ask(c, "?")
			return nil, err
		}).Edge(graph.Start, "a").Compile(graph.Options{Saver: s})
		if err != nil {
			t.Fatal(err)
		}
		at := pregel.Thread("t")
		if _, err := g.Invoke(ctx, at, map[string]any{"N": 1}); err != nil {
			t.Fatal(err)
		}
		before := threadDump(t, s)
		for _, bad := range []map[string]any{{"N": "text"}, {"Tags": 3}, {"Tags": []string{"fine"}, "N": "text"}, {"log": []string{"fine"}, "N": "text"}} {
			if _, err := g.UpdateState(ctx, at, pregel.StateUpdate{AsNode: "a", Values: bad}); !errors.Is(err, pregel.ErrInvalidUpdate) {
				t.Errorf("%s: UpdateState %v: %v", name, bad, err)
			}
			if _, err := g.Invoke(ctx, at, pregel.Command{Update: bad}); !errors.Is(err, pregel.ErrInvalidUpdate) {
				t.Errorf("%s: Command.Update %v: %v", name, bad, err)
			}
			if _, err := g.Invoke(ctx, at, pregel.Command{Update: bad, Resume: "yes"}); !errors.Is(err, pregel.ErrInvalidUpdate) {
				t.Errorf("%s: Command.Update %v with an answer: %v", name, bad, err)
			}
		}
		if after := threadDump(t, s); after != before {
			t.Errorf("%s: the thread was\n%s, and is\n%s", name, before, after)
		}
	}
}

// A Namespace that names no graph inside is refused by every call, and so is metadata
// that cannot be stored, before anything is run or stored.
func TestArgumentsThatCannotBe(t *testing.T) {
	s := watch(nil)
	ran := false
	g := fan(t, pregel.Options{Saver: s}, node("a", func(_ context.Context, v any) (any, error) {
		ran = true
		return v, nil
	}))
	nowhere := pregel.Address{ThreadID: "t", Namespace: "nowhere"}
	big := map[string]any{"note": strings.Repeat("x", 65<<20)}
	for name, at := range map[string]pregel.Address{"nowhere": nowhere, "big": pregel.Thread("t")} {
		var cfg pregel.RunOptions
		if name == "big" {
			cfg.Metadata = big
		}
		_, updated := g.UpdateState(ctx, at, pregel.StateUpdate{AsNode: "a", Values: 1}, pregel.UpdateOptions{Metadata: cfg.Metadata})
		errs := []error{updated}
		for _, d := range allDurabilities {
			cfg.Durability = d
			_, err := g.Invoke(ctx, at, 1, cfg)
			errs = append(errs, err)
			for _, err := range g.Stream(ctx, at, 1, cfg) {
				errs = append(errs, err)
			}
		}
		for _, err := range errs {
			var sub *pregel.SubgraphError
			switch {
			case name == "nowhere" && (!errors.As(err, &sub) || sub.Namespace != "nowhere"):
				t.Errorf("%s: %v", name, err)
			case name == "big" && (!errors.Is(err, pregel.ErrInvalidArgument) || !errors.Is(err, saver.ErrTooLarge)):
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if ran || len(s.acked("")) > 0 {
		t.Errorf("a node ran: %v; stored %q", ran, s.acked(""))
	}
}
