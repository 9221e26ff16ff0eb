package graph_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

func TestValidation(t *testing.T) { // STEP-15
	nop := appends("x")
	base := func() *graph.Builder { return graph.New(steps()).Node("a", nop).Edge(graph.Start, "a") }
	if _, err := base().Compile(graph.Options{}); err != nil {
		t.Fatal(err)
	}
	anywhere := func(context.Context, any) (any, error) { return "a", nil }
	for name, b := range map[string]*graph.Builder{
		"no entry":         graph.New(steps()).Node("a", nop),
		"unknown target":   base().Edge("a", "x"),
		"unknown source":   base().Edge("x", "a"),
		"unknown join":     base().Join([]string{"x"}, "a"),
		"unknown branch":   base().Conditional("a", "", anywhere, "x"),
		"twin branch":      base().Conditional("a", "", anywhere).Conditional("a", "", anywhere),
		"from END":         base().Edge(graph.End, "a"),
		"to START":         base().Edge("a", graph.Start),
		"twin node":        base().Node("a", nop),
		"reserved sign":    base().Node("a|b", nop),
		"reserved name":    base().Node(graph.End, nop),
		"no function":      base().Node("b", nil),
		"empty sequence":   base().Sequence(),
		"unknown output":   base().Output("x"),
		"unknown read":     base().Node("b", nop, graph.NodeOptions{Reads: []string{"x"}}),
		"unknown command":  base().Node("b", nop, graph.NodeOptions{Targets: []string{"x"}}),
		"no keys":          graph.New().Node("a", nop).Edge(graph.Start, "a"),
		"changed key":      graph.New(steps(), graph.Key("steps", channel.Topic[int](channel.PerStep))).Node("a", nop).Edge(graph.Start, "a"),
		"default handler":  base().Node("__default_error_handler__", nop).Defaults(graph.NodeOptions{OnError: nop}),
		"no path":          base().Conditional("a", "", nil),
		"no graph inside":  base().Subgraph("b", nil),
		"root and key":     graph.New(graph.Root(nil), steps()).Node("a", nop).Edge(graph.Start, "a"),
		"root and managed": graph.New(graph.Root(nil), graph.Computed("left", channel.RemainingSteps)).Node("a", nop).Edge(graph.Start, "a"),
	} {
		if _, err := b.Compile(graph.Options{}); !errors.Is(err, pregel.ErrInvalidGraph) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := base().Compile(graph.Options{InterruptBefore: []string{"x"}}); !errors.Is(err, pregel.ErrInvalidGraph) {
		t.Errorf("breakpoint: %v", err)
	}
	// A plain declaration of a key that exists changes nothing.
	g := compile(t, graph.New(steps(), graph.Key("steps", nil)).Node("a", nop).Edge(graph.Start, "a"), graph.Options{})
	wantSteps(t, invoke(t, g, map[string]any{"steps": []string{"in"}}, pregel.Address{}), "in", "x")
}

func TestBadOutputs(t *testing.T) {
	for name, out := range map[string]any{"number": 7, "text": "x", "goto": pregel.Command{Goto: 7}} {
		b := graph.New(steps()).Node("a", func(context.Context, any) (any, error) { return out, nil }).Edge(graph.Start, "a")
		_, err := compile(t, b, graph.Options{}).Invoke(ctx, pregel.Address{}, map[string]any{"steps": []string{}})
		var te *pregel.TaskError
		if !errors.Is(err, pregel.ErrInvalidUpdate) || !errors.As(err, &te) || te.Node != "a" {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, to := range map[string]any{"nil": nil, "start": graph.Start, "send to end": pregel.Send{Node: graph.End}} {
		b := graph.New(steps()).Node("a", appends("a")).Edge(graph.Start, "a")
		b.Conditional("a", "", func(context.Context, any) (any, error) { return to, nil })
		if _, err := compile(t, b, graph.Options{}).Invoke(ctx, pregel.Address{}, map[string]any{"steps": []string{}}); !errors.Is(err, pregel.ErrInvalidUpdate) {
			t.Errorf("%s: %v", name, err)
		}
	}
	b := graph.New(graph.Key("x", nil)).Node("a", func(context.Context, any) (any, error) { return map[string]any{"x": 1}, nil })
	b.Node("b", func(context.Context, any) (any, error) { return map[string]any{"x": 2}, nil }).Edge(graph.Start, "a").Edge(graph.Start, "b")
	_, err := compile(t, b, graph.Options{}).Invoke(ctx, pregel.Address{}, map[string]any{"x": 0})
	var ue *channel.UpdateError // CHN-12
	if !errors.As(err, &ue) || ue.Channel != "x" || !slices.Equal(ue.Nodes, []string{"a", "b"}) {
		t.Errorf("two writers: %v", err)
	}
}

type order struct {
	Items []string `json:"items"`
	Total int      `json:"total"`
	Note  *string  `json:"note"`
}

func TestStructState(t *testing.T) {
	for _, s := range []saver.Saver{nil, memory.New(memory.Options{})} {
		b := graph.New(graph.Key("items", channel.Reduce(channel.Append[string])), graph.Key("total", channel.LastValue[int]()), graph.Key("note", channel.LastValue[*string]()))
		b.Node("add", pregel.NodeOf(func(_ context.Context, o order) (any, error) {
			return order{Items: []string{"tea"}, Total: o.Total + 3}, nil
		}))
		b.Node("ask", pregel.NodeOf(func(ctx context.Context, o order) (any, error) {
			if s == nil {
				return nil, nil
			}
			v, err := pregel.AskFor[string](ctx, o.Items)
			return order{Note: &v}, err
		}))
		b.Sequence(graph.Start, "add", "ask", graph.End)
		g := compile(t, b, graph.Options{Saver: s})
		at := pregel.Thread("t")
		res := invoke(t, g, order{Items: []string{"milk"}, Total: 1}, at)
		if s != nil { // the struct is read back from the store
			res = invoke(t, g, pregel.Command{Resume: "thanks"}, at)
			if note, ok := res.Map()["note"].(*string); !ok || *note != "thanks" {
				t.Errorf("note %v", res.Map()["note"])
			}
		}
		if got := res.Map(); !slices.Equal(got["items"].([]string), []string{"milk", "tea"}) || got["total"] != any(4) && got["total"] != any(int64(4)) {
			t.Errorf("state %v", got)
		}
	}
}

func TestRootState(t *testing.T) { // ALG-10
	b := graph.New(graph.Root(channel.Reduce(channel.Add[string])))
	b.Node("a", func(context.Context, any) (any, error) {
		return []pregel.Command{{Update: "a1"}, {Update: "a2"}}, nil
	})
	b.Node("b", func(_ context.Context, s any) (any, error) { return "b", nil })
	b.Sequence(graph.Start, "a", "b")
	if res := invoke(t, compile(t, b, graph.Options{}), "", pregel.Address{}); res.Value != "a1a2b" {
		t.Errorf("value %v", res.Value)
	}
}

func TestDefaults(t *testing.T) { // RTY-17
	boom := errors.New("boom")
	fail := func(context.Context, any) (any, error) { return nil, boom }
	handler := func(tag string) pregel.Func {
		return func(ctx context.Context, _ any) (any, error) {
			info, _ := pregel.Task(ctx)
			return map[string]any{"steps": []string{tag + " " + info.Failure.Node}}, nil
		}
	}
	b := graph.New(steps()).Defaults(graph.NodeOptions{OnError: handler("default")})
	b.Node("a", fail).Node("b", fail, graph.NodeOptions{OnError: handler("own")})
	b.Edge(graph.Start, "a").Edge(graph.Start, "b")
	for range 2 { // compiling twice is allowed
		g := compile(t, b, graph.Options{})
		wantSteps(t, invoke(t, g, map[string]any{"steps": []string{}}, pregel.Address{}), "default a", "own b")
	}
}

func TestDrawing(t *testing.T) {
	b := graph.New(graph.Key("x", nil))
	for _, n := range []string{"a", "b", "c"} {
		b.Node(n, appends(n))
	}
	b.Edge(graph.Start, "a").Edge("b", "c").Edge("c", graph.End)
	b.ConditionalMap("a", "", func(context.Context, any) (any, error) { return "go", nil }, map[string]string{"go": "b", "stop": graph.End})
	g := compile(t, b, graph.Options{})
	// As LangGraph draws it, up to the order of edges.
	want := strings.Split(`---
config:
  flowchart:
    curve: linear
---
graph TD;
	__start__([<p>__start__</p>]):::first
	a(a)
	b(b)
	c(c)
	__end__([<p>__end__</p>]):::last
	__start__ --> a;
	a -. &nbsp;stop&nbsp; .-> __end__;
	a -. &nbsp;go&nbsp; .-> b;
	b --> c;
	c --> __end__;
	classDef default fill:#f2f0ff,line-height:1.2
	classDef first fill-opacity:0
	classDef last fill:#bfb6fc
`, "\n")
	got := strings.Split(g.Mermaid(), "\n")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("Mermaid:\n%s", g.Mermaid())
	}
	if dot := g.DOT(); !strings.Contains(dot, `"a" -> "b" [style=dashed, label="go"];`) || !strings.Contains(dot, `"b" -> "c";`) {
		t.Errorf("DOT:\n%s", dot)
	}
}

// A checkpoint of an old layout is read as the current one.
func TestMigration(t *testing.T) { // MIG-02
	s := memory.New(memory.Options{})
	b := graph.New(steps()).Node("a", appends("a")).Node("b", appends("b"))
	b.Edge(graph.Start, "a")
	b.Conditional("a", "cond", func(context.Context, any) (any, error) { return "b", nil }, "b")
	g := compile(t, b, graph.Options{Saver: s})
	v := func(n int64) saver.Version { return saver.IntVersion(n) }
	cp := saver.Checkpoint{V: 2, ID: "1f00fe48-5058-6a46-8001-086bffc73797", TS: "2025-03-14T00:00:00+00:00",
		Values:   map[string]saver.Value{"steps": saver.ValueOf([]string{"in", "a"}), "branch:a:cond:b": saver.ValueOf("a")},
		Versions: map[string]saver.Version{"__start__": v(2), "steps": v(3), "start:a": v(3), "branch:a:cond:b": v(3)},
		Seen:     map[string]map[string]saver.Version{"__input__": {}, "__start__": {"__start__": v(1)}, "a": {"start:a": v(3)}}}
	if _, err := s.Put(ctx, saver.Config{ThreadID: "t"}, cp, saver.Metadata{"source": "loop", "step": 1, "parents": map[string]any{}}, cp.Versions); err != nil {
		t.Fatal(err)
	}
	at := pregel.Thread("t")
	state, err := g.GetState(ctx, at)
	if err != nil || !slices.Equal(state.Next, []string{"b"}) {
		t.Fatalf("next %+v, %v", state, err)
	}
}

// Sixteen readers and writers of one graph: run with -race.
func TestOneGraphManyThreads(t *testing.T) {
	b := graph.New(steps()).Node("a", appends("a")).Node("b", appends("b")).Node("c", appends("c"))
	b.Edge(graph.Start, "a").Edge("a", "b").Edge("a", "c")
	g := compile(t, b, graph.Options{Saver: memory.New(memory.Options{})})
	errs := make(chan error, 16)
	for i := range 16 {
		go func() {
			at := pregel.Thread(string(rune('a' + i)))
			res, err := g.Invoke(ctx, at, map[string]any{"steps": []string{}})
			if err == nil && !slices.Equal(res.Map()["steps"].([]string), []string{"a", "b", "c"}) {
				err = errors.New("wrong order")
			}
			if err == nil {
				_, err = g.GetState(ctx, at)
			}
			errs <- err
		}()
	}
	for range 16 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}
